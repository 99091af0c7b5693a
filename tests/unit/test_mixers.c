/* SPDX-License-Identifier: Apache-2.0
 *
 * model/steps.h: the mixers of layers, the sizes of Mamba-2 and the multipliers in config.json; a
 * value that does not fit is an error that names its key.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "model/facts.h"
#include "model/steps.h"

#define N_LAYERS 4

extern const struct arch arch_bamba, arch_granitemoehybrid, arch_nemotron_h, arch_falcon_h1,
	arch_lfm2, arch_jamba;

static const char bamba[] =
	"{\"mamba_n_heads\":6,\"mamba_d_head\":20,\"mamba_n_groups\":3,\"mamba_d_state\":16,"
	"\"mamba_d_conv\":4,\"mamba_expand\":2,\"attn_layer_indices\":[2],"
	"\"time_step_limit\":[0.0,{\"__float__\":\"Infinity\"}]}";
static const char granite[] =
	"{\"mamba_n_heads\":6,\"mamba_d_head\":20,\"mamba_n_groups\":3,\"mamba_d_state\":16,"
	"\"mamba_d_conv\":4,\"mamba_expand\":2,\"embedding_multiplier\":12,"
	"\"attention_multiplier\":0.5,\"residual_multiplier\":0.25,\"logits_scaling\":8,"
	"\"layer_types\":[\"mamba\",\"attention\",\"linear_attention\",\"full_attention\"]}";
static const char nemotron[] =
	"{\"mamba_num_heads\":6,\"mamba_head_dim\":20,\"n_groups\":3,\"ssm_state_size\":16,"
	"\"conv_kernel\":4,\"time_step_min\":0.001,\"hybrid_override_pattern\":\"ME*-\"}";

static const char lfm2[] = "{\"conv_L_cache\":3,\"full_attn_idxs\":[1]}";
static const char jamba[] = "{\"attn_layer_period\":3,\"attn_layer_offset\":1}";
static const char falcon[] =
	"{\"mamba_n_heads\":6,\"mamba_d_head\":\"auto\",\"mamba_n_groups\":3,\"mamba_d_state\":16,"
	"\"mamba_d_conv\":4,\"mamba_expand\":2,\"mamba_d_ssm\":90,\"ssm_multipliers\":[1,2,3,4,5],"
	"\"mlp_multipliers\":[6,7],\"key_multiplier\":8,\"attention_in_multiplier\":9,"
	"\"attention_out_multiplier\":10,\"ssm_in_multiplier\":11,\"ssm_out_multiplier\":12,"
	"\"embedding_multiplier\":13,\"lm_head_multiplier\":14}";

/* What reading a configuration leaves. */
struct outcome {
	struct layer_ref layers[N_LAYERS];
	struct model model;
	struct err err;
	int rc;
};

/* Reads the text with one value (JSON) instead of its own; value NULL: without the key. */
static struct outcome *read_with(const struct arch *arch, const char *text, const char *key,
				 const char *value)
{
	static struct outcome outcome;
	json_t *config = json_loads(text, 0, NULL), *facts;
	struct model *model = &outcome.model;

	assert_non_null(config);
	if (key && value)
		json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL));
	else if (key)
		json_object_del(config, key);
	outcome = (struct outcome){ .rc = 0 };
	*model = (struct model){ .arch = arch,
				 .advice = "",
				 .hidden = 60,
				 .n_layers = N_LAYERS,
				 .layers = outcome.layers,
				 .activation = ACT_SILU };
	for (size_t i = 0; i < N_LAYERS; i++)
		outcome.layers[i].rope = &model->rope;
	facts = facts_read(config, &arch->facts, &outcome.err);
	outcome.rc = !facts || model_read_multipliers(model, facts, &outcome.err) ||
		     model_find_mixers(model, facts, &outcome.err);
	json_decref(config);
	json_decref(facts);
	return &outcome;
}

