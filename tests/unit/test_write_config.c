/* SPDX-License-Identifier: Apache-2.0
 *
 * What formats write into config.json and hf_quant_config.json: expectations by hand from
 * fp8conv-formats(7).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "format/edit_config.h"
#include "format/format.h"
#include "support/format_schemes.h"

static const char *const kept[] = { "lm_head", "model.layers.0.mlp.gate" };
static const char *const mlp[] = { "model.layers.0.mlp.experts.0.w1",
				   "model.layers.0.mlp.up_proj" };
static const char *const attention[] = { "model.layers.0.self_attn.k_proj",
					 "model.layers.0.self_attn.q_proj" };

#define KEPT	 "['lm_head', 'model.layers.0.mlp.gate']"
#define PRODUCER "{'name': 'fp8conv', 'version': '0.1.0'}"
/* compressed-tensors' arguments: strategy, dynamic, group_size, block_structure, more, observer */
#define ARGS(strategy, dynamic, size, block, more, observer)                           \
	"{'num_bits': 8, 'type': 'float', 'symmetric': true, 'strategy': '" strategy   \
	"', 'dynamic': " dynamic ", 'group_size': " size ", 'block_structure': " block \
	", 'actorder': null, " more "'observer': " observer ", 'observer_kwargs': {}}"
#define HEAD(version, format, kv)                                                             \
	"{'quant_method': 'compressed-tensors', 'version': '" version "', 'format': '" format \
	"', 'quantization_status': 'compressed', 'global_compression_ratio': null, "          \
	"'kv_cache_scheme': " kv ", 'ignore': " KEPT ", 'config_groups': "
#define GROUP(targets, weights, inputs)                                                 \
	"{'targets': " targets ", 'weights': " weights ", 'input_activations': " inputs \
	", 'output_activations': null"
#define U8	       "'scale_dtype': 'torch.uint8', "
#define TENSOR_WEIGHTS ARGS("tensor", "false", "null", "null", "", "'minmax'")
#define CHANNEL_GROUP(targets)                                                   \
	GROUP(targets, ARGS("channel", "false", "null", "null", "", "'minmax'"), \
	      ARGS("token", "true", "null", "null", "", "null"))
#define BLOCK_GROUP(targets)                                                         \
	GROUP(targets, ARGS("block", "false", "null", "[128, 128]", "", "'minmax'"), \
	      ARGS("group", "true", "128", "null", "", "null"))
#define MX_GROUP(targets)                                                    \
	GROUP(targets, ARGS("group", "false", "32", "null", U8, "'minmax'"), \
	      ARGS("group", "true", "32", "null", U8, "null"))               \
	", 'format': 'mxfp8-quantized'"
#define MODELOPT(algo, group, kv)                                                \
	"{'quant_method': 'modelopt', 'quant_algo': '" algo "', 'ignore': " KEPT \
	", 'config_groups': {'group_0': {" group                                 \
	", 'targets': ['Linear']}}, 'kv_cache_scheme': " kv ", 'producer': " PRODUCER "}"
#define MODELOPT_MIXED(mlp_algo, attention_algo, kv)                                         \
	"{'quant_method': 'modelopt', 'quant_algo': 'MIXED_PRECISION', 'ignore': " KEPT      \
	", 'quantized_layers': {'model.layers.0.mlp.experts.0.w1': {'quant_algo': " mlp_algo \
	"}, 'model.layers.0.mlp.up_proj': {'quant_algo': " mlp_algo                          \
	"}, 'model.layers.0.self_attn.k_proj': {'quant_algo': " attention_algo               \
	"}, 'model.layers.0.self_attn.q_proj': {'quant_algo': " attention_algo               \
	"}}, 'kv_cache_scheme': " kv ", 'producer': " PRODUCER "}"
#define MODELOPT_FILE(algo, kv)                                            \
	"{'producer': " PRODUCER ", 'quantization': {'quant_algo': '" algo \
	"', 'kv_cache_quant_algo': " kv ", 'exclude_modules': " KEPT "}}"

