/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of model families: its patterns, its conditions, whose rows a model gets, and which row
 * decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/support/format_schemes.h"
#include "select/profile.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))
#define NO	    (-1)

static const struct {
	const char *pattern, *tensor;
	int position; /* NO: does not match */
} patterns[] = {
	{ "a.b", "a.b.weight", 0 },
	{ "a.b", "a.b", 0 },
	{ "a.b", "a.b.bias", NO },
	{ "a.b", "a.bc.weight", NO },
	{ "a.b", "xa.b.weight", NO },
	{ "a.b", "a.b.c.weight", NO },
	{ "a.b", "a.weight", NO },
	/* a star alone: any number of segments, none too */
	{ "*", "a.weight", 0 },
	{ "*.b", "b.weight", 0 },
	{ "*.b", "a.b.weight", 0 },
	{ "*.b", "a.x.y.b.weight", 0 },
	{ "*.b", "a.xb.weight", NO },
	{ "*.b", "b.a.weight", NO },
	{ "*.a.b", "a.a.b.weight", 0 },
	{ "*.a.b", "a.x.b.weight", NO },
	{ "a.*", "a.weight", 0 },
	{ "a.*", "a.b.c.weight", 0 },
	{ "a.*", "ab.c.weight", NO },
	{ "*.a.*", "a.weight", 0 },
	{ "*.a.*", "x.a.b.weight", 0 },
	{ "*.a.*", "x.b.weight", NO },
	{ "a.*.b", "a.b.weight", 0 },
	{ "a.*.b", "a.x.y.b.weight", 0 },
	{ "a.*.b", "a.x.y.c.weight", NO },
	/* within a segment: any text, none too */
	{ "*.*_res_proj", "x.mlp_res_proj.weight", 0 },
	{ "*.*_res_proj", "x._res_proj.weight", 0 },
	{ "*.*_res_proj", "x.mlp_res_proj.y.weight", NO },
	{ "*.*_res_proj", "x.res_proj.weight", NO },
	{ "*.*hyper*.*", "x.a_hyper_b.up.weight", 0 },
	{ "*.*hyper*.*", "hyper.weight", 0 },
	{ "*.*hyper*.*", "x.hypo.up.weight", NO },
	{ "a*c", "abbc.weight", 0 },
	{ "a*c", "ac.weight", 0 },
	{ "a*c", "ab.c.weight", NO },
	/* a list, and the place in it */
	{ "*.{q,k,v}_proj", "x.q_proj.weight", 0 },
	{ "*.{q,k,v}_proj", "x.v_proj.weight", 2 },
	{ "*.{q,k,v}_proj", "x.o_proj.weight", NO },
	{ "*.{q,k,v}_proj", "x.qk_proj.weight", NO },
	{ "*.{q,k,v}_proj", "x.q_proj.lora.weight", NO },
	{ "*.moe.{gate,up}", "x.moe.up.weight", 1 },
	{ "*.w{13,2}_weight", "x.w2_weight", 1 },
	{ "*.w{13,2}_weight", "x.w1_weight", NO },
	{ "{a,ab}c", "abc.weight", 1 },
	/* names without a module */
	{ "weight", "weight", 0 },
	{ "*", "weight", 0 },
	{ "a", "", NO },
	{ "*.b", "..b.weight", 0 },
};

static void patterns_match_whole_segments(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(patterns); i++) {
		int position = 7;
		bool matches =
			profile_pattern_matches(patterns[i].pattern, patterns[i].tensor, &position);

		if (matches != (patterns[i].position != NO) ||
		    (matches && position != patterns[i].position))
			fail_msg("%s and %s: %d, position %d", patterns[i].pattern,
				 patterns[i].tensor, matches, position);
	}
}

/* --- conditions --- */

