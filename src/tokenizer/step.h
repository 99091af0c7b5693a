/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalizers and pre-tokenizers as a list of steps, each of which rewrites a text or splits it.
 * Sequences are flattened, and a component may become several steps (Metaspace: replace, prepend,
 * split).
 *
 * Order: steps_read_normalizer() and steps_read_pre_tokenizer() once; for each text and step,
 * step->rewrite() or step_split() with the step_state that the thread has for this step.
 */
#ifndef FP8CONV_TOKENIZER_STEP_H
#define FP8CONV_TOKENIZER_STEP_H

#include "base/json.h"
#include "tokenizer/regex.h"

#define MAX_STEPS  64  /* of the normalizer, and of the pre-tokenizer */
#define MAX_GROWTH 256 /* bytes that all steps may produce per byte of text: 4 for each step */

enum behavior { REMOVED, ISOLATED, MERGED_WITH_PREVIOUS, MERGED_WITH_NEXT, CONTIGUOUS };

struct step;
struct step_state;

/* A part of a text, valid UTF-8. */
struct text_range {
	const char *text;
	size_t len;
	bool first; /* the range begins the whole text */
};

/* Appends the rewritten range to out, which gets at most state->room bytes from a text in the file:
 * then ERR_INPUT.  The range is not empty and does not lie in out. */
typedef int step_fn(const struct step *step, struct step_state *state,
		    const struct text_range *range, struct buf *out, struct err *err);

struct step {
	step_fn *rewrite; /* NULL: a split */
	struct regex *regex;
	struct buf content;	/* text to prepend, or to replace with */
	enum behavior behavior; /* of a split */
	bool invert;		/* the pattern matches the words, not their delimiters */
	bool left, right;	/* sides to strip */
	bool only_first;	/* prepend to the first range of a text only */
	const void *form;	/* libunistring's uninorm_t */
};

struct steps {
	struct step step[MAX_STEPS];
	size_t n;
};

/* The memory of one step in one thread.  A zeroed struct is empty. */
struct step_state {
	struct regex_search search; /* with the work of the caller */
	struct buf out;
	size_t room; /* bytes that a step may append */
};

/* ERR_INPUT for steps that produce more than they may. */
int step_too_much(struct err *err);

void steps_release(struct steps *steps);
void step_state_release(struct step_state *state);

/* The step functions. */
step_fn step_normalize; /* to .form */
step_fn step_lowercase;
step_fn step_strip;
step_fn step_strip_marks;
step_fn step_prepend; /* .content */
/* .content, unless the text begins with it or .only_first rules it out */
step_fn step_prepend_once;
step_fn step_replace; /* matches of .regex by .content */
step_fn step_bytes;   /* each byte by GPT-2's character for it */

/* Read the value of "normalizer" or "pre_tokenizer"; NULL or null means no steps.  The caller
 * releases steps, also on failure.  ERR_INPUT with the key and the type, without the name of the
 * file. */
int steps_read_normalizer(struct steps *steps, const json_t *json, struct err *err);
int steps_read_pre_tokenizer(struct steps *steps, const json_t *json, struct err *err);

/* Takes the parts of a split text that are not empty, in order.  Returns -1 to stop the split. */
struct piece_taker {
	int (*take)(void *context, const char *text, size_t len, struct err *err);
	void *context;
};

/* Splits the range and calls taker for each part.  Fails where taker does, or with ERR_INPUT where
 * the pattern exceeds its limit of steps.  The member `first` of the range does not matter. */
int step_split(const struct step *step, struct step_state *state, const struct text_range *range,
	       const struct piece_taker *taker, struct err *err);

#endif
