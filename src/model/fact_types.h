/* SPDX-License-Identifier: Apache-2.0
 *
 * The types of the keys of config.json that a forward pass reads.  A value of another type is an
 * error that names the key: defaults are for missing keys alone.
 */
#ifndef FP8CONV_MODEL_FACT_TYPES_H
#define FP8CONV_MODEL_FACT_TYPES_H

#include <jansson.h>

#include "base/err.h"

/* Checks a value, and of an object its members, down to the objects in it.  Passes null
 * and keys without a type.  ERR_INPUT with the path of the key, such as "rope_parameters.factor",
 * and the value. */
int fact_check(const char *key, const json_t *value, struct err *err);

/* Sets the ERR_INPUT "config.json: 'KEY' is VALUE, WHY".  Returns -1. */
int fact_refuse(const char *key, const json_t *value, const char *why, struct err *err);

/* Sets the ERR_INPUT for a list that has n entries and not one for each layer.  Returns -1. */
int fact_refuse_length(const char *key, size_t n, size_t n_layers, struct err *err);

#endif