static void a_job_meets_the_conditions_of_its_recipe_format_and_target(void **state)
{
	static const struct {
		const char *format;
		int scheme;
		enum engine target;
		unsigned on;
	} rows[] = {
		{ "hf", BLOCK, ENGINE_ANY, ON_BLOCKWISE | ON_HF | FOR_ENGINES },
		{ "hf", MX, ENGINE_SGLANG, ON_MXFP8 | ON_HF | FOR_SGLANG },
		{ "compressed-tensors", CHANNEL, ENGINE_VLLM,
		  ON_CHANNELWISE | ON_COMPRESSED | FOR_VLLM },
		{ "compressed-tensors", DYNAMIC, ENGINE_TRANSFORMERS,
		  ON_TENSOR | ON_COMPRESSED | FOR_TRANSFORMERS },
		{ "modelopt", STATIC, ENGINE_TRTLLM, ON_TENSOR | ON_MODELOPT | FOR_TRTLLM },
		/* SGLang does not load this, and what it would need is done all the same */
		{ "modelopt", CHANNEL, ENGINE_ANY, ON_CHANNELWISE | ON_MODELOPT | FOR_ENGINES },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		unsigned on = profile_conditions(format_named(rows[i].format),
						 &schemes[rows[i].scheme], rows[i].target);

		if (on != rows[i].on)
			fail_msg("row %zu: %#x", i, on);
	}
}

/* A profile of rows that are not in the table. */
static struct profile profile_of(const struct profile_row *rows, size_t n)
{
	struct profile profile = { .n = n, .rows = calloc(n, sizeof *profile.rows) };

	for (size_t i = 0; i < n; i++)
		profile.rows[i] = &rows[i];
	return profile;
}

static void a_row_acts_where_each_group_of_its_conditions_is_met(void **state)
{
	static const struct {
		unsigned row, job;
		bool acts;
	} rows[] = {
		{ 0, ON_BLOCKWISE | ON_HF | FOR_VLLM, true },
		{ ON_BLOCKWISE, ON_BLOCKWISE | ON_HF | FOR_VLLM, true },
		{ ON_BLOCKWISE, ON_CHANNELWISE | ON_HF | FOR_VLLM, false },
		{ ON_BLOCKWISE | ON_MXFP8, ON_MXFP8 | ON_HF | FOR_VLLM, true },
		{ ON_BLOCKWISE | ON_HF, ON_BLOCKWISE | ON_HF | FOR_VLLM, true },
		{ ON_BLOCKWISE | ON_HF, ON_BLOCKWISE | ON_COMPRESSED | FOR_VLLM, false },
		{ ON_BLOCKWISE | ON_HF | ON_COMPRESSED, ON_BLOCKWISE | ON_COMPRESSED | FOR_VLLM,
		  true },
		{ FOR_SGLANG, ON_BLOCKWISE | ON_HF | FOR_VLLM, false },
		{ FOR_SGLANG, ON_BLOCKWISE | ON_HF | FOR_ENGINES, true },
		{ ON_HF | FOR_SGLANG, ON_BLOCKWISE | ON_MODELOPT | FOR_SGLANG, false },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		const struct profile_row row = { "f",	      "a",  PROFILE_KEEP, false,
						 rows[i].row, "no", "test" };
		struct profile profile = profile_of(&row, 1);
		struct profile_match match = profile_find(&profile, "a.weight", rows[i].job);

		if ((match.row != NULL) != rows[i].acts)
			fail_msg("row %zu: %d", i, match.row != NULL);
		profile_release(&profile);
	}
}

