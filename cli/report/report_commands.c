/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that made a checkpoint, from its manifest: the options whose values are not the
 * defaults, under the names of their models.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "cli/print/path.h"
#include "cli/report/report.h"
#include "recipe/recipe.h"
#include "report/escape.h"

/* How a member of the manifest's options is written as an option. */
enum member_kind {
	MEMBER_TEXT, /* --option TEXT, unless it is the default */
	MEMBER_FLAG, /* --option where true */
	MEMBER_LIST, /* --option TEXT for each element */
	MEMBER_FILE, /* --option FILE, where it is not null: the manifest has no path */
};

struct member {
	const char *key;
	enum member_kind kind;
	const char *option;
	const char *other; /* MEMBER_TEXT: the default; MEMBER_FILE: what stands for the file */
};

static const struct member members[] = {
	{ "recipe", MEMBER_TEXT, "recipe", NULL },
	{ "format", MEMBER_TEXT, "format", NULL },
	{ "dtype", MEMBER_TEXT, "dtype", NULL },
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
	{ "calibration", MEMBER_FILE, "calibration", "S.amax" },
};

static void put_option(struct buf *out, const char *option, const char *value)
{
	buf_printf(out, " --%s ", option);
	path_put(out, value);
}

static void put_member(struct buf *out, const struct member *member, const json_t *value)
{
	const char *text = json_string_value(value);
	const json_t *item;
	size_t i;

	switch (member->kind) {
	case MEMBER_TEXT:
		if (text && !(member->other && !strcmp(text, member->other)))
			put_option(out, member->option, text);
		break;
	case MEMBER_FLAG:
		if (json_is_true(value))
			buf_printf(out, " --%s", member->option);
		break;
	case MEMBER_LIST:
		json_array_foreach(value, i, item)
		{
			if (json_string_value(item))
				put_option(out, member->option, json_string_value(item));
		}
		break;
	case MEMBER_FILE:
		if (value && !json_is_null(value))
			put_option(out, member->option, member->other);
	}
}

