/* SPDX-License-Identifier: Apache-2.0
 *
 * What a report reads and writes as text: front matter, results of `eval`, amax histories; and that
 * a reader of YAML and Markdown sees hostile text as it is.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "names/tensor_name.h"
#include "report/card.h"
#include "report/curves.h"
#include "report/escape.h"
#include "report/evaluation.h"
#include "report/report.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

typedef void escape_fn(struct buf *out, const char *text);

static void check_escape(escape_fn *escape, const char *text, const char *expected)
{
	struct buf out = { 0 };

	escape(&out, text);
	assert_string_equal(out.data, expected);
	buf_release(&out);
}

static void text_is_shown_as_it_is(void **state)
{
	static const struct {
		escape_fn *escape;
		const char *text, *expected;
	} rows[] = {
		{ escape_yaml, "apache-2.0", "apache-2.0" },
		{ escape_yaml, "Org/Model-7B", "Org/Model-7B" },
		{ escape_yaml, "no", "\"no\"" },
		{ escape_yaml, "True", "\"True\"" },
		{ escape_yaml, "1e3", "\"1e3\"" },
		{ escape_yaml, "-", "\"-\"" },
		{ escape_yaml, "", "\"\"" },
		{ escape_yaml, "a: b", "\"a: b\"" },
		{ escape_yaml, "a #b", "\"a #b\"" },
		{ escape_yaml, "say \"x\" \\", "\"say \\\"x\\\" \\\\\"" },
		{ escape_yaml, "a\n---\nb", "\"a?---?b\"" },
		{ escape_yaml, "a\u2028--- b", "\"a\uFFFD--- b\"" },
		{ escape_yaml, "\uFEFFa\xEF\xBF\xBE", "\"\uFFFDa\uFFFD\"" },
		{ escape_markdown, "a\u202Eb\u2066", "a\uFFFDb\uFFFD" },
		{ escape_line, "git \u2067x\u2029", "git \uFFFDx\uFFFD" },
		{ escape_markdown, "norm", "norm" },
		{ escape_markdown, "576 columns are not a multiple of 128",
		  "576 columns are not a multiple of 128" },
		{ escape_markdown, "a|b", "a&#124;b" },
		{ escape_markdown, "# head", "&#35; head" },
		{ escape_markdown, "<b>`*_[x](y)",
		  "&#60;b&#62;&#96;&#42;&#95;&#91;x&#93;&#40;y&#41;" },
		{ escape_markdown_code, "model.layers.*.up_proj", "`model.layers.*.up_proj`" },
		{ escape_markdown_code, "a`b", "<code>a&#96;b</code>" },
		{ escape_markdown_code, "a|b", "<code>a&#124;b</code>" },
		{ escape_markdown_code, "", "<code></code>" },
		{ escape_line, "a\r\nb", "a??b" },
		{ escape_line, "line\nbreak\x01", "line?break?" },
		{ escape_line, "\xC3\xA4\xFF|", "\xC3\xA4\xEF\xBF\xBD|" },
		{ escape_line, "\u202Aa\u2069\u2027\u2065\u206A",
		  "\uFFFDa\uFFFD\u2027\u2065\u206A" },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++)
		check_escape(rows[i].escape, rows[i].text, rows[i].expected);
}

/* --- cards --- */

/* Writes what a card says, as "license=mit language=en|fr ". */
static void check_card(const char *text, size_t n, const char *expected)
{
	struct card card;
	struct buf said = { 0 };

	card_parse(&card, text, n);
	buf_add(&said, "", 0);
	for (int key = 0; key < N_CARD_KEYS; key++) {
		const struct card_value *value = &card.values[key];

		for (size_t i = 0; i < value->n; i++)
			buf_printf(&said, "%s%s", i ? "|" : card_keys[key], i ? "" : "="),
				buf_puts(&said, value->texts[i]);
		if (value->n)
			buf_putc(&said, ' ');
	}
	assert_string_equal(said.data, expected);
	assert_int_equal(card_is_empty(&card), !*expected);
	buf_release(&said);
	card_release(&card);
}