static void the_first_row_that_matches_decides(void **state)
{
	static const struct profile_row rows[] = {
		{ "f", "*", PROFILE_NOT_LOADED, false, 0, "note 1", "test" },
		{ "f", "*.a", PROFILE_GENERAL, false, ON_BLOCKWISE, NULL, "test" },
		{ "f", "*.{b,a}", PROFILE_BOND, false, ON_CHANNELWISE, NULL, "test" },
		{ "f", "x=y", PROFILE_CONFIG, false, 0, NULL, "test" },
		{ "f", "*", PROFILE_KEEP, true, 0, "kept", "test" },
		{ "f", "*", PROFILE_NOT_LOADED, false, ON_HF, "note 2", "test" },
	};
	struct profile profile = profile_of(rows, N_OF(rows));
	unsigned blocks = ON_BLOCKWISE | ON_HF | FOR_ENGINES,
		 channels = ON_CHANNELWISE | ON_COMPRESSED | FOR_ENGINES;
	struct profile_match match;

	(void)state;
	assert_ptr_equal(profile_find(&profile, "m.a.weight", blocks).row, &rows[1]);
	match = profile_find(&profile, "m.a.weight", channels);
	assert_ptr_equal(match.row, &rows[2]);
	assert_int_equal(match.position, 1);
	assert_ptr_equal(profile_find(&profile, "m.c.weight", channels).row, &rows[4]);

	/* Rows that decide about no module are found one after the other. */
	assert_ptr_equal(profile_next(&profile, PROFILE_NOT_LOADED, blocks, NULL), &rows[0]);
	assert_ptr_equal(profile_next(&profile, PROFILE_NOT_LOADED, blocks, &rows[0]), &rows[5]);
	assert_null(profile_next(&profile, PROFILE_NOT_LOADED, blocks, &rows[5]));
	assert_null(profile_next(&profile, PROFILE_NOT_LOADED, channels, &rows[0]));
	assert_ptr_equal(profile_next(&profile, PROFILE_CONFIG, channels, NULL), &rows[3]);
	assert_null(profile_next(&profile, PROFILE_FORMAT, channels, NULL));
	profile_release(&profile);
}

/* --- families --- */

static void profile_of_text(struct profile *profile, const char *text, enum profile_level level)
{
	struct buf config = { .data = (char *)text, .len = strlen(text) };
	struct model_config model;
	struct err err = { 0 };

	if (model_config_read(&model, &config, &err))
		fail_msg("%s", err.message);
	profile_make(profile, &model, level);
	model_config_release(&model);
}

static bool has_family(const struct profile *profile, const char *family)
{
	for (size_t i = 0; i < profile->n; i++)
		if (!strcmp(profile->rows[i]->families, family))
			return true;
	return false;
}

#define SPARK "spark2_5"
#define JET   "jet_nemotron"

static void a_model_is_of_the_family_that_its_config_names(void **state)
{
	static const struct {
		const char *config, *family; /* NULL: of none */
	} rows[] = {
		{ "{\"model_type\": \"spark2_5\"}", SPARK },
		{ "{\"model_type\": \"mistral3\", \"text_config\": {\"model_type\": \"spark2_5\"}}",
		  SPARK },
		{ "{\"llm_config\": {\"model_type\": \"spark2_5\"}}", SPARK },
		{ "{\"model_type\": \"a\", \"thinker_config\": {\"text_config\": "
		  "{\"model_type\": \"spark2_5\"}}}",
		  SPARK },
		{ "{\"model_type\": \"spark2_5_text\"}", NULL },
		{ "{\"model_type\": \"spark2\"}", NULL },
		{ "{\"model_type\": \"lama\", \"architectures\": [\"spark2_5\"]}", SPARK },
		{ "{\"architectures\": [\"Llama\", \"spark2_5\"]}", NULL },
		/* the class of a model counts only where no family has its model_type */
		{ "{\"model_type\": \"jet_nemotron\", \"architectures\": [\"spark2_5\"]}", JET },
		{ "{\"architectures\": [\"NemotronH_Nano_VL_V2\"]}",
		  "nemotron_h nemotron_h_omni NemotronH_*" },
		{ "{}", NULL },
	};

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		struct profile profile;

		profile_of_text(&profile, rows[i].config, PROFILE_VENDOR);
		if (rows[i].family ? !has_family(&profile, rows[i].family) : profile.n != 0)
			fail_msg("%s", rows[i].config);
		if (rows[i].family && strcmp(rows[i].family, SPARK) != 0 &&
		    has_family(&profile, SPARK))
			fail_msg("%s: spark2_5 too", rows[i].config);
		profile_release(&profile);
	}
}

