/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/json.h"

#include <string.h>

#define MAX_PART  ((size_t)4 << 20)  /* bytes of a member that has no list of tokens */
#define MAX_ADDED ((size_t)32 << 20) /* bytes of added_tokens: 100,000 and more */

const char *json_member_string(const json_t *object, const char *where, const char *key,
			       size_t *len, struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (!json_is_string(value)) {
		err_set(err, ERR_INPUT, "%s has no string '%s'", where, key);
		return NULL;
	}
	if (len)
		*len = json_string_length(value);
	return json_string_value(value);
}

int json_member_bool(const json_t *object, const char *where, const char *key, int fallback,
		     bool *value, struct err *err)
{
	const json_t *json = json_object_get(object, key);

	if (json_is_boolean(json))
		*value = json_is_true(json);
	else if (fallback >= 0 && (!json || json_is_null(json)))
		*value = fallback;
	else
		return err_set(err, ERR_INPUT, "%s has no boolean '%s'", where, key);
	return 0;
}

const json_t *json_member_array(const json_t *object, const char *where, const char *key,
				struct err *err)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_array(value))
		return value;
	err_set(err, ERR_INPUT, "%s has no list '%s'", where, key);
	return NULL;
}

int json_token_id(const json_t *json, const char *where, uint32_t *id, struct err *err)
{
	json_int_t value = json_integer_value(json);

	if (!json_is_integer(json) || value < 0 || value > MAX_TOKEN_ID)
		return err_set(err, ERR_INPUT, "%s has an id that is not from 0 to %d", where,
			       MAX_TOKEN_ID);
	*id = (uint32_t)value;
	return 0;
}

/* Trees of JSON need thirty times their text and more. */
static int check_length(const struct json_member *member, struct err *err)
{
	size_t limit = strcmp(member->key, "added_tokens") != 0 ? MAX_PART : MAX_ADDED;

	if (member->value.len <= limit)
		return 0;
	return err_set(err, ERR_INPUT, "member '%s' is %zu bytes long, more than the limit (%zu)",
		       member->key, member->value.len, limit);
}

/* Returns a member as a value; NULL with ERR_INPUT. */
static json_t *read_value(struct large_member *large, const struct json_member *member,
			  struct err *err)
{
	for (; large->key; large++) {
		if (strcmp(large->key, member->key) != 0)
			continue;
		large->text = member->value;
		return json_null();
	}
	return check_length(member, err) ? NULL : json_decode(member->value, err);
}

int json_read_members(struct json_text object, struct large_member *large, json_t *members,
		      struct err *err)
{
	struct json_members walk = { .text = object };
	struct json_member member;
	int rc;

	while ((rc = json_members_next(&walk, &member, err)) > 0) {
		json_t *value = NULL;

		rc = -1;
		if (json_object_get(members, member.key))
			err_set(err, ERR_INPUT, "duplicate member '%s'", member.key);
		else
			value = read_value(large, &member, err);
		if (!value || json_object_set_new(members, member.key, value))
			break;
	}
	json_members_release(&walk);
	return rc;
}
