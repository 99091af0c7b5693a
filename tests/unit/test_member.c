/* SPDX-License-Identifier: Apache-2.0
 *
 * Members of configurations: what the loaders of vLLM 0.32, SGLang 0.5.23, transformers 5.24 and
 * compressed-tensors 0.20 do with each value was read in their code and, for compressed-tensors and
 * transformers, is run by tests/conformance/test_members.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "format/member.h"

#define ARGS(more)   "{'num_bits': 8, 'type': 'float', 'symmetric': true" more "}"
#define CHANNEL	     ", 'strategy': 'channel', 'dynamic': false"
#define TOKEN	     ", 'strategy': 'token', 'dynamic': true"
#define HEAD(status) "{'quant_method': 'compressed-tensors', 'quantization_status': " status
#define GROUP(weights, inputs, more)                                         \
	"'config_groups': {'g': {'targets': ['Linear'], 'weights': " weights \
	", 'input_activations': " inputs more "}}}"
#define SOUND	       GROUP(ARGS(CHANNEL), ARGS(TOKEN), ", 'output_activations': null")
#define COMMON	       HEAD("'compressed'") ", 'format': 'float-quantized', 'ignore': ['lm_head'], "
#define WEIGHTS(args)  COMMON GROUP(args, ARGS(TOKEN), "")
#define INPUTS(args)   COMMON GROUP(ARGS(CHANNEL), args, "")
#define TOP(more)      COMMON more ", " SOUND
#define FP8(more)      "{'quant_method': 'fp8', 'activation_scheme': 'dynamic'" more "}"
#define BLOCKS	       ", 'weight_block_size': [128, 128]"
#define FBGEMM(more)   "{'quant_method': 'fbgemm_fp8'" more "}"
#define MODELOPT(more) "{'quant_method': 'modelopt', 'quant_algo': 'FP8'" more "}"

static const struct {
	const char *config;
	enum granularity granularity; /* of the scales */
	enum engine target;
	const char *message; /* a part of the first one; NULL: nothing is reported */
} rows[] = {
#define CT(config, target, message)                          \
	{                                                    \
		config, GRANULARITY_CHANNEL, target, message \
	}
	CT(COMMON SOUND, ENGINE_ANY, NULL),
	CT(COMMON SOUND, ENGINE_TRANSFORMERS, NULL),
	CT(TOP("'version': '0.9', 'zeta': 1"), ENGINE_ANY, NULL),
	CT(HEAD("'frozen'") ", 'format': 'naive-quantized', 'ignore': [], " SOUND,
	   ENGINE_TRANSFORMERS, "quantization_status is \"frozen\""),
	CT(HEAD("'frozen'") ", 'format': 'naive-quantized', 'ignore': [], " SOUND, ENGINE_VLLM,
	   NULL),
	CT(HEAD("7") ", 'format': 'float-quantized', 'ignore': [], " SOUND, ENGINE_ANY,
	   "quantization_status is 7, but must be 'compressed'"),
	CT(HEAD("'compressed'") ", 'format': 'float-quantized', " SOUND, ENGINE_TRANSFORMERS,
	   "ignore is missing"),
	CT(HEAD("'compressed'") ", 'format': 'float-quantized', " SOUND, ENGINE_VLLM, NULL),
	CT(HEAD("'compressed'") ", 'format': 'float-quantized', 'ignore': 'lm_head', " SOUND,
	   ENGINE_VLLM, "ignore is \"lm_head\", but must be a list of strings"),
	CT(HEAD("'compressed'") ", 'format': 'float-quantized', 'ignore': [1], " SOUND, ENGINE_ANY,
	   "ignore is [1]"),
	CT(HEAD("'compressed'") ", 'format': 'pack-quantized', 'ignore': [], " SOUND, ENGINE_VLLM,
	   "the format of 'g' is 'pack-quantized'"),
	CT(HEAD("'compressed'") ", 'format': 'pack-quantized', 'ignore': [], " SOUND, ENGINE_SGLANG,
	   NULL),
	CT(HEAD("'compressed'") ", 'format': 'int-quantized', 'ignore': [], " SOUND, ENGINE_ANY,
	   NULL),
	CT(HEAD("'compressed'") ", 'ignore': [], " SOUND, ENGINE_VLLM, "format is missing"),
	CT(HEAD("'compressed'") ", 'format': 3, 'ignore': [], " SOUND, ENGINE_ANY, "format is 3"),
	CT(TOP("'kv_cache_scheme': 7"), ENGINE_ANY, "kv_cache_scheme is 7"),
	CT(TOP("'kv_cache_scheme': {'num_bits': 8, 'type': 'int', 'strategy': 'tensor', "
	       "'symmetric': true}"),
	   ENGINE_VLLM, "kv_cache_scheme.type is \"int\", but must be 'float'"),
	CT(TOP("'kv_cache_scheme': {'num_bits': 8, 'type': 'float', 'strategy': 'attn_head', "
	       "'symmetric': true, 'dynamic': false}"),
	   ENGINE_ANY, NULL),
	CT(TOP("'kv_cache_scheme': {'num_bits': 8, 'type': 'float', 'symmetric': true}"),
	   ENGINE_VLLM, "kv_cache_scheme.strategy is missing"),
	CT(TOP("'sparsity_config': {'format': 'dense', 'targets': []}"), ENGINE_ANY, NULL),
	CT(TOP("'sparsity_config': {'format': 'dense', 'targets': ['Linear']}"), ENGINE_VLLM,
	   "sparsity_config.targets is [\"Linear\"]"),
	CT(TOP("'transform_config': {}"), ENGINE_ANY, NULL),
	CT(TOP("'transform_config': {'config_groups': {'R': {}}}"), ENGINE_VLLM, NULL),
	CT(TOP("'transform_config': {'config_groups': {'R': {}}}"), ENGINE_TRANSFORMERS,
	   "transform_config has transforms"),
	CT(WEIGHTS("{'num_bits': 4, 'type': 'float'" CHANNEL "}"), ENGINE_ANY,
	   "config_groups.g.weights.num_bits is 4, but must be 8"),
	CT(WEIGHTS("{'num_bits': '8', 'type': 'float'" CHANNEL "}"), ENGINE_ANY,
	   "num_bits is \"8\""),
	CT(WEIGHTS("{'num_bits': 8, 'type': 'int'" CHANNEL "}"), ENGINE_ANY, "type is \"int\""),
	CT(WEIGHTS("{'num_bits': 8" CHANNEL "}"), ENGINE_ANY, "type is missing"),
	CT(WEIGHTS("{'num_bits': 8, 'type': 'FLOAT'" CHANNEL "}"), ENGINE_ANY, NULL),
	CT(WEIGHTS("{'num_bits': 8, 'type': 'float', 'symmetric': false" CHANNEL "}"), ENGINE_ANY,
	   "symmetric is false, but must be true"),
	CT(WEIGHTS(ARGS(", 'strategy': 'channel', 'dynamic': true")), ENGINE_ANY,
	   "dynamic is true"),
	CT(WEIGHTS(ARGS(", 'group_size': -1")), ENGINE_ANY, NULL),
	CT(WEIGHTS(ARGS(CHANNEL ", 'group_size': 32")), ENGINE_ANY,
	   "with strategy 'channel' has a group_size"),
	CT(WEIGHTS(ARGS(CHANNEL ", 'block_structure': [128, 128]")), ENGINE_ANY,
	   "with strategy 'channel' has a block_structure"),
	CT(WEIGHTS(ARGS(CHANNEL ", 'block_structure': [128, 0]")), ENGINE_ANY,
	   "block_structure is [128,0]"),
	CT(WEIGHTS(ARGS(CHANNEL ", 'actorder': 'group'")), ENGINE_ANY, "actorder is \"group\""),
	CT(WEIGHTS(ARGS(CHANNEL ", 'observer_kwargs': null")), ENGINE_ANY,
	   "observer_kwargs is null"),
	CT(WEIGHTS(ARGS(CHANNEL ", 'shape': 1")), ENGINE_ANY, "a key 'shape' that is unknown"),
	CT(WEIGHTS("null"), ENGINE_ANY, "config group 'g' has no weights"),
	CT(WEIGHTS("3"), ENGINE_ANY, "config_groups.g.weights is 3"),
	CT(INPUTS("7"), ENGINE_ANY, "input_activations is 7, but must be null or an object"),
	CT(INPUTS("[]"), ENGINE_ANY, "input_activations is []"),
	CT(INPUTS("null"), ENGINE_ANY, NULL),
	CT(INPUTS("{'num_bits': 8, 'type': 'int'" TOKEN "}"), ENGINE_ANY,
	   "input_activations.type is \"int\""),
	CT(INPUTS("{'num_bits': 8" TOKEN "}"), ENGINE_ANY, "input_activations.type is missing"),
	CT(INPUTS(ARGS(", 'strategy': 'token', 'dynamic': false")), ENGINE_ANY,
	   "with strategy 'token' is not dynamic"),
	CT(INPUTS(ARGS(", 'strategy': 'block', 'dynamic': true")), ENGINE_ANY,
	   "strategy is \"block\""),
	CT(COMMON GROUP(ARGS(CHANNEL), ARGS(TOKEN), ", 'kernel': 1"), ENGINE_ANY,
	   "config_groups.g has a key 'kernel' that is unknown"),
	CT(COMMON GROUP(ARGS(CHANNEL), ARGS(TOKEN), ", 'format': 'dense'"), ENGINE_VLLM,
	   "the format of 'g' is 'dense'"),
	CT(COMMON GROUP(ARGS(CHANNEL), ARGS(TOKEN), ", 'format': 'mixed-precision'"), ENGINE_ANY,
	   "config_groups.g.format is \"mixed-precision\""),
	CT(COMMON GROUP(ARGS(CHANNEL), ARGS(TOKEN), ", 'output_activations': 'x'"), ENGINE_ANY,
	   "output_activations is \"x\""),
	CT(COMMON "'config_groups': []}", ENGINE_ANY, "config_groups is []"),
	CT(COMMON "'config_groups': {'FP8_DYNAMIC': ['Linear']}}", ENGINE_ANY,
	   "config group 'FP8_DYNAMIC' is not an object"),
#undef CT
#define HF(config, target, message)                        \
	{                                                  \
		config, GRANULARITY_BLOCK, target, message \
	}
	HF(FP8(BLOCKS ", 'scale_fmt': 'ue8m0', 'fmt': 'e4m3', 'modules_to_not_convert': null"),
	   ENGINE_ANY, NULL),
	HF(FP8(BLOCKS ", 'modules_to_not_convert': 'lm_head'"), ENGINE_ANY,
	   "modules_to_not_convert is \"lm_head\", but must be null or a list of strings"),
	HF(FP8(BLOCKS ", 'modules_to_not_convert': {'lm_head': 1}"), ENGINE_SGLANG,
	   "modules_to_not_convert is {\"lm_head\":1}"),
	HF(FP8(BLOCKS ", 'ignored_layers': [null]"), ENGINE_VLLM, "ignored_layers is [null]"),
	HF(FP8(BLOCKS ", 'scale_fmt': 3"), ENGINE_ANY, "scale_fmt is 3"),
	HF(FP8(BLOCKS ", 'scale_fmt': null"), ENGINE_TRANSFORMERS, "scale_fmt is null"),
	HF(FP8(BLOCKS ", 'scale_fmt': null"), ENGINE_VLLM, NULL),
	HF(FP8(BLOCKS ", 'fmt': {}"), ENGINE_ANY, "fmt is {}"),
	HF(FP8(", 'weight_block_size': 128"), ENGINE_ANY, "weight_block_size is 128"),
	{ FP8(BLOCKS), GRANULARITY_TENSOR, ENGINE_VLLM, "the scales are one per tensor" },
	{ FP8(""), GRANULARITY_TENSOR, ENGINE_VLLM, NULL },
	{ FP8(""), GRANULARITY_TENSOR, ENGINE_TRANSFORMERS, "weight_block_size is missing" },
	{ FP8(", 'weight_block_size': null"), GRANULARITY_TENSOR, ENGINE_TRANSFORMERS, NULL },
#undef HF
	{ FBGEMM(", 'modules_to_not_convert': [], 'activation_scale_ub': 1200.0"),
	  GRANULARITY_CHANNEL, ENGINE_ANY, NULL },
	{ FBGEMM(", 'modules_to_not_convert': []"), GRANULARITY_CHANNEL, ENGINE_VLLM,
	  "activation_scale_ub is missing" },
	{ FBGEMM(", 'modules_to_not_convert': [], 'activation_scale_ub': 1200.0"),
	  GRANULARITY_BLOCK, ENGINE_ANY, "one scale for each row" },
	{ MODELOPT(", 'ignore': ['lm_head'], 'kv_cache_scheme': null"), GRANULARITY_TENSOR,
	  ENGINE_ANY, NULL },
	{ MODELOPT(", 'ignore': 'lm_head'"), GRANULARITY_TENSOR, ENGINE_ANY,
	  "ignore is \"lm_head\"" },
	{ MODELOPT(", 'ignore': null"), GRANULARITY_TENSOR, ENGINE_VLLM, "ignore is null" },
	{ MODELOPT(", 'ignore': null"), GRANULARITY_TENSOR, ENGINE_SGLANG, NULL },
	{ MODELOPT(", 'kv_cache_scheme': 'fp8'"), GRANULARITY_TENSOR, ENGINE_ANY,
	  "kv_cache_scheme is \"fp8\"" },
	{ MODELOPT(", 'group_size': 'x'"), GRANULARITY_TENSOR, ENGINE_ANY, "group_size is \"x\"" },
	{ MODELOPT(""), GRANULARITY_TENSOR, ENGINE_TRTLLM, "it is missing: TensorRT-LLM" },
	{ "{'quantization': {'quant_algo': 'FP8', 'exclude_modules': 3}}", GRANULARITY_TENSOR,
	  ENGINE_ANY, "exclude_modules is 3" },
};