static void front_matter_is_read_where_it_is_certain(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ "---\nlicense: apache-2.0\n---\n# x\nlicense: mit\n", "license=apache-2.0 " },
		{ "\xEF\xBB\xBF---\r\nlicense: mit\r\n---\r\n", "license=mit " },
		{ "---\nlicense: mit\n...\n", "license=mit " },
		{ "license: mit\n", "" },
		{ "---\nlicense: mit\n", "" },
		{ "", "" },
		{ "---\n---\n", "" },
		{ "---\nlicense: 'it''s'\n---\n", "license=it's " },
		{ "---\nlicense: \"a \\\"b\\\" \\\\\"\n---\n", "license=a \"b\" \\ " },
		{ "---\nlicense: \"a\\nb\"\n---\n", "" },
		{ "---\nlicense: \"open\n---\n", "" },
		{ "---\nlicense: mit # as ever\n---\n", "license=mit " },
		{ "---\nlicense: a#b\n---\n", "license=a#b " },
		{ "---\nlicense: # none\n- mit\n---\n", "license=mit " },
		{ "---\nlicense: &x mit\n---\n", "" },
		{ "---\nlicense: *x\n---\n", "" },
		{ "---\nlicense: !!str mit\n---\n", "" },
		{ "---\nlicense: {a: b}\n---\n", "" },
		{ "---\nlicense: |\n  text\n---\n", "" },
		{ "---\nlicense: null\n---\n", "" },
		{ "---\nlicense: a: b\n---\n", "" },
		{ "---\n  license: mit\n---\n", "" },
		{ "---\nlicenses: mit\n---\n", "" },
		{ "---\nlicense:mit\n---\n", "" },
		{ "---\nlicense: mit\nlicense: gpl\n---\n", "license=mit " },
		{ "---\nlanguage:\n- en\n- 'no'\n---\n", "language=en|no " },
		{ "---\nlanguage:\n  - en\n  - fr\nlicense: mit\n- x\n---\n",
		  "language=en|fr license=mit " },
		{ "---\nlanguage: [en, \"fr\", 'de']\n---\n", "language=en|fr|de " },
		{ "---\nlanguage: [en, [fr], de]\n---\n", "language=en " },
		{ "---\ntags:\n- base_model: x\nbase_model:\n- Org/Name\n---\n",
		  "base_model=Org/Name " },
		{ "---\nlicense: a\x01z\n---\n", "" },
		{ "---\nlicense: a\xFFz\n---\n", "" },
	};
	static const char with_nul[] = "---\nlicense: a\0z\npipeline_tag: b\n---\n";

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++)
		check_card(rows[i].text, strlen(rows[i].text), rows[i].expected);
	check_card(with_nul, sizeof with_nul - 1, "pipeline_tag=b ");
}

static void long_front_matter_is_bounded(void **state)
{
	struct buf text = { 0 };
	struct card card;

	(void)state;
	/* a value and a list that are too long, and an end that is too far */
	buf_puts(&text, "---\nlicense: ");
	for (int i = 0; i <= CARD_MAX_LENGTH; i++)
		buf_putc(&text, 'x');
	buf_puts(&text, "\nlanguage:\n");
	for (int i = 0; i < CARD_MAX_VALUES + 5; i++)
		buf_printf(&text, "- l%d\n", i);
	buf_puts(&text, "---\n");
	card_parse(&card, text.data, text.len);
	assert_null(card_text(&card, CARD_LICENSE));
	assert_int_equal(card.values[CARD_LANGUAGE].n, CARD_MAX_VALUES);
	card_release(&card);

	text.len = 0;
	buf_puts(&text, "---\nlicense: mit\n");
	while (text.len < CARD_LIMIT)
		buf_puts(&text, "# a comment\n");
	buf_puts(&text, "---\n");
	card_parse(&card, text.data, text.len);
	assert_true(card_is_empty(&card));
	card_release(&card);
	buf_release(&text);
}

/* --- results of eval --- */

#define HASH   "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define COUNTS "'tokens': 8, 'targets': 7, 'sequences': 1, 'seq_len': 8, 'data_sha256': '" HASH "'"

