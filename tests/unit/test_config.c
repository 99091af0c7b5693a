/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json in both of its spellings, nested, incomplete and wrong.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "names/config.h"
#include "plan/plan.h"

static struct model_config read_config(const char *text)
{
	struct model_config config;
	struct buf buf = { 0 };
	struct err err = { 0 };

	buf_puts(&buf, text);
	if (model_config_read(&config, &buf, &err))
		fail_msg("%s: %s", text, err.message);
	buf_release(&buf);
	return config;
}

static void sizes_are_found_under_every_name(void **state)
{
	static const struct {
		const char *text;
		enum config_size which;
		uint64_t value;
	} rows[] = {
		{ "{\"hidden_size\": 4096}", CONFIG_HIDDEN_SIZE, 4096 },
		{ "{\"n_embd\": 768}", CONFIG_HIDDEN_SIZE, 768 },
		{ "{\"num_experts\": 128}", CONFIG_EXPERTS, 128 },
		{ "{\"num_local_experts\": 8}", CONFIG_EXPERTS, 8 },
		{ "{\"n_routed_experts\": 256}", CONFIG_EXPERTS, 256 },
		{ "{\"num_key_value_heads\": 2}", CONFIG_KV_HEADS, 2 },
		{ "{\"n_inner\": null, \"intermediate_size\": 7}", CONFIG_INTERMEDIATE_SIZE, 7 },
		{ "{\"head_dim\": null}", CONFIG_HEAD_DIM, 0 },
		{ "{\"num_experts\": 0}", CONFIG_EXPERTS, 0 },
		{ "{\"num_attention_heads\": [32, 16, null]}", CONFIG_HEADS, 0 },
		{ "{\"hidden_size\": 1, \"text_config\": {\"hidden_size\": 5120}}",
		  CONFIG_HIDDEN_SIZE, 5120 },
		{ "{\"hidden_size\": 1, \"text_config\": {}}", CONFIG_HIDDEN_SIZE, 1 },
		{ "{\"vision_config\": {\"hidden_size\": 3}}", CONFIG_HIDDEN_SIZE, 0 },
		{ "{\"thinker_config\": {\"text_config\": {\"hidden_size\": 9}}}",
		  CONFIG_HIDDEN_SIZE, 9 },
		{ "{\"text_config\": 5}", CONFIG_HIDDEN_SIZE, 0 },
		{ "{\"time_step_limit\": [0.0, Infinity], \"hidden_size\": 8}", CONFIG_HIDDEN_SIZE,
		  8 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct model_config config = read_config(rows[i].text);

		if (config.size[rows[i].which] != rows[i].value)
			fail_msg("%s: %llu", rows[i].text,
				 (unsigned long long)config.size[rows[i].which]);
		model_config_release(&config);
	}
}

static void words_are_read_or_left_out(void **state)
{
	struct model_config config = read_config(
		"{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\", \"X\"],"
		" \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true,"
		" \"quantization_config\": {\"quant_method\": \"gptq\"}}");

	(void)state;
	assert_string_equal(config.model_type, "llama");
	assert_string_equal(config.architecture, "LlamaForCausalLM");
	assert_string_equal(config.dtype, "bfloat16");
	assert_string_equal(config.quant_method, "gptq");
	assert_true(config.has_quantization);
	assert_true(config.tie_word_embeddings && config.tie_is_stated);
	model_config_release(&config);

	config =
		read_config("{\"dtype\": \"float16\", \"torch_dtype\": \"x\", \"model_type\": null,"
			    " \"architectures\": null, \"quantization_config\": null,"
			    " \"tie_word_embeddings\": null}");
	assert_string_equal(config.dtype, "float16");
	assert_null(config.model_type);
	assert_null(config.architecture);
	assert_false(config.has_quantization);
	assert_false(config.tie_word_embeddings || config.tie_is_stated);
	model_config_release(&config);

	/* transformers asks the outer level, vLLM the inner one */
	config = read_config("{\"tie_word_embeddings\": true,"
			     " \"text_config\": {\"tie_word_embeddings\": false}}");
	assert_true(config.tie_word_embeddings);
	model_config_release(&config);

	config = read_config("");
	assert_int_equal(config.size[CONFIG_HIDDEN_SIZE], 0);
	model_config_release(&config);
}

static void experts_have_their_own_width_or_the_common_one(void **state)
{
	struct model_config both =
		read_config("{\"intermediate_size\": 18432, \"moe_intermediate_size\": 2048}");
	struct model_config one = read_config("{\"intermediate_size\": 14336}");

	(void)state;
	assert_int_equal(model_config_expert_width(&both), 2048);
	assert_int_equal(model_config_expert_width(&one), 14336);
	model_config_release(&both);
	model_config_release(&one);
}

static void a_missing_size_is_told_from_a_wrong_one(void **state)
{
	struct model_config missing = read_config("{}");
	struct model_config wrong = read_config("{\"n_embd\": [1]}");
	struct model_config good = read_config("{\"hidden_size\": 8}");
	struct err err = { 0 };

	(void)state;
	assert_int_equal(model_config_need(&good, CONFIG_HIDDEN_SIZE, &err), 0);
	assert_int_equal(model_config_need(&missing, CONFIG_HIDDEN_SIZE, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, "config.json has no 'hidden_size'");
	assert_int_equal(model_config_need(&wrong, CONFIG_HIDDEN_SIZE, &err), -1);
	assert_string_equal(err.message, "'hidden_size' in config.json is not a positive integer");
	model_config_release(&missing);
	model_config_release(&wrong);
	model_config_release(&good);
}

static void values_of_another_type_are_refused_by_name(void **state)
{
	static const char *const rows[][2] = {
		{ "{\"hidden_size\": \"4096\"}", "'hidden_size' is \"4096\"" },
		{ "{\"hidden_size\": 4096.0}", "'hidden_size' is 4096.0" },
		{ "{\"n_embd\": -1}", "'n_embd' is -1" },
		{ "{\"num_experts\": true}", "'num_experts' is true" },
		{ "{\"head_dim\": {}}", "'head_dim' is {}" },
		{ "{\"num_attention_heads\": [1, \"2\"]}", "'num_attention_heads' is [1,\"2\"]" },
		{ "{\"text_config\": {\"vocab_size\": \"7\"}}", "'vocab_size' is \"7\"" },
		{ "{\"tie_word_embeddings\": \"false\"}", "'tie_word_embeddings' is \"false\"" },
		{ "{\"tie_word_embeddings\": 1}", "'tie_word_embeddings' is 1" },
		{ "{\"model_type\": 7}", "'model_type' is 7" },
		{ "{\"architectures\": \"A\"}", "'architectures' is \"A\"" },
		{ "{\"architectures\": [1]}", "'architectures' is 1" },
		{ "{\"dtype\": [\"a\"]}", "'dtype' is [\"a\"]" },
		{ "{\"quantization_config\": {\"quant_method\": 1}}", "'quant_method' is 1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct model_config config;
		struct buf buf = { 0 };
		struct err err = { 0 };

		buf_puts(&buf, rows[i][0]);
		assert_int_equal(model_config_read(&config, &buf, &err), -1);
		assert_int_equal(err.kind, ERR_INPUT);
		if (!strstr(err.message, rows[i][1]))
			fail_msg("%s: %s", rows[i][0], err.message);
		buf_release(&buf);
	}
}

static void bad_json_is_refused(void **state)
{
	static const char *const texts[] = { "[]", "{", "{\"a\": 1, \"a\": 2}", "nul" };

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct model_config config;
		struct buf buf = { 0 };
		struct err err = { 0 };

		buf_puts(&buf, texts[i]);
		assert_int_equal(model_config_read(&config, &buf, &err), -1);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_non_null(strstr(err.message, "config.json"));
		buf_release(&buf);
	}
}

/* --- plan config --- */

/* The configuration of a plan: for more recipes than fp8conv has rows of, as many groups as
 * recipes, the largest first, and every module in the group of its own; and the names of kept
 * modules. */

#define N_RECIPES 40

/* Module i, of a recipe of its own; the last two share one. */
static struct recipe recipes_in_use[N_RECIPES];
static char names[N_RECIPES + 1][32];
static struct unit units[N_RECIPES + 1];
static struct plan_unit beside[N_RECIPES + 1];

static void plan_fill(struct plan *plan)
{
	struct err err = { 0 };
	const struct scheme scheme = { .granularity = GRANULARITY_CHANNEL };

	for (size_t i = 0; i <= N_RECIPES; i++) {
		struct recipe *recipe = &recipes_in_use[i < N_RECIPES ? i : N_RECIPES - 1];

		*recipe = *recipe_find(i ? "channelwise" : "blockwise", &err);
		snprintf(names[i], sizeof names[i], "layers.%zu.up_proj.weight", i);
		units[i] = (struct unit){ .name = names[i], .recipe = recipe };
		beside[i].spec = &recipe->weight;
	}
	*plan = (struct plan){
		.source.config = { .data = (char *)"{}", .len = 2 },
		.units = beside,
		.selection = { .units = units, .n_units = N_RECIPES + 1 },
		.format = format_select("compressed-tensors", ENGINE_ANY, &scheme, "x", &err),
	};
	assert_non_null(plan->format);
}

/* The module that the group with this number names alone: layers.<it>. */
static unsigned module_of(const json_t *groups, size_t group)
{
	char name[32];
	json_t *targets;
	unsigned module = UINT_MAX;

	snprintf(name, sizeof name, "group_%zu", group);
	targets = json_object_get(json_object_get(groups, name), "targets");
	assert_int_equal(json_array_size(targets), 1);
	sscanf(json_string_value(json_array_get(targets, 0)), "%*[^0-9]%u", &module);
	assert_in_range(module, 0, N_RECIPES - 2);
	return module;
}

static void files_release(struct plan *plan)
{
	buf_release(&plan->files.config);
	buf_release(&plan->files.quantization);
	buf_release(&plan->files.hf_quant_config);
	notes_release(&plan->selection.notes);
}

static void every_recipe_has_a_group(void **state)
{
	bool found[N_RECIPES] = { false };
	struct plan plan;
	struct err err = { 0 };
	json_t *config, *groups, *targets;

	(void)state;
	plan_fill(&plan);
	assert_int_equal(plan_configuration(&plan, &err), 0);
	config = json_loadb(plan.files.config.data, plan.files.config.len, 0, NULL);
	groups = json_object_get(json_object_get(config, "quantization_config"), "config_groups");
	assert_int_equal(json_object_size(groups), N_RECIPES);
	targets = json_object_get(json_object_get(groups, "group_0"), "targets");
	assert_string_equal(json_string_value(json_array_get(targets, 0)), "Linear");
	for (size_t group = 1; group < N_RECIPES; group++) {
		unsigned module = module_of(groups, group);

		assert_false(found[module]);
		found[module] = true;
	}
	json_decref(config);
	files_release(&plan);
	skip_list_release(&plan.skipped);
}

/* The names of kept modules for one quantized and one kept weight, and the error. */
static int list_names(char *quantized, char *kept, struct plan *plan, struct err *err)
{
	static const uint64_t shape[] = { 128, 128 };
	const struct scheme scheme = { .granularity = GRANULARITY_CHANNEL };
	struct st_tensor tensor = {
		.name = kept, .dtype = DT_BF16, .n_dims = 2, .shape = (uint64_t *)shape
	};
	const struct tensor_ref ref = { .tensor = &tensor };
	const struct recipe *recipe = recipe_find("channelwise", err);
	struct unit two[] = { { .name = quantized, .recipe = recipe },
			      { .name = kept, .source = &ref, .skip = SKIP_MODULE } };
	struct plan_unit specs[] = { { .spec = &recipe->weight }, { 0 } };
	int rc;

	*plan = (struct plan){
		.units = specs,
		.selection = { .units = two, .n_units = 2 },
		.format = format_select("compressed-tensors", ENGINE_ANY, &scheme, "x", err),
	};
	rc = plan_configuration(plan, err);
	files_release(plan);
	return rc;
}

/* Engines make the lm_head of a tied model, which has no tensor of it. */
static void lm_head_is_named_where_no_tensor_is(void **state)
{
	struct err err = { 0 };
	struct plan plan;

	(void)state;
	assert_int_equal(list_names("a.q_proj.weight", "a.gate.weight", &plan, &err), 0);
	assert_int_equal(plan.skipped.n, 2);
	assert_string_equal(plan.skipped.names[0], "a.gate");
	assert_string_equal(plan.skipped.names[1], "lm_head");
	skip_list_release(&plan.skipped);
	assert_int_equal(list_names("a.q_proj.weight", "b.lm_head.weight", &plan, &err), 0);
	assert_int_equal(plan.skipped.n, 1);
	assert_string_equal(plan.skipped.names[0], "b.lm_head");
	skip_list_release(&plan.skipped);
	assert_int_equal(list_names("lm_head.weight", "a.gate.weight", &plan, &err), 0);
	assert_int_equal(plan.skipped.n, 1);
	assert_string_equal(plan.skipped.names[0], "a.gate");
	skip_list_release(&plan.skipped);
}

static void a_name_that_ends_a_quantized_module_is_refused(void **state)
{
	struct err err = { 0 };
	struct plan plan;

	(void)state;
	assert_int_equal(list_names("a.0.q_proj.weight", "proj.weight", &plan, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message,
			    "'proj' is kept, and its name in the list of kept modules also "
			    "matches 'a.0.q_proj', which is quantized, in some engine: keep both "
			    "with --exclude");
	skip_list_release(&plan.skipped);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_found_under_every_name),
		cmocka_unit_test(words_are_read_or_left_out),
		cmocka_unit_test(experts_have_their_own_width_or_the_common_one),
		cmocka_unit_test(a_missing_size_is_told_from_a_wrong_one),
		cmocka_unit_test(values_of_another_type_are_refused_by_name),
		cmocka_unit_test(bad_json_is_refused),
		cmocka_unit_test(every_recipe_has_a_group),
		cmocka_unit_test(lm_head_is_named_where_no_tensor_is),
		cmocka_unit_test(a_name_that_ends_a_quantized_module_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