static const struct {
	const char *format;
	enum engine target;
	int scheme;
	bool kv_cache;
	const char *config;
	const char *file; /* hf_quant_config.json */
} configs[] = {
	{ "hf", ENGINE_ANY, BLOCK, false,
	  "{'quant_method': 'fp8', 'activation_scheme': 'dynamic', 'fmt': 'e4m3', "
	  "'weight_block_size': [128, "
	  "128], 'scale_fmt': 'ue8m0', 'modules_to_not_convert': " KEPT "}",
	  NULL },
	{ "hf", ENGINE_ANY, STATIC, false,
	  "{'quant_method': 'fp8', 'activation_scheme': 'static', 'fmt': 'e4m3', "
	  "'modules_to_not_convert': " KEPT "}",
	  NULL },
	{ "hf", ENGINE_VLLM, DYNAMIC, false,
	  "{'quant_method': 'fp8', 'activation_scheme': 'dynamic', 'fmt': 'e4m3', "
	  "'modules_to_not_convert': " KEPT "}",
	  NULL },
	{ "hf", ENGINE_TRANSFORMERS, STATIC, false,
	  "{'quant_method': 'fp8', 'activation_scheme': 'static', 'fmt': 'e4m3', "
	  "'weight_block_size': null, "
	  "'modules_to_not_convert': " KEPT "}",
	  NULL },
	{ "hf", ENGINE_SGLANG, MX, false,
	  "{'quant_method': 'mxfp8', 'activation_scheme': 'dynamic', 'fmt': 'e4m3', "
	  "'weight_block_size': [1, 32], "
	  "'scale_fmt': 'ue8m0', 'modules_to_not_convert': " KEPT "}",
	  NULL },
	{ "hf", ENGINE_VLLM, MX, false,
	  "{'quant_method': 'mxfp8', 'activation_scheme': 'dynamic', 'fmt': 'e4m3', "
	  "'weight_block_size': [1, 32], "
	  "'scale_fmt': 'ue8m0', 'ignored_layers': " KEPT "}",
	  NULL },
	{ "compressed-tensors", ENGINE_ANY, STATIC, true,
	  HEAD("0.12.2", "float-quantized",
	       "{'num_bits': 8, 'type': 'float', 'strategy': 'tensor', 'symmetric': true, "
	       "'dynamic': false}") "{'group_0': " GROUP("['Linear']", TENSOR_WEIGHTS,
							 TENSOR_WEIGHTS) "}}}",
	  NULL },
	{ "compressed-tensors", ENGINE_ANY, DYNAMIC, false,
	  HEAD("0.12.2", "float-quantized", "null") "{'group_0': " GROUP(
		  "['Linear']", TENSOR_WEIGHTS,
		  ARGS("tensor", "true", "null", "null", "", "null")) "}}}",
	  NULL },
	{ "compressed-tensors", ENGINE_ANY, CHANNEL, false,
	  HEAD("0.12.2", "float-quantized",
	       "null") "{'group_0': " CHANNEL_GROUP("['Linear']") "}}}",
	  NULL },
	{ "compressed-tensors", ENGINE_TRTLLM, BLOCK, false,
	  HEAD("0.12.2", "float-quantized", "null") "{'group_0': " BLOCK_GROUP("['Linear']") "}}}",
	  NULL },
	{ "compressed-tensors", ENGINE_VLLM, MX, false,
	  HEAD("0.15.0", "mxfp8-quantized", "null") "{'group_0': " MX_GROUP("['Linear']") "}}}",
	  NULL },
	{ "modelopt", ENGINE_ANY, STATIC, true,
	  MODELOPT("FP8",
		   "'input_activations': {'dynamic': false, 'num_bits': 8, 'type': 'float'}, "
		   "'weights': {'dynamic': false, 'num_bits': 8, 'type': 'float'}",
		   "{'dynamic': false, 'num_bits': 8, 'type': 'float'}"),
	  MODELOPT_FILE("FP8", "'FP8'") },
	{ "modelopt", ENGINE_TRTLLM, CHANNEL, false,
	  MODELOPT("FP8_PER_CHANNEL_PER_TOKEN",
		   "'input_activations': {'dynamic': true, 'num_bits': 8, 'type': 'float', "
		   "'strategy': 'token'}, "
		   "'weights': {'dynamic': false, 'num_bits': 8, 'type': 'float', 'strategy': "
		   "'channel'}",
		   "null"),
	  MODELOPT_FILE("FP8_PER_CHANNEL_PER_TOKEN", "null") },
	{ "modelopt", ENGINE_TRTLLM, BLOCK, false,
	  MODELOPT("fp8_pb_wo",
		   "'weights': {'dynamic': false, 'num_bits': 8, 'type': 'float', 'strategy': "
		   "'block', "
		   "'block_structure': [128, 128]}",
		   "null"),
	  MODELOPT_FILE("fp8_pb_wo", "null") },
	{ "modelopt", ENGINE_VLLM, MX, false,
	  MODELOPT("MXFP8",
		   "'input_activations': {'dynamic': true, 'num_bits': 8, 'type': 'float', "
		   "'strategy': 'group', "
		   "'group_size': 32}, 'weights': {'dynamic': false, 'num_bits': 8, 'type': "
		   "'float', "
		   "'strategy': 'group', 'group_size': 32}",
		   "null"),
	  MODELOPT_FILE("MXFP8", "null") },
};

