/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/job_options.h"

#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "cli/print/path.h"
#include "recipe/recipe.h"

/* How a member is written as an option. */
enum member_kind {
	MEMBER_TEXT,  /* --option TEXT, unless it is the default */
	MEMBER_FLAG,  /* --option where true */
	MEMBER_COUNT, /* --option N, where there is one */
	MEMBER_LIST,  /* --option TEXT for each element */
	MEMBER_FILE,  /* --option FILE, where it is not null: no record has a path */
};

struct recorded_option {
	const char *key;
	enum member_kind kind;
	const char *option;
	const char *other; /* MEMBER_TEXT: the default */
};

static const struct recorded_option members[] = {
	{ "target", MEMBER_TEXT, "target", "any" },
	{ "profile", MEMBER_TEXT, "profile", "vendor" },
	{ "include", MEMBER_LIST, "include", NULL },
	{ "exclude", MEMBER_LIST, "exclude", NULL },
	{ "tensor", MEMBER_LIST, "tensor", NULL },
	{ "ragged", MEMBER_FLAG, "ragged", NULL },
	{ "requantize", MEMBER_FLAG, "requantize", NULL },
	{ "on_nonfinite", MEMBER_TEXT, "on-nonfinite", "error" },
	{ "preserve_high_precision", MEMBER_FLAG, "preserve-high-precision DIR", NULL },
	{ "kv_cache", MEMBER_FLAG, "kv-cache", NULL },
	{ "calibration", MEMBER_FILE, "calibration", NULL },
	{ "rename", MEMBER_LIST, "rename", NULL },
	{ "max_shard_size", MEMBER_COUNT, "max-shard-size", NULL },
};

void job_option_put(struct buf *out, const char *option, const char *value)
{
	buf_printf(out, " --%s ", option);
	path_put(out, value);
}

/* Who is told of the options. */
struct listener {
	job_option_fn *fn;
	void *context;
};

static void tell_number(const struct listener *listener, const char *option, const char *format,
			double number)
{
	char text[32];

	snprintf(text, sizeof text, format, number);
	listener->fn(listener->context, option, text);
}

static void tell_member(const struct listener *listener, const struct recorded_option *member,
			const json_t *value, const char *file)
{
	const char *text = json_string_value(value);
	const json_t *item;
	size_t i;

	switch (member->kind) {
	case MEMBER_TEXT:
		if (text && !(member->other && !strcmp(text, member->other)))
			listener->fn(listener->context, member->option, text);
		break;
	case MEMBER_FLAG:
		if (json_is_true(value))
			listener->fn(listener->context, member->option, NULL);
		break;
	case MEMBER_COUNT:
		if (json_is_integer(value))
			tell_number(listener, member->option, "%.0f", json_number_value(value));
		break;
	case MEMBER_LIST:
		json_array_foreach(value, i, item)
		{
			if (json_string_value(item))
				listener->fn(listener->context, member->option,
					     json_string_value(item));
		}
		break;
	case MEMBER_FILE:
		if (value && !json_is_null(value))
			listener->fn(listener->context, member->option, file);
	}
}

/* Tells a word of the scales if it is not the recipe's own. */
static void tell_word(const struct listener *listener, const char *option, const char *word,
		      const char *words, int own)
{
	char text[WORD_SIZE];

	if (word && strcmp(word, words_get(words, own, text)) != 0)
		listener->fn(listener->context, option, word);
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Tells the numbers that differ from the recipe's row. */
static void tell_scales(const struct listener *listener, const json_t *options)
{
	const char *name = text_of(options, "recipe");
	const json_t *scales = json_object_get(options, "scales");
	const json_t *pow2 = json_object_get(scales, "pow2");
	struct err ignored;
	const struct recipe *recipe = name ? recipe_find(name, &ignored) : NULL;
	double epsilon = json_number_value(json_object_get(scales, "amax_epsilon"));
	double margin = json_number_value(json_object_get(scales, "margin"));

	if (!recipe)
		return;
	tell_word(listener, "fp8-format", text_of(scales, "fp8_format"), FP8_FORMAT_WORDS,
		  (int)recipe->weight.format);
	if (json_is_boolean(pow2) && json_is_true(pow2) != recipe->weight.pow2)
		listener->fn(listener->context, "scale-fmt",
			     json_is_true(pow2) ? "ue8m0" : "float");
	tell_word(listener, "scale-arith", text_of(scales, "scale_arith"), SCALE_ARITH_WORDS,
		  (int)recipe->weight.arith);
	tell_word(listener, "mx-scale", text_of(scales, "mx_scale"), MX_RULE_WORDS,
		  (int)recipe->weight.mx_rule);
	if (epsilon > 0)
		tell_number(listener, "amax-epsilon", "%.9g", epsilon);
	if (margin > 0)
		tell_number(listener, "margin", "%.0f", margin);
}

void job_options_each(const json_t *options, const char *calibration, job_option_fn *fn,
		      void *context)
{
	const struct listener listener = { fn, context };

	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		tell_member(&listener, &members[i], json_object_get(options, members[i].key),
			    calibration);
		if (!strcmp(members[i].key, "profile"))
			tell_scales(&listener, options);
	}
}

/* A job_option_fn. */
static void put_option(void *out, const char *option, const char *value)
{
	if (value)
		job_option_put(out, option, value);
	else
		buf_printf(out, " --%s", option);
}

void job_options_put(struct buf *out, const json_t *options, const char *calibration)
{
	job_options_each(options, calibration, put_option, out);
}
