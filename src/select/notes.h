/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes: what a user should know of a plan that is right all the same.
 */
#ifndef FP8CONV_SELECT_NOTES_H
#define FP8CONV_SELECT_NOTES_H

#include <stddef.h>

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

#endif
