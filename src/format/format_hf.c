/* SPDX-License-Identifier: Apache-2.0
 *
 * The native FP8 of Hugging Face checkpoints (DeepSeek-V3, Qwen3-FP8): quant_method "fp8" or
 * "mxfp8": fp8conv-formats(7).
 */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "format/member.h"
#include "format/read_config.h"
#include "format/write_config.h"
#include "format/variant.h"

#define TRTLLM_BLOCKS  "it reads quant_method 'fp8' as 128x128 blocks"
#define TRTLLM_DYNAMIC "it supports one scale per tensor only in modelopt, with --calibration"

/* vLLM 0.32, ColumnParallelLinear._maybe_allow_fp8_block_shape_mismatch(): skips the check of
 * blocks where the parts of a merged layer are not whole ones, for quant_method fp8. */
static const char vllm_merged[] =
	"vLLM merges it with other weights, and silently reads them with the scales of other rows";

static const char transformers_grid[] =
	"transformers divides the shape of a weight by that of its scales to find its blocks, "
	"and computes with wrong weights or stops";

/* transformers has its own names for per-tensor scales, and a default of 128x128 that only null
 * overrides; vLLM reads MXFP8 in the way that ModelOpt introduced; SGLang
 * (since 0.5.23) by both names. */
static const char *const methods[] = { "fp8", "mxfp8", NULL };

#define NOT_VLLM	 ENGINE_BIT(ENGINE_VLLM)
#define NOT_SGLANG	 ENGINE_BIT(ENGINE_SGLANG)
#define NOT_TRANSFORMERS ENGINE_BIT(ENGINE_TRANSFORMERS)

static const struct variant variants[] = {
	{
		.method = "fp8",
		.granularity = GRANULARITY_BLOCK,
		.tile = { 128, 128 },
		.preferred = true,
		.weight_scale = "_scale_inv",
		.layout = LAYOUT_GRID,
		.refused_rows = { [ENGINE_TRANSFORMERS] = transformers_grid },
		.refused_cols = { [ENGINE_TRANSFORMERS] = transformers_grid },
		.misread_merged = { [ENGINE_ANY] = vllm_merged, [ENGINE_VLLM] = vllm_merged },
	},
	{
		.method = "fp8",
		.granularity = GRANULARITY_TENSOR,
		.unread = NOT_TRANSFORMERS,
		.weight_scale = "_scale",
		.layout = LAYOUT_ONE,
		.refused = { [ENGINE_TRTLLM] = TRTLLM_DYNAMIC },
	},
	{
		.method = "fp8",
		.granularity = GRANULARITY_TENSOR,
		.static_input = true,
		.unread = NOT_TRANSFORMERS,
		.weight_scale = "_scale",
		.input_scale = "input_scale",
		.layout = LAYOUT_ONE,
		.refused = { [ENGINE_TRTLLM] = TRTLLM_BLOCKS },
	},
	{
		.method = "fp8",
		.granularity = GRANULARITY_TENSOR,
		.only_for = ENGINE_TRANSFORMERS,
		.unread = NOT_VLLM | NOT_SGLANG,
		.weight_scale = "_scale_inv",
		.layout = LAYOUT_SCALAR,
		.null_block_size = true,
	},
	{
		.method = "fp8",
		.granularity = GRANULARITY_TENSOR,
		.static_input = true,
		.only_for = ENGINE_TRANSFORMERS,
		.unread = NOT_VLLM | NOT_SGLANG,
		.weight_scale = "_scale_inv",
		.input_scale = "activation_scale",
		.layout = LAYOUT_SCALAR,
		.null_block_size = true,
	},
	{
		.method = "mxfp8",
		.granularity = GRANULARITY_MX,
		.preferred = true,
		.unread = NOT_VLLM,
		.weight_scale = "_scale_inv",
		.layout = LAYOUT_GRID,
	},
	{
		.method = "mxfp8",
		.granularity = GRANULARITY_MX,
		.only_for = ENGINE_VLLM,
		.preferred = true,
		.unread = NOT_TRANSFORMERS,
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID,
		.kept_key = "ignored_layers",
	},
	{ 0 },
};

/* Returns the last segments of the tables' paths: transformers looks for these ends. */
static json_t *tables_json(const struct quantization *quantization)
{
	json_t *names = json_object(), *list = json_array();
	const char *name;
	json_t *value;

	for (size_t i = 0; i < quantization->n_tables; i++)
		json_object_set_new(names, text_after(quantization->tables[i], '.'), json_null());
	json_object_foreach(names, name, value) json_array_append_new(list, json_string(name));
	json_decref(names);
	return list;
}

/* The keys by which Ling-3 and MiMo-V2 say that their experts are MXFP4. */
static const char *const expert_keys[] = { "routed_experts_quant_method",
					   "routed_experts_group_size", "store_dtype",
					   "mxfp4_block_size" };

