/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of the objects in a tokenizer.json.  All functions fail with ERR_INPUT where a member is
 * missing or of another type; `where` is the place for the message: "pre_tokenizer[1] has no
 * 'pattern'".
 */
#ifndef FP8CONV_TOKENIZER_JSON_H
#define FP8CONV_TOKENIZER_JSON_H

#include <stdbool.h>

#include "base/json.h"

/* Returns the string member `key`, which object owns, and its length in bytes in *len (may be
 * NULL).  Returns NULL with ERR_INPUT. */
const char *json_member_string(const json_t *object, const char *where, const char *key,
			       size_t *len, struct err *err);

/* Reads the boolean member `key`.  *value becomes fallback where it is missing or null, unless
 * fallback is -1: then the member is required. */
int json_member_bool(const json_t *object, const char *where, const char *key, int fallback,
		     bool *value, struct err *err);

/* Returns the array member `key`, which object owns, or NULL with ERR_INPUT. */
const json_t *json_member_array(const json_t *object, const char *where, const char *key,
				struct err *err);

/* A member that is left as text: those of a model have hundreds of thousands of values. */
struct large_member {
	const char *key;
	struct json_text text; /* len 0: missing */
};

/* Reads the other members of an object, at most 4 MiB each (32 MiB of added_tokens), into
 * `members`, where the large ones are null.  large ends with a key of NULL. */
int json_read_members(struct json_text object, struct large_member *large, json_t *members,
		      struct err *err);

/* Reads a token id from 0 to MAX_TOKEN_ID. */
#define MAX_TOKEN_ID ((1 << 26) - 1)
int json_token_id(const json_t *json, const char *where, uint32_t *id, struct err *err);

#endif
