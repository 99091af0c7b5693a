/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of a "quantization_config": which types and values loaders take, as a table.  A loader
 * that branches on a member reads another value as something else, or stops; a table has one row
 * for each such member, with the engines that the row holds for.
 */
#ifndef FP8CONV_FORMAT_MEMBER_H
#define FP8CONV_FORMAT_MEMBER_H

#include "format/check_config.h"

/* Types, of which a member may have several. */
enum {
	MEMBER_NULL = 1 << 0,
	MEMBER_TRUE = 1 << 1,
	MEMBER_FALSE = 1 << 2,
	MEMBER_BOOL = MEMBER_TRUE | MEMBER_FALSE,
	MEMBER_INT = 1 << 3,	/* from min to max */
	MEMBER_NUMBER = 1 << 4, /* any number */
	MEMBER_TEXT = 1 << 5,
	MEMBER_WORD = 1 << 6,	  /* one of words */
	MEMBER_TEXTS = 1 << 7,	  /* a list of strings */
	MEMBER_NO_TEXTS = 1 << 8, /* an empty list */
	MEMBER_TILE = 1 << 9,	  /* [rows, cols], both above 0 */
	MEMBER_OBJECT = 1 << 10,
	MEMBER_ANY_CASE = 1 << 11, /* of a word */
};

struct member {
	const char *key; /* NULL ends the table */
	unsigned types;
	unsigned engines;   /* bits (engine.h) of those that read another value wrong or stop */
	unsigned missing;   /* bits of those that do where the member is missing */
	const char *effect; /* what these engines do */
	const char *words;  /* "tensor|channel" */
	json_int_t min, max;
};

/* Rows without words or range, with words, and with a range. */
#define MEMBER_ROW(key, types, engines, missing, effect)         \
	{                                                        \
		key, types, engines, missing, effect, NULL, 0, 0 \
	}
#define MEMBER_WORDS(key, types, engines, missing, effect, words)               \
	{                                                                       \
		key, types | MEMBER_WORD, engines, missing, effect, words, 0, 0 \
	}
#define MEMBER_RANGE(key, types, engines, missing, effect, min, max)              \
	{                                                                         \
		key, types | MEMBER_INT, engines, missing, effect, NULL, min, max \
	}

/* Reports the members of an object that no loader in question takes; where is the path of the
 * object, "" for the configuration.  Of rows of one key, which stand together, only the first
 * reports.  Returns whether all are right. */
bool member_check(const struct config_check *check, const char *file, const char *where,
		  const json_t *object, const struct member *rows);

/* Reports the keys that no row has: the class of compressed-tensors that reads the object forbids
 * others. */
void member_check_unknown(const struct config_check *check, const char *where, const json_t *object,
			  const struct member *rows);

#endif