static void mixers_assert(const struct outcome *outcome, const enum mixer *wanted)
{
	if (outcome->rc)
		fail_msg("%s", outcome->err.message);
	for (size_t i = 0; i < N_LAYERS; i++)
		assert_int_equal(outcome->layers[i].mixer, wanted[i]);
}

static void mixers_are_read_in_each_spelling(void **state)
{
	static const enum mixer of_bamba[] = { MIXER_MAMBA, MIXER_MAMBA, MIXER_ATTENTION,
					       MIXER_MAMBA };
	static const enum mixer of_granite[] = { MIXER_MAMBA, MIXER_ATTENTION, MIXER_MAMBA,
						 MIXER_ATTENTION };
	static const enum mixer of_nemotron[] = { MIXER_MAMBA, MIXER_NONE, MIXER_ATTENTION,
						  MIXER_NONE };
	static const enum mixer of_lfm2[] = { MIXER_CONV, MIXER_ATTENTION, MIXER_CONV, MIXER_CONV };
	static const enum mixer of_jamba[] = { MIXER_MAMBA1, MIXER_ATTENTION, MIXER_MAMBA1,
					       MIXER_MAMBA1 };
	static const enum mixer all_attention[N_LAYERS] = { MIXER_ATTENTION };
	static const enum mixer all_mamba[] = { MIXER_MAMBA, MIXER_MAMBA, MIXER_MAMBA,
						MIXER_MAMBA };
	const char *listed = "[\"linear_attention\",\"moe\",\"attention\",\"mlp\"]";
	const struct outcome *outcome;

	(void)state;
	mixers_assert(read_with(&arch_bamba, bamba, NULL, NULL), of_bamba);
	mixers_assert(read_with(&arch_bamba, bamba, "attn_layer_indices", "null"), all_mamba);
	mixers_assert(read_with(&arch_granitemoehybrid, granite, NULL, NULL), of_granite);
	mixers_assert(read_with(&arch_lfm2, lfm2, NULL, NULL), of_lfm2);
	mixers_assert(read_with(&arch_jamba, jamba, NULL, NULL), of_jamba);
	mixers_assert(read_with(&arch_lfm2, lfm2, "full_attn_idxs", NULL), all_attention);
	mixers_assert(read_with(&arch_lfm2, lfm2, "layer_types",
				"[\"conv\",\"full_attention\",\"conv\",\"conv\"]"),
		      of_lfm2);
	mixers_assert(read_with(&arch_granitemoehybrid, granite, "layer_types", NULL), all_mamba);
	mixers_assert(read_with(&arch_nemotron_h, nemotron, "layers_block_type", listed),
		      of_nemotron);
	outcome = read_with(&arch_nemotron_h, nemotron, NULL, NULL);
	mixers_assert(outcome, of_nemotron);
	for (size_t i = 0; i < N_LAYERS; i++)
		assert_int_equal(outcome->layers[i].has_mlp, i % 2);
}

static void sizes_and_limits_are_read(void **state)
{
	const struct mamba *mamba =
		&read_with(&arch_bamba, bamba, "mamba_d_head", "\"auto\"")->model.mamba;

	(void)state;
	assert_int_equal(mamba->n_heads, 6);
	assert_int_equal(mamba->head_dim, 20);
	assert_int_equal(mamba->n_groups, 3);
	assert_int_equal(mamba->state_size, 16);
	assert_int_equal(mamba->conv_width, 4);
	assert_true(mamba->step_min == 0 && isinf(mamba->step_max));
	read_with(&arch_bamba, bamba, "time_step_limit", "[0.25,null]");
	assert_true(mamba->step_min == 0.25f && isinf(mamba->step_max));
	read_with(&arch_bamba, bamba, "time_step_limit", "[0.25,2]");
	assert_true(mamba->step_min == 0.25f && mamba->step_max == 2);
	read_with(&arch_nemotron_h, nemotron, NULL, NULL);
	assert_true(mamba->step_min == 0.001f && isinf(mamba->step_max));
	read_with(&arch_nemotron_h, nemotron, "time_step_min", NULL);
	assert_true(mamba->step_min == 0.001f); /* transformers' default */
}

