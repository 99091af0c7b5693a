/* SPDX-License-Identifier: Apache-2.0
 *
 * The front matter of a model card: the keys that a card of the quantized model repeats.
 *
 * A card is a README.md that begins with "---", lines of YAML, and "---".  This reader takes what
 * it can be sure of, and leaves out the rest: "key: value" at the beginning of a line, where the
 * value is a plain or quoted text, a list of these in brackets, or one with a "- " line for each.
 */
#ifndef FP8CONV_REPORT_CARD_H
#define FP8CONV_REPORT_CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"

enum card_key {
	CARD_BASE_MODEL,
	CARD_RELATION,
	CARD_LANGUAGE,
	CARD_LICENSE,
	CARD_LICENSE_NAME,
	CARD_LICENSE_LINK,
	CARD_PIPELINE_TAG,
	CARD_LIBRARY_NAME,
	N_CARD_KEYS
};

/* In the order of enum card_key. */
extern const char *const card_keys[N_CARD_KEYS];

#define CARD_LIMIT	((size_t)64 << 10) /* bytes of a card that are read */
#define CARD_MAX_VALUES 128		   /* of a list; more are left out */
#define CARD_MAX_LENGTH 256		   /* bytes of a value; a longer one is left out */

/* The values of a key. */
struct card_value {
	size_t n;     /* 0: the card does not say it */
	char **texts; /* valid UTF-8 without control characters */
};

/* A zeroed card is empty. */
struct card {
	struct card_value values[N_CARD_KEYS];
};

/* Reads a text, of which only the first CARD_LIMIT bytes count.  A text without front matter gives
 * an empty card. */
void card_parse(struct card *card, const char *text, size_t n);

/* The same for README.md in a directory; a missing one gives an empty card. */
int card_read(struct card *card, const struct io *io, const char *directory, struct err *err);

/* Returns the only value of a key, or the first of several; NULL without one. */
const char *card_text(const struct card *card, enum card_key key);

bool card_is_empty(const struct card *card);
void card_release(struct card *card);

#endif
