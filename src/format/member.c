/* SPDX-License-Identifier: Apache-2.0 */
#include "format/member.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/words.h"
#include "format/read_config.h"

void config_report(const struct config_check *check, enum config_part part, const char *file,
		   const char *format, ...)
{
	char message[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof message, format, args);
	va_end(args);
	check->report(check->context, part, file, message);
}

/* Another format beside ModelOpt's file: engines read the one or the other. */
static void check_other(const struct config_check *check, const struct format *format)
{
	const struct declaration here = config_read_declaration(check->detection->config);
	const struct declaration there = config_read_declaration(check->hf_quant_config);
	char first[SCHEME_NAME_SIZE], second[SCHEME_NAME_SIZE];

	if (!here.declared || !there.declared || !format || !strcmp(format->name, there.format) ||
	    here.scheme.granularity == there.scheme.granularity)
		return;
	scheme_name(&here.scheme, first);
	scheme_name(&there.scheme, second);
	config_report(check, CONFIG_KEYS, "hf_quant_config.json",
		      "it says %s, but config.json says %s: engines read the one or the other",
		      second, first);
}

void config_check_keys(const struct config_check *check)
{
	const struct detection *detection = check->detection;
	const struct format *format = config_format(detection->config);

	check_other(check, format);
	if (format && format->check)
		format->check(check);
	else if (!detection->declared)
		config_report(check, CONFIG_KEYS, "config.json",
			      "quant_method is '%s', which does not declare FP8: engines refuse "
			      "it or read codes as weights",
			      config_quant_method(detection->config));
}

bool config_declares_cache(const json_t *config)
{
	const json_t *keys = config_keys(config);
	const json_t *scheme = json_object_get(keys, "kv_cache_scheme");
	const json_t *group = json_object_get(json_object_get(config, "export"), "kv_cache_group");

	return json_array_size(group) ||
	       (json_is_object(scheme) && !json_is_true(json_object_get(scheme, "dynamic"))) ||
	       !strcasecmp(json_member_text(keys, "kv_cache_quant_algo"), "FP8");
}

static bool has_word(const struct member *row, const char *text)
{
	char word[WORD_SIZE];
	size_t n = strlen(text);

	if (n >= sizeof word)
		return false;
	for (size_t i = 0; i <= n; i++)
		word[i] = (char)(row->types & MEMBER_ANY_CASE ? tolower((unsigned char)text[i])
							      : text[i]);
	return words_find(row->words, word) >= 0;
}

static bool is_texts(const json_t *list)
{
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item) if (!json_is_string(item)) return false;
	return true;
}

/* Returns whether the value has one of the types, and is in their ranges. */
static bool fits(const struct member *row, const json_t *value)
{
	const unsigned types = row->types;
	struct tile tile;

	switch (json_typeof(value)) {
	case JSON_NULL:
		return types & MEMBER_NULL;
	case JSON_TRUE:
		return types & MEMBER_TRUE;
	case JSON_FALSE:
		return types & MEMBER_FALSE;
	case JSON_INTEGER:
		return types & MEMBER_NUMBER ||
		       (types & MEMBER_INT && json_integer_value(value) >= row->min &&
			json_integer_value(value) <= row->max);
	case JSON_REAL:
		return types & MEMBER_NUMBER;
	case JSON_STRING:
		return types & MEMBER_TEXT ||
		       (types & MEMBER_WORD && has_word(row, json_string_value(value)));
	case JSON_ARRAY:
		return (types & MEMBER_TEXTS && is_texts(value)) ||
		       (types & MEMBER_NO_TEXTS && !json_array_size(value)) ||
		       (types & MEMBER_TILE && config_tile(value, &tile));
	case JSON_OBJECT:
		return types & MEMBER_OBJECT;
	}
	return false;
}

static void add_words(struct buf *text, const char *words)
{
	for (size_t n; *words; words += n + (words[n] == '|')) {
		n = strcspn(words, "|");
		buf_printf(text, "%s'%.*s'", text->len ? " or " : "", (int)n, words);
	}
}

/* Appends what is expected: "null or an object". */
static void add_expected(struct buf *text, const struct member *row)
{
	static const struct {
		unsigned type;
		const char *words;
	} choices[] = {
		{ MEMBER_NULL, "null" },
		{ MEMBER_TRUE, "true" },
		{ MEMBER_FALSE, "false" },
		{ MEMBER_NUMBER, "a number" },
		{ MEMBER_TEXT, "a string" },
		{ MEMBER_TEXTS, "a list of strings" },
		{ MEMBER_NO_TEXTS, "an empty list" },
		{ MEMBER_TILE, "[rows, columns]" },
		{ MEMBER_OBJECT, "an object" },
	};

	if (row->types & MEMBER_WORD)
		add_words(text, row->words);
	if (row->types & MEMBER_INT && row->min == row->max)
		buf_printf(text, "%s%lld", text->len ? " or " : "", (long long)row->min);
	else if (row->types & MEMBER_INT)
		buf_printf(text, "%san integer from %lld to %lld", text->len ? " or " : "",
			   (long long)row->min, (long long)row->max);
	for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
		if (row->types & choices[i].type)
			buf_printf(text, "%s%s", text->len ? " or " : "", choices[i].words);
}

#define VALUE_SHOWN 40

static void report(const struct config_check *check, const char *file, const char *where,
		   const struct member *row, const json_t *value)
{
	struct buf expected = { 0 };
	char *shown = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

	add_expected(&expected, row);
	config_report(check, CONFIG_KEYS, file, "%s%s%s is %.*s%s, but must be %s: %s", where,
		      *where ? "." : "", row->key, VALUE_SHOWN, shown ? shown : "missing",
		      shown && strlen(shown) > VALUE_SHOWN ? "..." : "", expected.data,
		      row->effect);
	free(shown);
	buf_release(&expected);
}

bool member_check(const struct config_check *check, const char *file, const char *where,
		  const json_t *object, const struct member *rows)
{
	const char *reported = NULL;

	for (const struct member *row = rows; row->key; row++) {
		const json_t *value = json_object_get(object, row->key);
		unsigned engines = value ? row->engines : row->missing;

		if ((value && fits(row, value)) || !engine_has_bit(engines, check->target) ||
		    (reported && !strcmp(reported, row->key)))
			continue;
		report(check, file, where, row, value);
		reported = row->key;
	}
	return !reported;
}

void member_check_unknown(const struct config_check *check, const char *where, const json_t *object,
			  const struct member *rows)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		const struct member *row = rows;

		while (row->key && strcmp(row->key, key) != 0)
			row++;
		if (!row->key)
			config_report(check, CONFIG_KEYS, "config.json",
				      "%s has a key '%s' that is unknown to compressed-tensors: it "
				      "refuses to load",
				      where, key);
	}
}
