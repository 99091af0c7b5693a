/* SPDX-License-Identifier: Apache-2.0
 *
 * Which matrices of a checkpoint are quantized, with which recipe, and for all others the reason
 * why they are kept.
 *
 * Order: selection_make(); selection_keep() as needed, then selection_settle();
 * selection_release().
 */
#ifndef FP8CONV_SELECT_SELECT_H
#define FP8CONV_SELECT_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/buf.h"
#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "format/engine.h"
#include "recipe/recipe.h"
#include "select/named.h"
#include "select/profile.h"
#include "source/unit.h"
#include "base/text.h"
#include "base/words.h"

/* clang-format off */
/* The kinds, in the order in which notes are printed, and the words that programs read. */
#define NOTES(X) \
	X(NOTE_MOSTLY_KEPT, "mostly-kept") \
	X(NOTE_EXPERTS_UNKNOWN, "experts-unknown") \
	X(NOTE_LOW_BIT_INEXACT, "low-bit-inexact") \
	X(NOTE_NOT_LOADED, "not-loaded") \
	/* an engine does not load the scheme in this format */ \
	X(NOTE_FORMAT_NOT_LOADED, "format-not-loaded") \
	X(NOTE_OTHER_NAMES, "other-names") /* an engine looks for other names of scales */ \
	/* transformers reads weights of partial blocks wrong */ \
	X(NOTE_PARTIAL_BLOCKS, "partial-blocks") \
	X(NOTE_OVERRIDES_ENGINE, "overrides-engine") \
	X(NOTE_CALIBRATION_UNFINISHED, "calibration-unfinished") \
	X(NOTE_UNCOVERED, "uncovered") /* calibration has too few tokens of modules */ \
	X(NOTE_INVERTED, "inverted") /* the source's scales divide */ \
	/* scales and zero points that a format has not */ \
	X(NOTE_SCALES_LEFT_OUT, "scales-left-out") \
	X(NOTE_STATES_LEFT_OUT, "states-left-out") /* of TransformerEngine's modules */ \
	X(NOTE_ACTIVATIONS, "activations") /* engines quantize activations now */ \
	X(NOTE_PATTERN_UNUSED, "pattern-unused") \
	X(NOTE_OUTPUT_INSIDE, "output-inside") /* the output lies inside the model */ \
	X(NOTE_OUTPUT_BESIDE, "output-beside") /* weight files of others lie in the output */ \
	X(NOTE_NO_CONFIG, "no-config") /* the source has no config.json, so none is written */ \
	X(NOTE_README_COPIED, "readme-copied") /* the output gets the source's README.md */ \
	/* the output gets a Git LFS pointer in the place of a file */ \
	X(NOTE_POINTER_COPIED, "pointer-copied") \
	X(NOTE_INDEX_STALE, "index-stale") /* the source's index names files of another build */ \
	X(NOTE_FILES_LEFT_OUT, "files-left-out") /* files beside the model are not copied */ \
	/* the source lacks tensors that its config.json asks for */ \
	X(NOTE_INCOMPLETE, "incomplete") \
	X(NOTE_SMALL_WEIGHTS, "small-weights") /* engines' kernels refuse quantized weights */

enum note_kind { NOTES(WORDS_ID) N_NOTE_KINDS };
/* clang-format on */

struct note {
	enum note_kind kind;
	char *tensor;  /* the first one that it is about; NULL: about no tensor */
	char *message; /* one line */
};

/* By kind, and within a kind as they were added.  Zeroed: empty. */
struct notes {
	size_t n;
	struct note *list;
};

/* Returns the word that programs read: "mostly-kept". */
const char *note_kind_name(enum note_kind kind);

/* Adds a note with a copy of tensor, which may be NULL. */
void notes_add(struct notes *notes, enum note_kind kind, const char *tensor, const char *format,
	       ...) __attribute__((format(printf, 4, 5)));

void notes_release(struct notes *notes);

struct role_facts;

/* Is the tensor the matrix of a linear module, or a layer's experts, whatever becomes of it?
 * facts: of the tensor's name. */
bool tensor_is_linear(const struct st_tensor *tensor, const struct role_facts *facts);

struct select_rule {
	const char *pattern;	     /* PCRE2 on the full tensor name in the source */
	const struct recipe *recipe; /* NULL: keep */
};

struct select_rules {
	struct select_rule *list;
	size_t n;
};

struct select_options {
	const struct recipe *recipe; /* of tensors that no rule matches */
	struct texts include; /* patterns; if there are any, only matching tensors are quantized */
	struct texts exclude; /* patterns; matching tensors are kept ("excluded") */
	/* --tensor; the last match wins, and overrides lists and roles (not shapes) */
	struct select_rules rules;
	const struct named *named; /* --tensors, which comes before all of these; NULL: none */
	bool ragged;	 /* blockwise also if a dimension is not a multiple of the block */
	bool requantize; /* read FP8 and low-bit weights of the source through their scales */
	const struct profile *profile; /* the rows of the model's family; NULL: none */
	const struct format *format;   /* of the output; NULL: the recipe's default */
	enum engine target;	       /* decides about rows of the profile, and ragged ones */
	bool advise;		       /* make notes on the whole */
	int tp;			       /* 0, or the tensor-parallel size that must load */
	bool writes_nothing;	       /* codes of the source may be kept */
};

struct selection {
	size_t n_units;
	struct unit *units; /* by source shard, then source offset, then expert, gate before up */
	struct arena names; /* of matrices of fused experts */
	struct low_bit low_bit; /* the low-bit weights of the source */
	size_t n_quantized;
	size_t n_scale_groups;
	size_t n_linear; /* linear weights, kept ones included */
	size_t n_linear_kept;
	int tp[7]; /* the tensor-parallel sizes of 1, 2, 4 .. 64 that load */
	size_t n_tp;
	struct notes notes;
	bool writes_nothing; /* of the options */
};

/* Makes the selection; checkpoint must outlive it.  ERR_USAGE if nothing can be quantized, and for
 * impossible options: recipes that differ within weights that engines merge, FP8 sources without
 * requantize, a tp that does not load (the message names the tensor).  ERR_INPUT for experts whose
 * shapes fit several layouts. */
int selection_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct select_options *options, struct err *err);

/* Selects all linear weights by the recipe that accepts any shape, so that fused experts are cut
 * into units as engines have them.  The selection is empty where that is not possible. */
void selection_make_all(struct selection *selection, const struct checkpoint *checkpoint);

/* Keeps unit i for `reason`, and its joint set: the weights that engines merge with it, all experts
 * of its layer.  Indices stay.  selection_settle() must follow before the units are used. */
void selection_keep(struct selection *selection, size_t i, const char *reason);

/* Joins the matrices of kept fused experts into one unit again, and counts units.  INDICES CHANGE
 * if there were any.  ERR_USAGE if no unit is left to quantize, or an FP8 tensor would be kept. */
int selection_settle(struct selection *selection, struct err *err);

/* Adds why a unit with an obstacle does not load. */
void selection_put_obstacle(struct buf *text, const struct unit *unit);

/* Returns the first quantized unit that vLLM and SGLang do not load even on one device, or NULL. */
const struct unit *selection_obstacle(const struct selection *selection);

/* Returns the first unit of source shard `shard`, or of a later one; n_units if there is none: the
 * units of a shard end where the units of shard + 1 begin. */
size_t selection_shard_begin(const struct selection *selection, size_t shard);

void selection_release(struct selection *selection);

#endif