/* A name on two levels would give each row twice. */
static void each_row_is_taken_once_in_the_order_of_the_table(void **state)
{
	struct profile once, twice;

	(void)state;
	profile_of_text(&once, "{\"model_type\": \"gpt_oss\"}", PROFILE_VENDOR);
	profile_of_text(&twice,
			"{\"model_type\": \"gpt_oss\", "
			"\"text_config\": {\"model_type\": \"gpt_oss\"}}",
			PROFILE_VENDOR);
	assert_true(once.n > 0);
	assert_int_equal(twice.n, once.n);
	profile_release(&once);
	profile_release(&twice);

	profile_of_text(&twice,
			"{\"model_type\": \"zaya\", "
			"\"text_config\": {\"model_type\": \"deepseek_v32\"}}",
			PROFILE_VENDOR);
	assert_true(twice.n > 1);
	for (size_t i = 1; i < twice.n; i++)
		assert_true(twice.rows[i - 1] < twice.rows[i]);
	profile_release(&twice);
}

static void a_level_leaves_rules_out(void **state)
{
	static const char step[] = "{\"model_type\": \"step3p5\"}";
	unsigned on = ON_BLOCKWISE | ON_HF | FOR_ENGINES;
	const char *attention = "model.layers.3.self_attn.o_proj.weight",
		   *gate = "model.layers.3.self_attn.g_proj.weight",
		   *experts = "model.layers.3.moe.up_proj.weight";
	struct profile profile;

	(void)state;
	profile_of_text(&profile, step, PROFILE_VENDOR);
	assert_true(profile_find(&profile, attention, on).row->vendor);
	assert_false(profile_find(&profile, experts, on).row->vendor);
	profile_release(&profile);

	/* SGLang skips the scale of that gate, whoever chose FP8 for it. */
	profile_of_text(&profile, step, PROFILE_ENGINE);
	assert_null(profile_find(&profile, attention, on).row);
	assert_int_equal(profile_find(&profile, gate, on).row->action, PROFILE_KEEP);
	assert_non_null(profile_find(&profile, experts, on).row);
	profile_release(&profile);

	/* Names of engines choose nothing, and are needed whatever is chosen. */
	profile_of_text(&profile, step, PROFILE_NONE);
	assert_null(profile_find(&profile, experts, on).row);
	assert_true(profile.n > 0);
	for (size_t i = 0; i < profile.n; i++)
		assert_int_equal(profile.rows[i]->action, PROFILE_NAME);
	profile_release(&profile);
}

/* --- the table --- */

/* Every pattern is one that the matcher can read, and every row says what its action needs. */
static void the_rows_of_the_table_are_well_formed(void **state)
{
	(void)state;
	for (const struct profile_row *row = profile_rows; row->families; row++) {
		const char *open = strchr(row->pattern, '{'), *close = strchr(row->pattern, '}');

		if (!*row->families || strstr(row->families, "  ") || !*row->pattern ||
		    !row->source || !*row->source)
			fail_msg("%s %s: a name, pattern or source is missing", row->families,
				 row->pattern);
		if (!open != !close || (open && (close < open || strchr(open + 1, '{') ||
						 memchr(open, '.', (size_t)(close - open)))))
			fail_msg("%s: braces", row->pattern);
		if ((row->action <= PROFILE_BARE || (row->action >= PROFILE_NOT_LOADED &&
						     row->action != PROFILE_NAME)) != !!row->said)
			fail_msg("%s %s: what is said", row->families, row->pattern);
		if (row->action == PROFILE_NAME &&
		    (!strchr(row->pattern, '=') || !(row->on & FOR_ENGINES)))
			fail_msg("%s %s: OLD=NEW of an engine", row->families, row->pattern);
		if (!row->said && !profile_actions[row->action].phrase)
			fail_msg("%s %s: no phrase for its action", row->families, row->pattern);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_whole_segments),
		cmocka_unit_test(a_job_meets_the_conditions_of_its_recipe_format_and_target),
		cmocka_unit_test(a_row_acts_where_each_group_of_its_conditions_is_met),
		cmocka_unit_test(the_first_row_that_matches_decides),
		cmocka_unit_test(a_model_is_of_the_family_that_its_config_names),
		cmocka_unit_test(each_row_is_taken_once_in_the_order_of_the_table),
		cmocka_unit_test(a_level_leaves_rules_out),
		cmocka_unit_test(the_rows_of_the_table_are_well_formed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