/* Parses a text with single quotes in place of double ones.  Returns the message, "" without. */
static const char *parse(struct evaluation_file *evaluation, const char *quoted)
{
	static struct err err;
	char *text = xstrdup(quoted);

	err = (struct err){ 0 };
	for (char *p = text; *p; p++)
		if (*p == '\'')
			*p = '"';
	if (!evaluation_parse(evaluation, text, strlen(text), "e", &err))
		assert_int_equal(err.kind, ERR_NONE);
	free(text);
	return err.message;
}

static void results_are_read_back(void **state)
{
	struct evaluation_file evaluation;
	const struct estimate *of = evaluation.of;

	(void)state;
	assert_string_equal(
		parse(&evaluation,
		      "{'schema': 1, 'perplexity': {'value': 2.5, 'se': null}, 'kld': {'mean': "
		      "0.25, 'se': 0.5, 'p99_9': 1.5, 'min': -1}, 'same_top': {'value': 90}, "
		      "'layers': [{'layer': 3, 'residual': {'sqnr_db': 20}, 'modules': [{'module': "
		      "'a.b', 'local': {'sqnr_db': 30.5}, 'accumulated': {'sqnr_db': null}, "
		      "'zeros': 0.5, 'saturated': null}]}], 'data': ['x/y.txt'], 'model': 'm', "
		      "'source': null, " COUNTS "}"),
		"");
	assert_true(evaluation.compared);
	assert_true(of[QUALITY_PERPLEXITY].value == 2.5 && isnan(of[QUALITY_PERPLEXITY].se));
	assert_true(of[QUALITY_KLD].value == 0.25 && of[QUALITY_KLD].se == 0.5);
	assert_true(of[QUALITY_KLD_SPREAD + 1].value == 1.5 &&
		    of[QUALITY_KLD_SPREAD + 9].value == -1);
	assert_true(isnan(of[QUALITY_KLD_SPREAD].value) && isnan(of[QUALITY_CORRELATION].value));
	assert_true(of[QUALITY_SAME_TOP].value == 90);
	assert_int_equal(evaluation.tokens, 8);
	assert_string_equal(evaluation.data_sha256, HASH);
	assert_int_equal(evaluation.n_data, 1);
	assert_string_equal(evaluation.data[0], "x/y.txt");
	assert_null(evaluation.source);
	assert_int_equal(evaluation.n_modules, 2);
	assert_string_equal(evaluation.modules[0].name, "a.b");
	assert_true(evaluation.modules[0].sqnr == 30.5);
	assert_null(evaluation.modules[1].name);
	assert_true(evaluation.modules[1].sqnr == 20 && evaluation.modules[1].layer == 3);
	evaluation_release(&evaluation);

	assert_string_equal(parse(&evaluation, "{'perplexity': {'value': 1}, " COUNTS "}"), "");
	assert_false(evaluation.compared);
	evaluation_release(&evaluation);
}

static void other_files_are_refused(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "", "" },
		{ "[]", "it is not an object" },
		{ "{}", "'perplexity' is missing" },
		{ "{'perplexity': 3}", "'perplexity' is not an object" },
		{ "{'perplexity': {'value': 'x'}}", "'value' is not a number" },
		{ "{'perplexity': {'value': 1}}", "'tokens' is missing" },
		{ "{'perplexity': {'value': 1}, 'kld': []}", "'kld' is not an object" },
		{ "{'perplexity': {'value': 1}, 'tokens': -1}", "'tokens' is not a count" },
		{ "{'perplexity': {'value': 1}, 'tokens': 1.5}", "'tokens' is not a count" },
		{ "{'perplexity': {'value': 1}, 'tokens': 8, 'targets': 7, 'sequences': 1, "
		  "'seq_len': 8, 'data_sha256': '<b>'}",
		  "'data_sha256' is not a SHA-256" },
		{ "{'perplexity': {'value': 1}, 'model': 3, " COUNTS "}", "'model' is not a text" },
		{ "{'perplexity': {'value': 1}, 'data': 'x', " COUNTS "}", "'data' is not a list" },
		{ "{'perplexity': {'value': 1}, 'data': [3], " COUNTS "}",
		  "'data' has a name that is not a text" },
		{ "{'perplexity': {'value': 1}, 'layers': 1, " COUNTS "}",
		  "'layers' is not a list" },
		{ "{'perplexity': {'value': 1}, 'layers': [{}], " COUNTS "}",
		  "'layer' is missing" },
		{ "{'perplexity': {'value': 1}, 'layers': [{'layer': -1}], " COUNTS "}",
		  "'layer' is not a count" },
		{ "{'perplexity': {'value': 1}, 'layers': [{'layer': 0, 'modules': [{}]}], " COUNTS
		  "}",
		  "'module' is missing or not a text" },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		struct evaluation_file evaluation;
		const char *message = parse(&evaluation, rows[i].text);
		const char *begin = "'e' is not a result of 'fp8conv eval --json': ";

		assert_memory_equal(message, begin, strlen(begin));
		if (*rows[i].message)
			assert_string_equal(message + strlen(begin), rows[i].message);
		evaluation_release(&evaluation);
	}
}

