/* SPDX-License-Identifier: Apache-2.0
 *
 * What a value of a pickle is.
 */
#include <string.h>

#include "torch/pickle.h"

const struct pickle_value *pickle_argument(const struct pickle_value *call, size_t i)
{
	const struct pickle_value *tuple = call->kind == PICKLE_CALL ? call->items[1] : call;

	return tuple->kind == PICKLE_TUPLE && i < tuple->n ? tuple->items[i] : NULL;
}

bool pickle_is_call(const struct pickle_value *value, const char *global)
{
	return value->kind == PICKLE_CALL && !strcmp(value->items[0]->text, global);
}

const struct pickle_value *pickle_get(const struct pickle_value *dict, const char *key)
{
	for (size_t i = 0; dict && dict->kind == PICKLE_DICT && i + 1 < dict->n; i += 2)
		if (dict->items[i]->kind == PICKLE_TEXT && !strcmp(dict->items[i]->text, key))
			return dict->items[i + 1];
	return NULL;
}

/* Undoes UTF-8 of characters below 256.  Returns their number; SIZE_MAX for anything else. */
static size_t decode_latin1(const char *text, size_t n, unsigned char *bytes)
{
	size_t n_bytes = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x80)
			bytes[n_bytes++] = c;
		else if ((c == 0xc2 || c == 0xc3) && i + 1 < n && (text[i + 1] & 0xc0) == 0x80)
			bytes[n_bytes++] = (unsigned char)(c << 6 | (text[++i] & 0x3f));
		else
			return SIZE_MAX;
	}
	return n_bytes;
}

const unsigned char *pickle_bytes(const struct pickle_value *value, struct arena *arena, size_t *n)
{
	const struct pickle_value *text, *codec;
	unsigned char *bytes;

	if (value->kind == PICKLE_BYTES) {
		*n = value->n;
		return (const unsigned char *)arena_text(arena, value->text, value->n);
	}
	if (!pickle_is_call(value, "_codecs encode"))
		return NULL;
	text = pickle_argument(value, 0);
	codec = pickle_argument(value, 1);
	if (!text || (text->kind != PICKLE_TEXT && text->kind != PICKLE_DATA) || !codec ||
	    codec->kind != PICKLE_TEXT || strcmp(codec->text, "latin1") != 0)
		return NULL;
	bytes = arena_alloc(arena, text->n + 1);
	*n = decode_latin1(text->text, text->n, bytes);
	return *n == SIZE_MAX ? NULL : bytes;
}
