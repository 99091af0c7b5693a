/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a manifest that came with a checkpoint, by type and range: whoever can write the
 * checkpoint can write the manifest.  A member that is missing or null has the default of its
 * reader; members that nothing reads may be anything.
 */
#include "ckpt/manifest.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "num/scale.h"

enum value_kind { VALUE_TEXT, VALUE_FLAG, VALUE_OBJECT, VALUE_LIST, VALUE_WORD, VALUE_RANGE };

/* A member and what it may be.  Ranges are as in the options that wrote them. */
struct manifest_member {
	const char *object, *key; /* object: "" is the manifest itself */
	const char *expected;
	const char *words; /* VALUE_WORD */
	double max;	   /* VALUE_RANGE: from 0 to it */
	enum value_kind kind;
	bool whole; /* VALUE_RANGE: an integer */
};

#define TEXT(object, key)                                           \
	{                                                           \
		object, key, "a string", NULL, 0, VALUE_TEXT, false \
	}
#define OBJECT(object, key)                                            \
	{                                                              \
		object, key, "an object", NULL, 0, VALUE_OBJECT, false \
	}
#define LIST(object, key)                                         \
	{                                                         \
		object, key, "a list", NULL, 0, VALUE_LIST, false \
	}
#define FLAG(object, key)                                                \
	{                                                                \
		object, key, "true or false", NULL, 0, VALUE_FLAG, false \
	}
#define COUNT(object, key)                                                            \
	{                                                                             \
		object, key, "an integer from 0 on", NULL, DBL_MAX, VALUE_RANGE, true \
	}
#define NUMBER(object, key)                                                          \
	{                                                                            \
		object, key, "a number from 0 on", NULL, DBL_MAX, VALUE_RANGE, false \
	}
#define WORD(object, key, words)                                \
	{                                                       \
		object, key, words, words, 0, VALUE_WORD, false \
	}

/* An object stands before its members. */
static const struct manifest_member members[] = {
	TEXT("", "tool"),
	TEXT("", "version"),
	TEXT("", "command"),
	FLAG("", "finished"),
	LIST("", "inputs"),
	LIST("", "shards"),
	LIST("", "files"),
	OBJECT("", "options"),
	TEXT("options", "recipe"),
	TEXT("options", "format"),
	TEXT("options", "target"),
	TEXT("options", "profile"),
	TEXT("options", "dtype"),
	LIST("options", "include"),
	LIST("options", "exclude"),
	LIST("options", "tensor"),
	FLAG("options", "ragged"),
	FLAG("options", "requantize"),
	OBJECT("options", "scales"),
	WORD("options.scales", "fp8_format", FP8_FORMAT_WORDS),
	FLAG("options.scales", "pow2"),
	WORD("options.scales", "scale_arith", SCALE_ARITH_WORDS),
	WORD("options.scales", "mx_scale", MX_RULE_WORDS),
	{ "options.scales", "amax_epsilon", "a number from 0 to 3.4e38", NULL, FLT_MAX, VALUE_RANGE,
	  false },
	{ "options.scales", "margin", "an integer from 0 to 32", NULL, MARGIN_LIMIT, VALUE_RANGE,
	  true },
	OBJECT("options", "rounding"),
	COUNT("options.rounding", "tokens"),
	COUNT("options.rounding", "sequences"),
	TEXT("options.rounding", "data_sha256"),
	LIST("options.rounding", "domains"),
	TEXT("options", "tensors"),
	COUNT("options", "max_shard_size"),
	OBJECT("", "rounding"),
	TEXT("rounding", "rounding"),
	NUMBER("rounding", "shrink"),
};

/* Those of the records in the lists of files. */
static const struct manifest_member record_members[] = {
	TEXT("", "name"),	 COUNT("", "size"),	   TEXT("", "sha256"),
	TEXT("", "mtime"),	 TEXT("", "header_crc32"), TEXT("", "state"),
	TEXT("", MANIFEST_PLAN), TEXT("", MANIFEST_CRC),   TEXT("", MANIFEST_PRESERVED_CRC),
};

static bool in_range(const struct manifest_member *member, const json_t *value)
{
	double number = json_number_value(value);

	return (member->whole ? json_is_integer(value) : json_is_number(value)) && number >= 0 &&
	       number <= member->max;
}

static bool is_valid(const struct manifest_member *member, const json_t *value)
{
	switch (member->kind) {
	case VALUE_TEXT:
		return json_is_string(value);
	case VALUE_FLAG:
		return json_is_boolean(value);
	case VALUE_OBJECT:
		return json_is_object(value);
	case VALUE_LIST:
		return json_is_array(value);
	case VALUE_WORD:
		return words_find(member->words, json_string_value(value)) >= 0;
	case VALUE_RANGE:
		return in_range(member, value);
	}
	return false;
}

/* Checks a member of an object; path is that of the object, for the message. */
static int check(const struct manifest_member *member, const json_t *object, const char *path,
		 struct err *err)
{
	const json_t *value = json_object_get(object, member->key);
	char *text;

	if (!value || json_is_null(value) || is_valid(member, value))
		return 0;
	text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
	err_set(err, ERR_INPUT, "member '%s%s%s' is %.200s, not %s", path, *path ? "." : "",
		member->key, text ? text : "a value", member->expected);
	free(text);
	return -1;
}

/* Returns the object at a path of names with dots between. */
static const json_t *object_at(const json_t *object, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, ".");
		char *key = xstrndup(path, n);

		object = json_object_get(object, key);
		free(key);
		path += n + (path[n] == '.');
	}
	return object;
}

static int check_records(const json_t *list, const char *name, struct err *err)
{
	size_t i;
	json_t *record;

	json_array_foreach(list, i, record)
	{
		if (!json_is_object(record))
			return err_set(err, ERR_INPUT, "item %zu of '%s' is not an object", i,
				       name);
		for (size_t k = 0; k < sizeof record_members / sizeof *record_members; k++)
			if (check(&record_members[k], record, name, err))
				return -1;
	}
	return 0;
}

int manifest_values_check(const json_t *manifest, struct err *err)
{
	static const char *const lists[] = { "inputs", "shards", "files" };

	if (!json_is_object(manifest))
		return err_set(err, ERR_INPUT, "it is not an object");
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (check(&members[i], object_at(manifest, members[i].object), members[i].object,
			  err))
			return -1;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		if (check_records(json_object_get(manifest, lists[i]), lists[i], err))
			return -1;
	return 0;
}