/* --- names, curves --- */

static void numbers_make_a_pattern(void **state)
{
	static const struct {
		const char *name, *pattern;
		uint32_t layer;
	} rows[] = {
		{ "model.layers.12.mlp.experts.7.up_proj.weight",
		  "model.layers.*.mlp.experts.*.up_proj.weight", 12 },
		{ "lm_head.weight", "lm_head.weight", NO_LAYER },
		{ "h.0", "h.*", 0 },
		{ "0.w", "*.w", 0 },
		{ "a.1b.c2", "a.1b.c2", NO_LAYER },
		{ "a.1234567890.3.w", "a.*.*.w", 3 },
		{ ".", ".", NO_LAYER },
		{ "..7", "..*", 7 },
		{ "", "", NO_LAYER },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		uint32_t layer;
		char *pattern = name_pattern(rows[i].name, &layer);

		assert_string_equal(pattern, rows[i].pattern);
		assert_int_equal(layer, rows[i].layer);
		free(pattern);
	}
}

static void paths_have_base_names(void **state)
{
	static const char *const rows[][2] = {
		{ "a/b", "b" }, { "a/b//", "b" }, { "b", "b" }, { "/", "/" }, { "", "" },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		char *name = report_base_name(rows[i][0]);

		assert_string_equal(name, rows[i][1]);
		free(name);
	}
}

/* Two modules of one kind, of which one was dropped from the first passes; 300 passes are joined by
 * threes into 100 points. */
static void curves_are_maxima_of_their_passes(void **state)
{
	struct amax_stats stats;
	struct curves curves;
	struct amax_site *long_site, *short_site;

	(void)state;
	amax_stats_init(&stats, "0123", "bf16", "cpu", 1024);
	long_site = amax_stats_site(&stats, "l.0.p", AMAX_GEMM);
	short_site = amax_stats_site(&stats, "l.1.p", AMAX_GEMM);
	amax_stats_site(&stats, "l.1.attn", AMAX_ATTENTION);
	for (int pass = 0; pass < 300; pass++)
		amax_site_append(long_site, (float[]){ (float)(pass % 3), 1, (float)pass }, 4);
	amax_site_append(short_site, (float[]){ 50, 1, INFINITY }, 4);
	curves_make(&curves, &stats);
	assert_int_equal(curves.n, 1);
	assert_string_equal(curves.list[0].pattern, "l.*.p");
	assert_int_equal(curves.list[0].n_sites, 2);
	assert_int_equal(curves.passes_of_point, 3);
	assert_int_equal(curves.n_points, 100);
	for (size_t i = 0; i + 1 < curves.n_points; i++) {
		assert_true(curves.list[0].x[i] == 2);
		assert_true(curves.list[0].y[i] == (float)(3 * i + 2));
	}
	assert_true(curves.list[0].x[99] == 50 && isinf(curves.list[0].y[99]));
	assert_true(curves.list[0].max == 50);
	curves_release(&curves);
	amax_stats_release(&stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_shown_as_it_is),
		cmocka_unit_test(front_matter_is_read_where_it_is_certain),
		cmocka_unit_test(long_front_matter_is_bounded),
		cmocka_unit_test(results_are_read_back),
		cmocka_unit_test(other_files_are_refused),
		cmocka_unit_test(numbers_make_a_pattern),
		cmocka_unit_test(paths_have_base_names),
		cmocka_unit_test(curves_are_maxima_of_their_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