/* Keys, values and their order; white space aside.  expected has single quotes. */
static void assert_json(const struct buf *text, const char *expected)
{
	struct err err = { 0 };
	char *quoted = xstrdup(expected);
	json_t *got, *wanted;
	char *a, *b;

	for (char *at = quoted; (at = strchr(at, '\''));)
		*at = '"';
	got = json_decode((struct json_text){ text->data, text->len }, &err);
	wanted = json_decode((struct json_text){ quoted, strlen(quoted) }, &err);
	if (!got || !wanted)
		fail_msg("%s: %s", err.message, got ? quoted : text->data);
	a = json_dumps(got, JSON_COMPACT);
	b = json_dumps(wanted, JSON_COMPACT);
	assert_string_equal(a, b);
	free(a);
	free(b);
	json_decref(got);
	json_decref(wanted);
	free(quoted);
}

static void configurations_are_as_engines_read_them(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
		const struct module_set set = { schemes[configs[i].scheme], attention, 2 };
		const struct quantization quantization = {
			.sets = &set,
			.n_sets = 1,
			.kept = kept,
			.n_kept = 2,
			.kv_cache = configs[i].kv_cache,
			.target = configs[i].target,
			.tool_version = "0.1.0",
		};
		struct buf config = { 0 }, file = { 0 };
		struct err err = { 0 };

		if (format_configure(format_named(configs[i].format), &quantization, &config, &file,
				     &err))
			fail_msg("%s", err.message);
		assert_json(&config, configs[i].config);
		if (configs[i].file)
			assert_json(&file, configs[i].file);
		else
			assert_int_equal(file.len, 0);
		buf_release(&config);
		buf_release(&file);
	}
}

static int configure(const char *format, const struct module_set *sets, size_t n_sets,
		     struct quantization quantization, struct buf *config, struct err *err)
{
	struct buf file = { 0 };
	int rc;

	quantization.sets = sets;
	quantization.n_sets = n_sets;
	quantization.tool_version = "0.1.0";
	rc = format_configure(format_named(format), &quantization, config, &file, err);
	buf_release(&file);
	return rc;
}

/* Two recipes in one file.  Fused layers and experts get the names under which engines look for
 * them. */
static void two_recipes_in_one_configuration(void **state)
{
	const struct module_set sets[] = { { schemes[BLOCK], mlp, 2 },
					   { schemes[CHANNEL], attention, 2 } };
	const struct module_set with_mx[] = { { schemes[CHANNEL], attention, 2 },
					      { schemes[MX], mlp, 2 } };
	const struct quantization rest = { .kept = kept, .n_kept = 2 };
	struct quantization trtllm = rest;
	struct buf config = { 0 };
	struct err err = { 0 };

	(void)state;
	trtllm.target = ENGINE_TRTLLM;
	assert_int_equal(configure("compressed-tensors", sets, 2, rest, &config, &err), 0);
	assert_json(&config,
		    HEAD("0.12.2", "float-quantized", "null") "{'group_0': " BLOCK_GROUP(
			    "['Linear']") "}, 'group_1': " CHANNEL_GROUP("['model.layers.0.self_"
									 "attn.k_proj', "
									 "'model.layers.0.self_"
									 "attn.q_proj', "
									 "'model.layers.0.self_"
									 "attn.qkv_proj']") "}}}");
	buf_release(&config);
	assert_int_equal(configure("compressed-tensors", with_mx, 2, rest, &config, &err), 0);
	assert_json(&config, HEAD("0.15.0", "mixed-precision", "null") "{'group_0': " CHANNEL_GROUP(
				     "['Linear']") ", 'format': 'float-quantized'}, "
						   "'group_1': " MX_GROUP("['model.layers.0.mlp."
									  "experts.0.w1', "
									  "'model.layers.0.mlp."
									  "experts.0.gate_proj', "
									  "'model.layers.0.mlp.up_"
									  "proj']") "}}}");
	buf_release(&config);
	assert_int_equal(configure("compressed-tensors", sets, 2, trtllm, &config, &err), -1);
	assert_non_null(strstr(err.message, "blockwise 128x128 and channelwise"));
	assert_int_equal(config.len, 0);
}

