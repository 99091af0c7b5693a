/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json in both of its spellings, nested, incomplete and wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "names/config.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_found_under_every_name),
		cmocka_unit_test(words_are_read_or_left_out),
		cmocka_unit_test(experts_have_their_own_width_or_the_common_one),
		cmocka_unit_test(a_missing_size_is_told_from_a_wrong_one),
		cmocka_unit_test(values_of_another_type_are_refused_by_name),
		cmocka_unit_test(bad_json_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
