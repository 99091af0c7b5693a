/* SPDX-License-Identifier: Apache-2.0
 *
 * The facts of config.json that a forward pass reads, and proof that it leaves none out.  A key is
 * read by all architectures; or the row of an architecture lists it, with the value that
 * transformers assumes where it is missing; or it changes no number; or it is unknown.  An unknown
 * key that switches something on is refused, because the forward pass would ignore it.
 *
 * Source: transformers 5.23, configuration_<name>.py, and the keys that modeling_<name>.py reads.
 */
#ifndef FP8CONV_MODEL_FACTS_H
#define FP8CONV_MODEL_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* A key that an architecture reads beyond those that all read, or with another default. */
struct fact_row {
	const char *key;
	const char *otherwise; /* JSON: the value where the key is missing; NULL: none */
};

/* A key that changes no number of an architecture; a row for each value, if there are several. */
struct ignored_row {
	const char *key;
	const char *only; /* JSON: as long as it has this value; NULL: with any value */
};

/* What one architecture reads of config.json, or may ignore, beyond what all do.  The lists end
 * with a key of NULL. */
struct arch_facts {
	const struct fact_row *shared; /* with other architectures; NULL: nothing */
	const struct ignored_row *shared_ignored;
	struct fact_row keys[28]; /* these come first */
	struct ignored_row ignored[24];
};

/* Returns a new object: what an architecture reads of level, the object of the language model in
 * config.json, completed by the values of missing keys.  A value of null is as good as a missing
 * key, but keeps the default away.  ERR_INPUT, with the key and its value, for an unknown key, and
 * for a value that is not of the key's type. */
json_t *facts_read(const json_t *level, const struct arch_facts *arch, struct err *err);

/* Returns the first of the keys that the facts have, or the last one. */
#define FACT_KEY(facts, ...) fact_key(facts, (const char *const[]){ __VA_ARGS__, NULL })
const char *fact_key(const json_t *facts, const char *const *keys);

/* Return the value of a key, or `otherwise` where it is missing; a missing flag is false. */
double fact_number(const json_t *facts, const char *key, double otherwise);
size_t fact_count(const json_t *facts, const char *key, size_t otherwise); /* at most a billion */
bool fact_flag(const json_t *facts, const char *key);

/* Sets *size to the value of a key.  ERR_INPUT, with the key, unless it is an integer from 1 to
 * max. */
int fact_size(const json_t *facts, const char *key, size_t max, size_t *size, struct err *err);

/* Sets *n to a number of heads, or their size: from 1 to 65536.  ERR_INPUT with the place of the
 * value in config.json. */
int fact_heads(const char *place, const json_t *value, size_t *n, struct err *err);

/* Checks a value, and of an object its members, down to the objects in it.  Passes null
 * and keys without a type.  ERR_INPUT with the path of the key, such as "rope_parameters.factor",
 * and the value. */
int fact_check(const char *key, const json_t *value, struct err *err);

/* Sets the ERR_INPUT "config.json: 'KEY' is VALUE, WHY".  Returns -1. */
int fact_refuse(const char *key, const json_t *value, const char *why, struct err *err);

/* Sets the ERR_INPUT for a list that has n entries and not one for each layer.  Returns -1. */
int fact_refuse_length(const char *key, size_t n, size_t n_layers, struct err *err);

#endif