static void multipliers_and_positions_are_read(void **state)
{
	const struct outcome *outcome = read_with(&arch_granitemoehybrid, granite, NULL, NULL);
	const struct model *model = &outcome->model;

	(void)state;
	assert_true(model->embedding_scale == 12 && model->attention_scale == 0.5f);
	assert_true(model->multipliers.residual == 0.25f && model->multipliers.logits == 0.125f);
	assert_null(outcome->layers[1].rope);
	read_with(&arch_granitemoehybrid, granite, "position_embedding_type", "\"rope\"");
	assert_ptr_equal(outcome->layers[1].rope, &model->rope);
	read_with(&arch_bamba, bamba, NULL, NULL);
	assert_true(model->multipliers.residual == 1 && model->multipliers.logits == 1);
}

static void multipliers_of_falcon_are_read(void **state)
{
	const struct outcome *outcome = read_with(&arch_falcon_h1, falcon, NULL, NULL);
	const struct model *model = &outcome->model;
	const struct multipliers *m = &model->multipliers;

	(void)state;
	assert_int_equal(outcome->rc, 0);
	assert_int_equal(outcome->layers[3].mixer, MIXER_BOTH);
	assert_int_equal(model->mamba.head_dim, 15);
	assert_true(!model->mamba.has_norm && model->mamba.norm_first);
	for (int i = 0; i < N_MAMBA_COLUMNS; i++)
		assert_true(m->mamba_columns[i] == (float)(i + 1));
	assert_true(m->gate == 6 && m->down == 7 && m->key == 8);
	assert_true(m->attention_in == 9 && m->attention_out == 10);
	assert_true(m->mamba_in == 11 && m->mamba_out == 12);
	assert_true(model->embedding_scale == 13 && m->logits == 14 && m->residual == 1);
	read_with(&arch_falcon_h1, falcon, "mamba_d_ssm", "null");
	assert_int_equal(model->mamba.head_dim, 20);
	read_with(&arch_falcon_h1, falcon, "ssm_multipliers", "null");
	assert_true(m->mamba_columns[MAMBA_STEPS] == 1);
	read_with(&arch_falcon_h1, falcon, "mamba_rms_norm", "true");
	assert_true(model->mamba.has_norm && model->mamba.norm_first);
	read_with(&arch_falcon_h1, falcon, "mamba_norm_before_gate", "false");
	assert_true(!model->mamba.norm_first);
}

