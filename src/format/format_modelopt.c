/* SPDX-License-Identifier: Apache-2.0
 *
 * ModelOpt (TensorRT-LLM's home): one quant_algo, in hf_quant_config.json and again in config.json,
 * fp8conv-formats(7).
 */
#include "format/write_config.h"
#include "format/variant.h"

#define NOT_IN_TRANSFORMERS "it does not know quant_method 'modelopt'"
#define SGLANG_TENSORS	    "it reads per-tensor FP8 of modelopt only"
#define VLLM_DENSE	    "it reads this quant_algo in dense layers only"

static const struct variant variants[] = {
	{
		.method = "FP8",
		.grain = GRAIN_TENSOR,
		.static_input = true,
		.weight_scale = "_scale",
		.input_scale = "input_scale",
		.layout = LAYOUT_SCALAR,
		.dtype = DT_F32,
		.refused = { [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
	},
	{
		.method = "FP8",
		.grain = GRAIN_TENSOR,
		.weight_scale = "_scale",
		.layout = LAYOUT_SCALAR,
		.dtype = DT_F32,
		.refused = { [ENGINE_ANY] =
				     "it needs static input scales, which --calibration gives" },
	},
	{
		.method = "FP8_PER_CHANNEL_PER_TOKEN",
		.grain = GRAIN_CHANNEL,
		.weight_scale = "_scale",
		.layout = LAYOUT_OUT,
		.dtype = DT_F32,
		.refused = { [ENGINE_SGLANG] = SGLANG_TENSORS,
			     [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
		.refused_moe = { [ENGINE_VLLM] = VLLM_DENSE },
		.weights = "channel",
		.inputs = "token",
	},
	{
		/* In small letters: TensorRT-LLM knows this spelling alone, vLLM any. */
		.method = "fp8_pb_wo",
		.grain = GRAIN_BLOCK,
		.tile = { 128, 128 },
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID_4D,
		.dtype = DT_F32,
		.refused = { [ENGINE_SGLANG] = SGLANG_TENSORS,
			     [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
		.refused_moe = { [ENGINE_VLLM] = VLLM_DENSE },
		.weights = "block",
	},
	{
		.method = "MXFP8",
		.grain = GRAIN_MX,
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID,
		.dtype = DT_U8,
		.refused = { [ENGINE_SGLANG] = SGLANG_TENSORS,
			     [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
		.weights = "group",
		.inputs = "group",
	},
	{ 0 },
};

static json_t *args_json(const struct scheme *scheme, const char *strategy, bool dynamic)
{
	json_t *args = json_pack("{s:b, s:i, s:s}", "dynamic", (int)dynamic, "num_bits", 8, "type",
				 "float");

	if (strategy)
		json_object_set_new(args, "strategy", json_string(strategy));
	if (scheme->grain == GRAIN_MX)
		json_object_set_new(args, "group_size",
				    json_integer((json_int_t)scheme->tile.cols));
	if (scheme->grain == GRAIN_BLOCK)
		json_object_set_new(
			args, "block_structure",
			json_pack("[i, i]", (int)scheme->tile.rows, (int)scheme->tile.cols));
	return args;
}

static json_t *group_json(const struct scheme *scheme, const struct variant *variant)
{
	json_t *group = json_object();

	if (variant->inputs || scheme->static_input)
		json_object_set_new(group, "input_activations",
				    args_json(scheme, variant->inputs, !scheme->static_input));
	json_object_set_new(group, "weights", args_json(scheme, variant->weights, false));
	json_object_set_new(group, "targets", json_pack("[s]", "Linear"));
	return group;
}

static json_t *producer_json(const struct quantization *quantization)
{
	return json_pack("{s:s, s:s}", "name", "fp8conv", "version", quantization->tool_version);
}

static int configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err)
{
	const struct scheme *scheme = &quantization->sets[0].scheme;
	const struct variant *variant = variant_find(format, scheme, quantization->target);
	json_t *kept = config_kept_json(quantization);
	json_t *kv_cache = json_null();

	(void)err;
	config_add_json(hf_quant_config,
			json_pack("{s:o, s:{s:s, s:s?, s:O}}", "producer",
				  producer_json(quantization), "quantization", "quant_algo",
				  variant->method, "kv_cache_quant_algo",
				  quantization->kv_cache ? "FP8" : NULL, "exclude_modules", kept),
			4);
	buf_putc(hf_quant_config, '\n');
	if (quantization->kv_cache)
		kv_cache =
			json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", 8, "type", "float");
	config_add_json(config,
			json_pack("{s:s, s:s, s:o, s:{s:o}, s:o, s:o}", "quant_method", "modelopt",
				  "quant_algo", variant->method, "ignore", kept, "config_groups",
				  "group_0", group_json(scheme, variant), "kv_cache_scheme",
				  kv_cache, "producer", producer_json(quantization)),
			2);
	return 0;
}

const struct format format_modelopt = {
	.name = "modelopt",
	.summary = "ModelOpt's: one quant_algo, hf_quant_config.json",
	.variants = variants,
	.refused_mixed = { [ENGINE_ANY] = "it has one quant_algo for all; use --format "
					  "compressed-tensors" },
	.kv_scale = "?_proj.?_scale",
	.kv_dims = 0,
	.configure = configure,
};