static json_t *decode(const char *text)
{
	json_error_t error;
	char quoted[2048];
	size_t n = strlen(text);

	assert_true(n < sizeof quoted);
	for (size_t i = 0; i <= n; i++)
		quoted[i] = text[i] == '\'' ? '"' : text[i];
	return json_loads(quoted, 0, &error);
}

static void keep_first(void *context, enum config_part part, const char *file, const char *message)
{
	char *first = context;

	(void)part;
	(void)file;
	if (!*first)
		snprintf(first, 1024, "%s", message);
}

static void each_member_is_read_as_its_loaders_read_it(void **state)
{
	const bool fp8[] = { true };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct detection detection = { .n_weights = 1, .declared = true };
		char first[1024] = "";

		detection.scheme.granularity = rows[i].granularity;
		if (rows[i].granularity == GRANULARITY_BLOCK)
			detection.scheme.tile = detection.declared_tile = (struct tile){ 128, 128 };
		detection.config = decode(rows[i].config);
		assert_non_null(detection.config);
		config_check_keys(&(struct config_check){ .detection = &detection,
							  .fp8_groups = fp8,
							  .target = rows[i].target,
							  .report = keep_first,
							  .context = first });
		if (rows[i].message ? !strstr(first, rows[i].message) : *first)
			fail_msg("%s for %s: '%s', expected '%s'", rows[i].config,
				 engine_name(rows[i].target), first,
				 rows[i].message ? rows[i].message : "");
		json_decref(detection.config);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_member_is_read_as_its_loaders_read_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
