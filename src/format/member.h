/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks of a "quantization_config".  The row of each format (format.h) checks the keys of that
 * format and reports through a callback, so that formats do not know their callers.
 *
 * Members: which types and values loaders take, as a table.  A loader
 * that branches on a member reads another value as something else, or stops; a table has one row
 * for each such member, with the engines that the row holds for.
 */
#ifndef FP8CONV_FORMAT_MEMBER_H
#define FP8CONV_FORMAT_MEMBER_H

#include <jansson.h>

#include "format/detect.h"

/* The subject of a report. */
enum config_part {
	CONFIG_KEYS, /* keys that loaders require */
	CONFIG_KEPT, /* the list of modules in high precision */
};

struct config_check {
	const struct detection *detection; /* whose config, not NULL, is checked */
	const json_t *hf_quant_config;	   /* hf_quant_config.json; NULL: missing */
	const json_t *kept;	/* the list of modules in high precision; NULL: missing */
	const bool *fp8_groups; /* of each group of modules: it has FP8 weights */
	enum engine target;	/* checks what this engine reads; ENGINE_ANY: what any does */

	/* Called once for each problem.  message is one line, valid during the call. */
	void (*report)(void *context, enum config_part part, const char *file, const char *message);
	void *context;
};

/* Checks the configuration of a checkpoint that declares FP8 or has FP8 weights. */
void config_check_keys(const struct config_check *check);

/* Whether a configuration declares scales of the KV cache in the files: not where they are found as
 * the cache fills, as compressed-tensors may say.  config may be NULL. */
bool config_declares_cache(const json_t *config);

/* For checkers: formats the message and calls report. */
void config_report(const struct config_check *check, enum config_part part, const char *file,
		   const char *format, ...) __attribute__((format(printf, 4, 5)));

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