/* Values that do not fit, and what the message says. */
static const struct {
	const struct arch *arch;
	const char *text, *key, *value, *message;
} rows[] = {
	{ &arch_bamba, bamba, "mamba_n_heads", "0", "is not a number from 1 to 65536" },
	{ &arch_bamba, bamba, "mamba_n_heads", "7", "is 7, of 'mamba_d_head' 20 each" },
	{ &arch_bamba, bamba, "mamba_d_head", "21", "of 'mamba_d_head' 21 each" },
	{ &arch_bamba, bamba, "mamba_expand", "0", "is not a number from 1 to 65536" },
	{ &arch_bamba, bamba, "mamba_n_groups", "4", "'mamba_n_heads' is 6, not a multiple" },
	{ &arch_bamba, bamba, "mamba_n_groups", "-1", "is -1, not an integer" },
	{ &arch_bamba, bamba, "mamba_d_state", "1025", "is not a number from 1 to 1024" },
	{ &arch_bamba, bamba, "mamba_d_conv", "0", "is not a number from 1 to 64" },
	{ &arch_bamba, bamba, "mamba_d_conv", "1000000000", "is not a number from 1 to 64" },
	{ &arch_bamba, bamba, "mamba_d_head", "1.5", "is not a number from 1 to 65536" },
	{ &arch_bamba, bamba, "time_step_limit", "[1,0.5]", "the larger one last" },
	{ &arch_bamba, bamba, "time_step_limit", "[-1,1]", "is not two numbers" },
	{ &arch_bamba, bamba, "time_step_limit", "[0,{\"__float__\":\"NaN\"}]",
	  "is not two numbers" },
	{ &arch_bamba, bamba, "time_step_limit", "0.1", "not a list" },
	{ &arch_bamba, bamba, "attn_layer_indices", "[4]", "names a layer that is none of 4" },
	{ &arch_bamba, bamba, "attn_layer_indices", "\"1\"", "not a list" },
	{ &arch_granitemoehybrid, granite, "residual_multiplier", "null", "not a finite number" },
	{ &arch_granitemoehybrid, granite, "embedding_multiplier", "{\"__float__\":\"NaN\"}",
	  "not a finite number" },
	{ &arch_granitemoehybrid, granite, "attention_multiplier", "1e300", "not a finite number" },
	{ &arch_granitemoehybrid, granite, "logits_scaling", "0", "is 0, a divisor" },
	{ &arch_granitemoehybrid, granite, "position_embedding_type", "\"alibi\"",
	  "is 'alibi', which is not supported" },
	{ &arch_granitemoehybrid, granite, "layer_types", "[\"moe\",\"mamba\",\"mamba\",\"mamba\"]",
	  "has 'moe', which is not supported" },
	{ &arch_falcon_h1, falcon, "ssm_multipliers", "[1,1,1,1]",
	  "is not a list of 5 finite numbers" },
	{ &arch_falcon_h1, falcon, "mlp_multipliers", "[1,{\"__float__\":\"NaN\"}]",
	  "is not a list of 2 finite numbers" },
	{ &arch_falcon_h1, falcon, "ssm_in_multiplier", "\"1\"", "not a finite number" },
	{ &arch_falcon_h1, falcon, "mamba_d_ssm", "0", "is not a number from 1 to 65536" },
	{ &arch_falcon_h1, falcon, "mamba_rms_norm", "1", "not true or false" },
	{ &arch_jamba, jamba, "attn_layer_period", "0", "is not a number from 1 to 65536" },
	{ &arch_jamba, jamba, "attn_layer_period", "1", "not below 'attn_layer_period', 1" },
	{ &arch_jamba, jamba, "mamba_dt_rank", "\"some\"", "is not a number from 1" },
	{ &arch_jamba, jamba, "mamba_dt_rank", "65537", "is not a number from 1 to 65536" },
	{ &arch_jamba, jamba, "mamba_d_state", "257", "is not a number from 1 to 256" },
	{ &arch_jamba, jamba, "mamba_d_conv", "65", "is not a number from 1 to 64" },
	{ &arch_jamba, jamba, "mamba_expand", "0", "is not a number from 1 to 65536" },
	{ &arch_lfm2, lfm2, "conv_L_cache", "0", "is not a number from 1 to 65536" },
	{ &arch_lfm2, lfm2, "full_attn_idxs", "[4]", "names a layer that is none of 4" },
	{ &arch_nemotron_h, nemotron, "hybrid_override_pattern", "\"M?\"", "unknown letter '?'" },
	{ &arch_nemotron_h, nemotron, "mamba_hidden_act", "\"gelu\"", "is not silu" },
	{ &arch_nemotron_h, nemotron, "time_step_min", "-1", "is not a number from 0 on" },
};

static void values_that_do_not_fit_are_errors(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct outcome *outcome =
			read_with(rows[i].arch, rows[i].text, rows[i].key, rows[i].value);

		if (!outcome->rc)
			fail_msg("%s %s passes", rows[i].key, rows[i].value);
		if (!strstr(outcome->err.message, rows[i].message) ||
		    !strstr(outcome->err.message, rows[i].key))
			fail_msg("%s: %s", rows[i].key, outcome->err.message);
		assert_int_equal(outcome->err.kind, ERR_INPUT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mixers_are_read_in_each_spelling),
		cmocka_unit_test(sizes_and_limits_are_read),
		cmocka_unit_test(multipliers_and_positions_are_read),
		cmocka_unit_test(multipliers_of_falcon_are_read),
		cmocka_unit_test(values_that_do_not_fit_are_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