/* DeepSeek-V4 says it beside the configuration. */
static bool passes(const struct passed *passed)
{
	return !strcmp(passed->kind, "mxfp4") &&
	       !strcmp(json_member_text(passed->config, "quant_method"), "fp8") &&
	       (!strcmp(passed->expert_dtype, "fp4") ||
		!strcasecmp(json_member_text(passed->config, expert_keys[0]), "mxfp4") ||
		!strcasecmp(json_member_text(passed->config, "store_dtype"), "mxfp4"));
}

static void add_expert_keys(json_t *object, const struct passed *passed)
{
	for (size_t i = 0; passed->n_modules && i < sizeof expert_keys / sizeof *expert_keys; i++) {
		json_t *value = json_object_get(passed->config, expert_keys[i]);

		if (value)
			json_object_set(object, expert_keys[i], value);
	}
}

static int configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err)
{
	const struct scheme *scheme = &quantization->sets[0].scheme;
	const struct variant *variant = variant_find(format, scheme, quantization->target);
	bool blocks =
		scheme->granularity == GRANULARITY_BLOCK || scheme->granularity == GRANULARITY_MX;
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
	/* Stated only where it is true.  Without it transformers does not read the bytes of MXFP8
	 * as exponents. */
	if (blocks && quantization_pow2(quantization))
		json_object_set_new(object, "scale_fmt", json_string("ue8m0"));
	add_expert_keys(object, &quantization->passed);
	json_object_set_new(object,
			    variant->kept_key ? variant->kept_key : "modules_to_not_convert",
			    config_kept_json(quantization));
	if (quantization->n_tables)
		json_object_set_new(object, "modules_to_convert", tables_json(quantization));
	config_add_json(config, object, 2);
	return 0;
}

/* --- reading --- */

/* Whether GPTQModel wrote the configuration: its FP8 has the same quant_method, and scales that
 * divide under the same names. */
static bool made_by_gptqmodel(const json_t *config)
{
	const json_t *quantizers = json_object_get(json_object_get(config, "meta"), "quantizer");
	const json_t *quantizer;
	size_t i;

	if (!strcmp(json_member_text(config, "weight_scale_semantics"), "inverse"))
		return true;
	json_array_foreach(
		quantizers, i,
		quantizer) if (!strncasecmp(json_is_string(quantizer) ? json_string_value(quantizer)
								      : "",
					    "gptqmodel", strlen("gptqmodel"))) return true;
	return false;
}

static void read_fp8(const json_t *config, struct declaration *said)
{
	struct scheme *scheme = &said->scheme;
	const char *activations = json_member_text(config, "activation_scheme");

	said->declared = true;
	said->has_input = *activations;
	scheme->static_input = !strcmp(activations, "static");
	scheme->granularity =
		config_tile(json_object_get(config, "weight_block_size"), &scheme->tile)
			? GRANULARITY_BLOCK
			: GRANULARITY_TENSOR;
	if (strstr(json_member_text(config, "fmt"), "e5m2"))
		scheme->fp8_format = FP8_E5M2;
	said->scale_fmt = !strcmp(json_member_text(config, "scale_fmt"), "ue8m0");
	if (made_by_gptqmodel(config)) {
		said->format = "gptqmodel";
		said->inverted = true;
		said->has_input = false;
	}
}

static void read_mxfp8(struct declaration *said)
{
	said->declared = said->has_input = said->scale_fmt = true;
	said->scheme.granularity = GRANULARITY_MX;
	said->scheme.tile = (struct tile){ 1, 32 };
}

static bool is_mxfp8(const json_t *config)
{
	return !strcmp(json_member_text(config, "quant_method"), "mxfp8");
}

static void read_config(const json_t *config, struct declaration *said)
{
	if (is_mxfp8(config))
		read_mxfp8(said);
	else
		read_fp8(config, said);
}

#define LISTS	     (MEMBER_NULL | MEMBER_TEXTS)
#define LIST_EFFECT  "engines refuse to load it, or skip other modules"
#define TRANSFORMERS ENGINE_BIT(ENGINE_TRANSFORMERS)
#define SGLANG	     ENGINE_BIT(ENGINE_SGLANG)
#define VLLM	     ENGINE_BIT(ENGINE_VLLM)

