/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of the objects in a tokenizer.json, with errors that name the place: "pre_tokenizer[1]
 * has no 'pattern'".
 */
#ifndef FP8CONV_TOKENIZER_JSON_H
#define FP8CONV_TOKENIZER_JSON_H

#include <stdbool.h>

#include "base/json.h"

/* The string member `key`; len may be NULL.  NULL with ERR_INPUT. */
const char *json_member_string(const json_t *object, const char *where, const char *key,
			       size_t *len, struct err *err);

/* The boolean member `key`; fallback where it is missing or null.  fallback -1: it is required. */
int json_member_bool(const json_t *object, const char *where, const char *key, int fallback,
		     bool *value, struct err *err);

/* The array member `key`; NULL with ERR_INPUT. */
const json_t *json_member_array(const json_t *object, const char *where, const char *key,
				struct err *err);

/* A token id from 0 to MAX_TOKEN_ID. */
#define MAX_TOKEN_ID ((1 << 26) - 1)
int json_token_id(const json_t *json, const char *where, uint32_t *id, struct err *err);

#endif
