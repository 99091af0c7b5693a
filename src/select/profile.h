/* SPDX-License-Identifier: Apache-2.0
 *
 * What a family of models asks for beyond the general rules: by its vendor's own release, or
 * because an engine reads it so.  The table is data (profile_rows.c), and no code knows a family.
 *
 * A row acts by the quant_method of config.json, or a model_type (the top level, then the language
 * model's), and if no family of the table has one of these, by architectures[0].  The first row
 * that matches a module decides.
 */
#ifndef FP8CONV_SELECT_PROFILE_H
#define FP8CONV_SELECT_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/words.h"
#include "format/format.h"
#include "names/config.h"
#include "names/fusion.h"

/* What of the table applies: all, what engines need, nothing. */
enum profile_level { PROFILE_VENDOR, PROFILE_ENGINE, PROFILE_NONE };
#define PROFILE_WORDS "vendor|engine|none" /* in the order of enum profile_level */

/* clang-format off */
/* What a row asks for, in the words of `fp8conv families`, which prints the phrase for a row that
 * says nothing itself. */
#define PROFILE_ACTIONS(X) \
	X(PROFILE_KEEP, "keep", "kept in high precision") \
	/* engines build the module so, and need no name of it */ \
	X(PROFILE_BARE, "bare", "kept in high precision") \
	X(PROFILE_GENERAL, "general", "as the general rules say") \
	/* engines load it with a partial block of rows at its end */ \
	X(PROFILE_RAGGED, "ragged", "may end in a partial block of rows") \
	/* merged by engines in the order of the pattern's braces */ \
	X(PROFILE_BOND, "fuse", "engines merge them: quantized together or not at all") \
	X(PROFILE_STACK, "stack", "the experts stay in one 3-D tensor") \
	X(PROFILE_SPLIT, "split", "each expert's matrix becomes a tensor") \
	/* an embedding table that becomes FP8 with one scale for the model */ \
	X(PROFILE_TABLE, "table", "becomes FP8 with one scale for the model") \
	/* the pattern is a member of config.json: "expert_dtype=fp8" */ \
	X(PROFILE_CONFIG, "config", "is written to config.json") \
	/* the pattern is the format that a job takes by itself */ \
	X(PROFILE_FORMAT, "format", "is the format where the command names none") \
	/* engines do not load it in FP8: a note, and refused for a target */ \
	X(PROFILE_NOT_LOADED, "not-loaded", "is not loaded in FP8") \
	/* engines do not load the scales of its KV cache: a note */ \
	X(PROFILE_CACHE, "cache", "scales of its KV cache are not loaded") \
	/* engines stop at these scales: a note, and refused for a target */ \
	X(PROFILE_CACHE_STOP, "cache-stop", NULL) \
	/* "OLD=NEW": how engines name modules in a skip list (engine_names.h) */ \
	X(PROFILE_NAME, "name", "its name in a skip list") \
	/* `said` is an entry that engines need where such a module is kept; "#" in it is the \
	 * number of the module's layer, and hf has it without "re:" */ \
	X(PROFILE_ENTRY, "entry", "an entry of the skip list where it is kept")

enum profile_action { PROFILE_ACTIONS(WORDS_ID) N_PROFILE_ACTIONS };
/* clang-format on */

extern const struct profile_action_words {
	const char *word, *phrase;
} profile_actions[N_PROFILE_ACTIONS];

/* Conditions of a row, in three groups; a group without a bit always holds. */
enum {
	ON_TENSOR = 1 << 0, /* the recipe's granularity */
	ON_CHANNELWISE = 1 << 1,
	ON_BLOCKWISE = 1 << 2,
	ON_MXFP8 = 1 << 3,
	ON_RECIPES = ON_TENSOR | ON_CHANNELWISE | ON_BLOCKWISE | ON_MXFP8,
	ON_HF = 1 << 4, /* the format */
	ON_COMPRESSED = 1 << 5,
	ON_MODELOPT = 1 << 6,
	ON_FORMATS = ON_HF | ON_COMPRESSED | ON_MODELOPT,
	FOR_VLLM = 1 << 7, /* an engine that must load the result */
	FOR_SGLANG = 1 << 8,
	FOR_TRTLLM = 1 << 9,
	FOR_TRANSFORMERS = 1 << 10,
	FOR_ENGINES = FOR_VLLM | FOR_SGLANG | FOR_TRTLLM | FOR_TRANSFORMERS,
};

struct profile_row {
	/* names between blanks, of model_type or architectures[0]; "*" at the end of a name for any
	 * text.  NULL ends the table. */
	const char *families;
	/* on the module's path, in whole segments: "*" for any number of segments, and for any text
	 * within one; one list "{a,b}" */
	const char *pattern;
	enum profile_action action;
	bool vendor;	    /* the choice of a vendor's release; else a need of an engine */
	unsigned on;	    /* conditions; 0: always */
	const char *said;   /* the reason to keep a module, or the note; else NULL */
	const char *source; /* "TensorRT-LLM #14759" */
};

extern const struct profile_row profile_rows[];

/* Return the condition that a granularity, a format or an engine meets. */
unsigned profile_on_granularity(enum granularity granularity);
unsigned profile_on_format(const struct format *format);
unsigned profile_on_engine(enum engine engine);

/* The rows that apply to one job. */
struct profile {
	enum profile_level level;
	uint64_t n_layers; /* of the language model; 0: config does not say */
	size_t n;
	const struct profile_row **rows;
};

/* Takes the rows of the model's family, each once, in the order of the table; with level
 * PROFILE_NONE only rows of engines' names, which choose nothing. */
void profile_make(struct profile *profile, const struct model_config *config,
		  enum profile_level level);
void profile_release(struct profile *profile);

/* Returns the conditions that a job meets: its recipe's granularity, its format, and its target;
 * without a target all engines. */
unsigned profile_conditions(const struct format *format, const struct scheme *scheme,
			    enum engine target);

/* A row that matches a module. */
struct profile_match {
	const struct profile_row *row; /* NULL: none */
	int position;		       /* in the braces of the pattern, from 0 */
};

/* Finds the first row that decides about the module of a tensor ("X" of "X.weight"). */
struct profile_match profile_find(const struct profile *profile, const char *tensor, unsigned on);

/* Returns the next row of an action that decides about no single module (CONFIG and those after
 * it), and NULL after the last.  before: the row returned last, NULL at first. */
const struct profile_row *profile_next(const struct profile *profile, enum profile_action action,
				       unsigned on, const struct profile_row *before);

/* Sets *fusion to the set of weights that engines merge with this one: that of the row, or, if the
 * row bonds nothing, the one of all families.  Returns false if engines do not merge it. */
bool profile_fusion(const struct profile_match *match, const char *tensor, struct fusion *fusion);

/* Whether the pattern matches the module of a tensor; sets *position as in profile_match. */
bool profile_pattern_matches(const char *pattern, const char *tensor, int *position);

#endif