/* Fp8Config of vLLM 0.32 and SGLang 0.5.23, FineGrainedFP8Config of transformers 5.24. */
static const struct member members[] = {
	MEMBER_ROW("weight_block_size", MEMBER_NULL | MEMBER_TILE, ENGINE_ALL_BITS, 0,
		   "engines refuse to load it"),
	MEMBER_ROW("modules_to_not_convert", LISTS, ENGINE_ALL_BITS, 0, LIST_EFFECT),
	MEMBER_ROW("ignored_layers", LISTS, ENGINE_ALL_BITS, 0, LIST_EFFECT),
	MEMBER_ROW("modules_to_convert", LISTS, TRANSFORMERS, 0, "transformers stops at it"),
	MEMBER_WORDS("scale_fmt", MEMBER_NULL, ENGINE_ALL_BITS, 0,
		     "engines take the scales for another type", "ue8m0|float"),
	MEMBER_WORDS("scale_fmt", 0, TRANSFORMERS, 0, "transformers refuses to load it",
		     "ue8m0|float"),
	MEMBER_ROW("fmt", MEMBER_NULL | MEMBER_TEXT, ENGINE_ALL_BITS, 0,
		   "it does not say the type of the codes"),
	MEMBER_ROW("dequantize", MEMBER_BOOL, TRANSFORMERS, 0, "transformers misreads it"),
	MEMBER_ROW("kv_cache_quant_algo", MEMBER_NULL | MEMBER_TEXT, SGLANG, 0,
		   "SGLang stops at it"),
	MEMBER_ROW("store_dtype", MEMBER_NULL | MEMBER_TEXT, VLLM, 0, "vLLM misreads it"),
	{ 0 },
};

/* Blocks are declared, or denied, where the scales are one per tensor. */
static void check_no_blocks(const struct config_check *check, const json_t *config)
{
	const json_t *block = json_object_get(config, "weight_block_size");

	if (check->detection->scheme.granularity != GRANULARITY_TENSOR)
		return;
	if (json_is_array(block))
		config_report(check, CONFIG_KEYS, "config.json",
			      "weight_block_size is a list, but the scales are one per tensor: "
			      "engines look for scales of blocks");
	else if (!block && check->target == ENGINE_TRANSFORMERS)
		config_report(check, CONFIG_KEYS, "config.json",
			      "weight_block_size is missing: transformers takes [128, 128], and "
			      "needs null for one scale per tensor");
}

static void check_fp8(const struct config_check *check, const json_t *config)
{
	const struct scheme *scheme = &check->detection->scheme;
	const char *activations = json_member_text(config, "activation_scheme");
	const char *fmt = json_member_text(config, "fmt");
	const struct tile *said = &check->detection->declared_tile;
	bool blocks = scheme->granularity == GRANULARITY_BLOCK;

	if (strcmp(activations, "dynamic") && strcmp(activations, "static"))
		config_report(check, CONFIG_KEYS, "config.json",
			      "quantization_config has no activation_scheme 'dynamic' or "
			      "'static': engines refuse to load it");
	else if (blocks && strcmp(activations, "dynamic"))
		config_report(check, CONFIG_KEYS, "config.json",
			      "activation_scheme is 'static', but blocks need 'dynamic': engines "
			      "refuse to load it");
	if (blocks && (said->rows != scheme->tile.rows || said->cols != scheme->tile.cols))
		config_report(check, CONFIG_KEYS, "config.json",
			      "weight_block_size differs from the %zu x %zu of the scales: "
			      "engines apply the scales to the wrong weights",
			      scheme->tile.rows, scheme->tile.cols);
	check_no_blocks(check, config);
	if (*fmt && (strstr(fmt, "e5m2") != NULL) != (scheme->fp8_format == FP8_E5M2))
		config_report(check, CONFIG_KEYS, "config.json",
			      "fmt is '%s', but the weights are %s", fmt,
			      scheme->fp8_format == FP8_E5M2 ? "E5M2" : "E4M3");
}

static void check_mxfp8(const struct config_check *check, const json_t *config)
{
	const json_t *block = json_object_get(config, "weight_block_size");

	if (json_integer_value(json_array_get(block, 0)) != 1 ||
	    json_integer_value(json_array_get(block, 1)) != 32)
		config_report(check, CONFIG_KEYS, "config.json",
			      "weight_block_size of mxfp8 is not [1, 32]");
	if (strcmp(json_member_text(config, "activation_scheme"), "dynamic"))
		config_report(check, CONFIG_KEYS, "config.json",
			      "activation_scheme of mxfp8 is not 'dynamic'");
}

static void check_config(const struct config_check *check)
{
	const json_t *config = check->detection->config;

	member_check(check, "config.json", "", config, members);
	if (is_mxfp8(config))
		check_mxfp8(check, config);
	else
		check_fp8(check, config);
}

const struct format format_hf = {
	.name = "hf",
	.summary = "Hugging Face's own: quant_method fp8 or mxfp8, weight_scale_inv",
	.variants = variants,
	.methods = methods,
	.refused_mixed = { [ENGINE_ANY] = "its configuration holds one scheme for all modules; "
					  "use --format compressed-tensors" },
	.tables = true,
	.passes = passes,
	.configure = configure,
	.read = read_config,
	.check = check_config,
};