/* ModelOpt names an algorithm for each module.  vLLM has none of channels and
 * blocks there, and TensorRT-LLM knows blocks by another name. */
static void two_recipes_in_modelopt(void **state)
{
	const struct module_set sets[] = { { schemes[BLOCK], mlp, 2 },
					   { schemes[CHANNEL], attention, 2 } };
	const struct module_set statics[] = { { schemes[MX], mlp, 2 },
					      { schemes[STATIC], attention, 2 } };
	struct quantization rest = { .kept = kept, .n_kept = 2 };
	struct buf config = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(configure("modelopt", sets, 2, rest, &config, &err), 0);
	assert_json(&config, MODELOPT_MIXED("'FP8_PB_WO', 'group_size': 128",
					    "'FP8_PER_CHANNEL_PER_TOKEN'", "null"));
	buf_release(&config);
	rest.kv_cache = true;
	rest.target = ENGINE_VLLM;
	assert_int_equal(configure("modelopt", statics, 2, rest, &config, &err), 0);
	assert_json(&config, MODELOPT_MIXED("'MXFP8', 'group_size': 32", "'FP8'",
					    "{'dynamic': false, 'num_bits': 8, 'type': 'float'}"));
	buf_release(&config);
	rest.target = ENGINE_TRTLLM;
	assert_int_equal(configure("modelopt", sets, 2, rest, &config, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	assert_non_null(strstr(err.message, "FP8_BLOCK_SCALES"));
	rest.target = ENGINE_VLLM;
	assert_int_equal(configure("modelopt", sets + 1, 1, rest, &config, &err), 0);
	buf_release(&config);
	assert_int_equal(configure("modelopt",
				   (struct module_set[]){ sets[1], { schemes[MX], mlp, 2 } }, 2,
				   rest, &config, &err),
			 -1);
	assert_non_null(strstr(err.message, "codes of this quant_algo for weights"));
	assert_int_equal(config.len, 0);
}

/* Two recipes that the configuration cannot tell apart; the claim about scales must hold for both.
 */
static void recipes_of_the_same_words_share_their_claims(void **state)
{
	struct module_set sets[] = { { schemes[BLOCK], mlp, 2 }, { schemes[BLOCK], attention, 2 } };
	const struct quantization rest = { .kept = kept, .n_kept = 2 };
	struct buf config = { 0 };
	struct err err = { 0 };

	(void)state;
	sets[1].scheme.pow2 = false;
	assert_int_equal(configure("hf", sets, 2, rest, &config, &err), 0);
	assert_null(strstr(config.data, "scale_fmt"));
	buf_release(&config);
	assert_int_equal(configure("compressed-tensors", sets, 2, rest, &config, &err), 0);
	assert_null(strstr(config.data, "group_1"));
	buf_release(&config);
	sets[1].scheme.fp8_format = FP8_E5M2;
	assert_int_equal(configure("hf", sets, 2, rest, &config, &err), -1);
	assert_int_equal(configure("hf", sets + 1, 1, rest, &config, &err), 0);
	assert_non_null(strstr(config.data, "\"fmt\": \"e5m2\""));
	buf_release(&config);
}

static void unsupported_configurations_are_refused(void **state)
{
	const struct module_set experts = { schemes[CHANNEL], mlp, 2 };
	const struct module_set block = { schemes[BLOCK], attention, 2 };
	const struct quantization kv_cache = { .kv_cache = true };
	const struct quantization vllm = { .target = ENGINE_VLLM };
	const struct quantization none = { 0 };
	struct buf config = { 0 };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(configure("hf", &block, 1, kv_cache, &config, &err), -1);
	assert_non_null(strstr(err.message, "--kv-cache"));
	assert_int_equal(configure("modelopt", &experts, 1, vllm, &config, &err), -1);
	assert_non_null(strstr(err.message, "'model.layers.0.mlp.experts.0.w1'"));
	assert_int_equal(configure("hf", &experts, 1, none, &config, &err), -1);
	assert_int_equal(configure("hf", NULL, 0, none, &config, &err), -1);
	assert_int_equal(config.len, 0);
}

static void the_configuration_is_set_in_one_place(void **state)
{
	static const struct {
		const char *before, *after;
	} rows[] = {
		{ "{\n  \"a\": 1,\n  \"quantization_config\": null,\n  \"z\": [1,2]\n}\n",
		  "{\n  \"a\": 1,\n  \"quantization_config\": {\n    \"q\": 1\n  },\n  \"z\": "
		  "[1,2]\n}\n" },
		{ "{\n  \"a\": NaN\n}",
		  "{\n  \"a\": NaN,\n  \"quantization_config\": {\n    \"q\": 1\n  }\n}" },
		{ "{\"a\": 1}", "{\"a\": 1, \"quantization_config\": {\"q\": 1}}" },
		{ "{\n  \"text_config\": {\n    \"quantization_config\": {\"x\": 2},\n    \"b\": "
		  "3\n  }\n}",
		  "{\n  \"text_config\": {\n    \"quantization_config\": {\n      \"q\": 1\n    "
		  "},\n    \"b\": 3\n  "
		  "}\n}" },
		/* never in two places */
		{ "{\"quantization_config\": 0, \"text_config\": {\"b\": 3, "
		  "\"quantization_config\": {}}}",
		  "{\"quantization_config\": {\"q\": 1}, \"text_config\": {\"b\": 3}}" },
		{ "{\"text_config\": null}",
		  "{\"text_config\": null, \"quantization_config\": {\"q\": 1}}" },
	};
	struct buf out = { 0 };
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf before = { 0 };

		buf_puts(&before, rows[i].before);
		assert_int_equal(config_set_quantization(&before, "{\"q\": 1}", &out, &err), 0);
		assert_string_equal(out.data, rows[i].after);
		buf_release(&before);
		buf_release(&out);
	}
	buf_puts(&out, "[1]");
	assert_int_equal(config_set_quantization(&out, "{}", &out, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	buf_release(&out);
}

static void the_configuration_is_removed_everywhere(void **state)
{
	static const struct {
		const char *before, *after;
	} rows[] = {
		{ "{\n  \"a\": NaN,\n  \"quantization_config\": {\"q\": 1},\n  \"z\": [1,2]\n}\n",
		  "{\n  \"a\": NaN,\n  \"z\": [1,2]\n}\n" },
		{ "{\"quantization_config\": 0, \"text_config\": {\"b\": 3, "
		  "\"quantization_config\": {}}}",
		  "{\"text_config\": {\"b\": 3}}" },
		{ "{\"torch_dtype\": \"bfloat16\" , \"text_config\": null}",
		  "{\"torch_dtype\": \"bfloat16\" , \"text_config\": null}" },
		{ "{\"torch_dtype\":  \"float16\", \"text_config\": {\"dtype\":null}}",
		  "{\"torch_dtype\":  \"bfloat16\", \"text_config\": {\"dtype\":\"bfloat16\"}}" },
		{ "{\"dtype\": {\"a\": 1}, \"text_config\": [\"dtype\"]}",
		  "{\"dtype\": {\"a\": 1}, \"text_config\": [\"dtype\"]}" },
	};
	struct buf out = { 0 }, edited = { 0 };
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buf before = { 0 };

		buf_puts(&before, rows[i].before);
		assert_int_equal(config_set_dequantized(&before, "\"bfloat16\"", &out, &err), 0);
		assert_string_equal(out.data, rows[i].after);
		buf_release(&before);
		buf_release(&out);
	}
	buf_puts(&out, "[1]");
	assert_int_equal(config_set_dequantized(&out, "\"float32\"", &edited, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	buf_release(&edited);
	buf_release(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(configurations_are_as_engines_read_them),
		cmocka_unit_test(two_recipes_in_one_configuration),
		cmocka_unit_test(two_recipes_in_modelopt),
		cmocka_unit_test(recipes_of_the_same_words_share_their_claims),
		cmocka_unit_test(unsupported_configurations_are_refused),
		cmocka_unit_test(the_configuration_is_set_in_one_place),
		cmocka_unit_test(the_configuration_is_removed_everywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
