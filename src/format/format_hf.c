/* SPDX-License-Identifier: Apache-2.0
 *
 * The native FP8 of Hugging Face checkpoints (DeepSeek-V3, Qwen3-FP8): quant_method "fp8" or
 * "mxfp8": fp8conv-formats(7).
 */
#include "format/write_config.h"
#include "format/variant.h"

#define TRTLLM_BLOCKS  "it takes quant_method 'fp8' for 128x128 blocks"
#define TRTLLM_DYNAMIC "it takes one scale per tensor from modelopt only, with --calibration"

/* transformers has its own names for per-tensor scales, and a default of 128x128 that only null
 * turns off; vLLM reads MXFP8 as ModelOpt wrote it first. */
static const struct variant variants[] = {
	{
		.method = "fp8",
		.grain = GRAIN_BLOCK,
		.tile = { 128, 128 },
		.preferred = true,
		.weight_scale = "_scale_inv",
		.layout = LAYOUT_GRID,
		.dtype = DT_F32,
		.kept_key = "modules_to_not_convert",
	},
	{
		.method = "fp8",
		.grain = GRAIN_TENSOR,
		.weight_scale = "_scale",
		.layout = LAYOUT_ONE,
		.dtype = DT_F32,
		.refused = { [ENGINE_TRTLLM] = TRTLLM_DYNAMIC },
		.kept_key = "modules_to_not_convert",
	},
	{
		.method = "fp8",
		.grain = GRAIN_TENSOR,
		.static_input = true,
		.weight_scale = "_scale",
		.input_scale = "input_scale",
		.layout = LAYOUT_ONE,
		.dtype = DT_F32,
		.refused = { [ENGINE_TRTLLM] = TRTLLM_BLOCKS },
		.kept_key = "modules_to_not_convert",
	},
	{
		.method = "fp8",
		.grain = GRAIN_TENSOR,
		.only_for = ENGINE_TRANSFORMERS,
		.weight_scale = "_scale_inv",
		.layout = LAYOUT_SCALAR,
		.dtype = DT_F32,
		.kept_key = "modules_to_not_convert",
		.null_block_size = true,
	},
	{
		.method = "fp8",
		.grain = GRAIN_TENSOR,
		.static_input = true,
		.only_for = ENGINE_TRANSFORMERS,
		.weight_scale = "_scale_inv",
		.input_scale = "activation_scale",
		.layout = LAYOUT_SCALAR,
		.dtype = DT_F32,
		.kept_key = "modules_to_not_convert",
		.null_block_size = true,
	},
	{
		.method = "mxfp8",
		.grain = GRAIN_MX,
		.preferred = true,
		.weight_scale = "_scale_inv",
		.layout = LAYOUT_GRID,
		.dtype = DT_U8,
		.kept_key = "modules_to_not_convert",
	},
	{
		.method = "mxfp8",
		.grain = GRAIN_MX,
		.only_for = ENGINE_VLLM,
		.preferred = true,
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID,
		.dtype = DT_U8,
		.kept_key = "ignored_layers",
	},
	{ 0 },
};

static int configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err)
{
	const struct scheme *scheme = &quantization->sets[0].scheme;
	const struct variant *variant = variant_find(format, scheme, quantization->target);
	bool blocks = scheme->grain == GRAIN_BLOCK || scheme->grain == GRAIN_MX;
	json_t *object;

	(void)hf_quant_config;
	(void)err;
	object = json_pack("{s:s, s:s, s:s}", "quant_method", variant->method, "activation_scheme",
			   scheme->static_input ? "static" : "dynamic", "fmt",
			   scheme->fp8_format == FP8_E5M2 ? "e5m2" : "e4m3");
	if (blocks)
		json_object_set_new(
			object, "weight_block_size",
			json_pack("[i, i]", (int)scheme->tile.rows, (int)scheme->tile.cols));
	else if (variant->null_block_size)
		json_object_set_new(object, "weight_block_size", json_null());
	/* Claimed only where it is true.  transformers takes the bytes of MXFP8 for exponents only
	 * if it stands there. */
	if (blocks && quantization_pow2(quantization))
		json_object_set_new(object, "scale_fmt", json_string("ue8m0"));
	json_object_set_new(object, variant->kept_key, config_kept_json(quantization));
	config_add_json(config, object, 2);
	return 0;
}

const struct format format_hf = {
	.name = "hf",
	.summary = "Hugging Face's own: quant_method fp8 or mxfp8, weight_scale_inv",
	.variants = variants,
	.refused_mixed = { [ENGINE_ANY] = "its configuration has one scheme for all; use "
					  "--format compressed-tensors" },
	.configure = configure,
};