/* Adds a word of the scales if it is not the recipe's own. */
static void put_word(struct buf *out, const char *option, const char *word, const char *words,
		     int own)
{
	char text[WORD_SIZE];

	if (word && strcmp(word, words_get(words, own, text)) != 0)
		put_option(out, option, word);
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Adds the numbers that differ from those of the recipe's row. */
static void put_scales(struct buf *out, const json_t *options)
{
	const char *name = text_of(options, "recipe");
	const json_t *scales = json_object_get(options, "scales");
	const json_t *pow2 = json_object_get(scales, "pow2");
	struct err ignored;
	const struct recipe *recipe = name ? recipe_find(name, &ignored) : NULL;
	double epsilon = json_number_value(json_object_get(scales, "amax_epsilon"));
	json_int_t margin = json_integer_value(json_object_get(scales, "margin"));

	if (!recipe)
		return;
	put_word(out, "fp8-format", text_of(scales, "fp8_format"), FP8_FORMAT_WORDS,
		 (int)recipe->weight.format);
	if (json_is_boolean(pow2) && json_is_true(pow2) != recipe->weight.pow2)
		put_option(out, "scale-fmt", json_is_true(pow2) ? "ue8m0" : "float");
	put_word(out, "scale-arith", text_of(scales, "scale_arith"), SCALE_ARITH_WORDS,
		 (int)recipe->weight.arith);
	put_word(out, "mx-scale", text_of(scales, "mx_scale"), MX_RULE_WORDS,
		 (int)recipe->weight.mx_rule);
	if (epsilon > 0)
		buf_printf(out, " --amax-epsilon %.9g", epsilon);
	if (margin)
		buf_printf(out, " --margin %lld", (long long)margin);
}

static uint64_t count_of(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}

/* Adds the options of compensated rounding, if the job has them; "DATA" stands for each file. */
static void put_rounding(struct buf *out, const json_t *rounding)
{
	uint64_t n_sequences = count_of(rounding, "sequences"),
		 n_tokens = count_of(rounding, "tokens");
	const json_t *shrink = json_object_get(rounding, "shrink");
	size_t n_domains = json_array_size(json_object_get(rounding, "domains"));

	if (!json_is_object(rounding))
		return;
	buf_puts(out, " --rounding compensated --data DATA");
	for (size_t domain = 1; domain < n_domains && domain < 16; domain++)
		buf_puts(out, " --data DATA");
	if (n_sequences && n_tokens % n_sequences == 0 && n_tokens / n_sequences != 512)
		buf_printf(out, " --seq-len %" PRIu64, n_tokens / n_sequences);
	if (n_sequences)
		buf_printf(out, " --passes %" PRIu64, n_sequences);
	if (json_is_number(shrink))
		buf_printf(out, " --shrink %g", json_number_value(shrink));
}

/* Adds the options of a list of measured sensitivities. */
static void put_keep(struct buf *out, const json_t *keep)
{
	double budget = json_number_value(json_object_get(keep, "budget"));
	double max_kld = json_number_value(json_object_get(keep, "max_kld"));

	if (!json_is_object(keep))
		return;
	buf_puts(out, " --keep S.json");
	if (budget > 0)
		buf_printf(out, " --budget %g%%", 100 * budget);
	if (max_kld > 0)
		buf_printf(out, " --max-kld %g", max_kld);
}

static void put_conversion(struct buf *out, const struct report *report, const char *source)
{
	const char *command = text_of(report->manifest, "command");
	const json_t *options = json_object_get(report->manifest, "options");

	if (!report_version(report) || !command)
		return;
	buf_puts(out, "fp8conv ");
	path_put(out, command);
	buf_putc(out, ' ');
	path_put(out, source);
	buf_puts(out, " -o ");
	path_put(out, report->name);
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		put_member(out, &members[i], json_object_get(options, members[i].key));
		if (!strcmp(members[i].key, "profile"))
			put_scales(out, options);
	}
	put_rounding(out, json_object_get(options, "rounding"));
	put_keep(out, json_object_get(options, "keep"));
}

static void put_eval(struct buf *out, const struct report *report, const char *source)
{
	const struct evaluation_file *evaluation = &report->evaluation;

	buf_puts(out, "fp8conv eval ");
	path_put(out, report->name);
	if (evaluation->compared)
		put_option(out, "source", source);
	for (size_t i = 0; i < evaluation->n_data; i++) {
		char *name = report_base_name(evaluation->data[i]);

		put_option(out, "data", name);
		free(name);
	}
	if (!evaluation->n_data)
		put_option(out, "data", "DATA");
	if (evaluation->seq_len != 512)
		buf_printf(out, " --seq-len %llu", (unsigned long long)evaluation->seq_len);
	buf_printf(out, " --passes %llu", (unsigned long long)evaluation->sequences);
	if (evaluation->activations && strcmp(evaluation->activations, "engine") != 0)
		put_option(out, "activations", evaluation->activations);
	if (evaluation->precision && strcmp(evaluation->precision, "bf16") != 0)
		put_option(out, "precision", evaluation->precision);
	buf_puts(out, " --json");
}

/* Adds a command as a line, which nothing in it can end. */
static void put_line(struct buf *out, struct buf *command)
{
	if (command->len) {
		escape_line(out, command->data);
		buf_putc(out, '\n');
	}
	buf_release(command);
}

void report_put_commands(struct buf *out, const struct reported *reported)
{
	const struct report *report = reported->report;
	char *source = report->base_model ? report_base_name(report->base_model) : xstrdup("MODEL");
	struct buf conversion = { 0 }, eval = { 0 };

	put_conversion(&conversion, report, source);
	put_line(out, &conversion);
	if (report->has_evaluation)
		put_eval(&eval, report, source);
	put_line(out, &eval);
	free(source);
}
