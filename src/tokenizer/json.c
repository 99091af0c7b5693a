/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/json.h"

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
