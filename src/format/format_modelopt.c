/* SPDX-License-Identifier: Apache-2.0
 *
 * ModelOpt (TensorRT-LLM's home): one quant_algo, or one for each module, in hf_quant_config.json
 * and again in config.json, fp8conv-formats(7).
 *
 * What engines read of single modules: vLLM, ModelOptMixedPrecisionConfig.get_quant_method();
 * TensorRT-LLM, ModelConfig.load_modelopt_quant_config().
 */
#include <string.h>
#include <strings.h>

#include "format/member.h"
#include "format/read_config.h"
#include "format/write_config.h"
#include "format/variant.h"

#define NOT_IN_TRANSFORMERS "it does not know quant_method 'modelopt'"
#define SGLANG_TENSORS	    "it reads only per-tensor FP8 and MXFP8 of modelopt"
#define VLLM_DENSE	    "it reads this quant_algo only in dense layers"

#define VLLM_MIXED "with MIXED_PRECISION it takes codes of this quant_algo for weights, silently"

#define VLLM_MIXED_BLOCKS "before 0.33, " VLLM_MIXED
#define TRTLLM_MIXED	  "with MIXED_PRECISION it reads blocks only as FP8_BLOCK_SCALES"

static const char *const methods[] = { "modelopt", "modelopt_mxfp8", NULL };

static const struct variant variants[] = {
	{
		.method = "FP8",
		.granularity = GRANULARITY_TENSOR,
		.static_input = true,
		.weight_scale = "_scale",
		.input_scale = "input_scale",
		.layout = LAYOUT_SCALAR,
		.refused = { [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
	},
	{
		.method = "FP8",
		.granularity = GRANULARITY_TENSOR,
		.weight_scale = "_scale",
		.layout = LAYOUT_SCALAR,
		.refused = { [ENGINE_ANY] =
				     "it needs static input scales, which --calibration gives" },
	},
	{
		.method = "FP8_PER_CHANNEL_PER_TOKEN",
		.granularity = GRANULARITY_CHANNEL,
		.weight_scale = "_scale",
		.layout = LAYOUT_OUT,
		.refused = { [ENGINE_SGLANG] = SGLANG_TENSORS,
			     [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
		.refused_moe = { [ENGINE_VLLM] = VLLM_DENSE },
		.refused_mixed = { [ENGINE_VLLM] = VLLM_MIXED },
	},
	{
		/* In lower case, which TensorRT-LLM requires and vLLM accepts. */
		.method = "fp8_pb_wo",
		.granularity = GRANULARITY_BLOCK,
		.tile = { 128, 128 },
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID_4D,
		.refused = { [ENGINE_SGLANG] = SGLANG_TENSORS,
			     [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
		.refused_moe = { [ENGINE_VLLM] = VLLM_DENSE },
		.refused_mixed = { [ENGINE_VLLM] = VLLM_MIXED_BLOCKS,
				   [ENGINE_TRTLLM] = TRTLLM_MIXED },
		.layer = "FP8_PB_WO",
	},
	{
		.method = "MXFP8",
		.granularity = GRANULARITY_MX,
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID,
		.refused = { [ENGINE_TRANSFORMERS] = NOT_IN_TRANSFORMERS },
	},
	{ 0 },
};

static json_t *args_json(const struct scheme *scheme, const char *strategy, bool dynamic)
{
	json_t *args = json_pack("{s:b, s:i, s:s}", "dynamic", (int)dynamic, "num_bits", 8, "type",
				 "float");

	if (scheme->granularity != GRANULARITY_TENSOR)
		json_object_set_new(args, "strategy", json_string(strategy));
	if (scheme->granularity == GRANULARITY_MX)
		json_object_set_new(args, "group_size",
				    json_integer((json_int_t)scheme->tile.cols));
	if (scheme->granularity == GRANULARITY_BLOCK)
		json_object_set_new(
			args, "block_structure",
			json_pack("[i, i]", (int)scheme->tile.rows, (int)scheme->tile.cols));
	return args;
}

static json_t *group_json(const struct scheme *scheme)
{
	const enum granularity granularity = scheme->granularity;
	json_t *group = json_object();

	if (granularity != GRANULARITY_BLOCK)
		json_object_set_new(
			group, "input_activations",
			args_json(scheme, strategy_of_inputs(granularity), !scheme->static_input));
	json_object_set_new(group, "weights",
			    args_json(scheme, strategy_of_weights(granularity), false));
	json_object_set_new(group, "targets", json_pack("[s]", "Linear"));
	return group;
}

#define MIXED "MIXED_PRECISION" /* quant_algo of a configuration with quantized_layers */

static json_t *producer_json(const struct quantization *quantization)
{
	return json_pack("{s:s, s:s}", "name", "fp8conv", "version", quantization->tool_version);
}

static bool passes(const struct passed *passed)
{
	return !strcmp(passed->kind, "nvfp4") &&
	       !strcmp(config_quant_method(passed->config), "modelopt");
}

/* Returns the entry of a module in "quantized_layers". */
static json_t *layer_json(const struct variant *variant, const struct scheme *scheme)
{
	json_t *layer =
		json_pack("{s:s}", "quant_algo", variant->layer ? variant->layer : variant->method);

	if (scheme->tile.cols != WHOLE)
		json_object_set_new(layer, "group_size",
				    json_integer((json_int_t)scheme->tile.cols));
	return layer;
}

/* Returns "quantized_layers": an algorithm for each module, ours and those that are passed on. */
static json_t *layers_json(const struct format *format, const struct quantization *quantization)
{
	const struct passed *passed = &quantization->passed;
	const json_t *theirs = json_object_get(config_keys(passed->config), "quantized_layers");
	json_t *layers = json_object();

	for (size_t i = 0; i < quantization->n_sets; i++) {
		const struct module_set *set = &quantization->sets[i];
		const struct variant *variant =
			variant_find(format, &set->scheme, quantization->target);

		for (size_t m = 0; m < set->n_modules; m++)
			json_object_set_new(layers, set->modules[m],
					    layer_json(variant, &set->scheme));
	}
	for (size_t m = 0; m < passed->n_modules; m++) {
		json_t *layer = json_object_get(theirs, passed->modules[m]);

		json_object_set_new(
			layers, passed->modules[m],
			layer ? json_deep_copy(layer)
			      : json_pack("{s:s, s:i}", "quant_algo", "NVFP4", "group_size", 16));
	}
	return layers;
}

/* Whether the keys of a configuration say that the KV cache is FP8. */
static bool says_fp8_cache(const json_t *keys)
{
	const json_t *scheme = json_object_get(keys, "kv_cache_scheme");

	return !strcasecmp(json_member_text(keys, "kv_cache_quant_algo"), "FP8") ||
	       (json_integer_value(json_object_get(scheme, "num_bits")) == 8 &&
		!strcmp(json_member_text(scheme, "type"), "float"));
}

/* Whether the low-bit source that is passed on has a KV cache in FP8. */
static bool passes_kv_cache(const struct passed *passed)
{
	return passed->n_modules && says_fp8_cache(config_keys(passed->config));
}

static json_t *kv_cache_json(bool kv_cache)
{
	return kv_cache ? json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", 8, "type", "float")
			: json_null();
}

/* Modules of several schemes, of which some may be low-bit: each module has its algorithm. */
static int configure_mixed(const struct format *format, const struct quantization *quantization,
			   struct buf *config, struct buf *hf_quant_config)
{
	json_t *kept = config_kept_json(quantization);
	json_t *layers = layers_json(format, quantization);
	bool cache = quantization->kv_cache || passes_kv_cache(&quantization->passed);

	config_add_json(hf_quant_config,
			json_pack("{s:o, s:{s:s, s:s?, s:O, s:O}}", "producer",
				  producer_json(quantization), "quantization", "quant_algo", MIXED,
				  "kv_cache_quant_algo", cache ? "FP8" : NULL, "exclude_modules",
				  kept, "quantized_layers", layers),
			4);
	buf_putc(hf_quant_config, '\n');
	config_add_json(config,
			json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "quant_method", "modelopt",
				  "quant_algo", MIXED, "ignore", kept, "quantized_layers", layers,
				  "kv_cache_scheme", kv_cache_json(cache), "producer",
				  producer_json(quantization)),
			2);
	return 0;
}

static int configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err)
{
	const struct scheme *scheme = &quantization->sets[0].scheme;
	const struct variant *variant = variant_find(format, scheme, quantization->target);
	json_t *kept;

	(void)err;
	if (quantization->passed.n_modules || quantization_mixed(quantization))
		return configure_mixed(format, quantization, config, hf_quant_config);
	kept = config_kept_json(quantization);
	config_add_json(hf_quant_config,
			json_pack("{s:o, s:{s:s, s:s?, s:O}}", "producer",
				  producer_json(quantization), "quantization", "quant_algo",
				  variant->method, "kv_cache_quant_algo",
				  quantization->kv_cache ? "FP8" : NULL, "exclude_modules", kept),
			4);
	buf_putc(hf_quant_config, '\n');
	config_add_json(config,
			json_pack("{s:s, s:s, s:o, s:{s:o}, s:o, s:o}", "quant_method", "modelopt",
				  "quant_algo", variant->method, "ignore", kept, "config_groups",
				  "group_0", group_json(scheme), "kv_cache_scheme",
				  kv_cache_json(quantization->kv_cache), "producer",
				  producer_json(quantization)),
			2);
	return 0;
}

/* --- reading --- */

/* Returns false for algorithms that are not FP8. */
static bool read_algo(const char *algo, struct declaration *said)
{
	static const struct {
		const char *algo;
		struct scheme scheme;
	} algos[] = {
		{ "FP8", { .granularity = GRANULARITY_TENSOR, .static_input = true } },
		{ "FP8_PER_CHANNEL_PER_TOKEN",
		  { .granularity = GRANULARITY_CHANNEL, .tile = { 1, WHOLE } } },
		{ "FP8_PB_WO", { .granularity = GRANULARITY_BLOCK, .tile = { 128, 128 } } },
		{ "FP8_BLOCK_SCALES", { .granularity = GRANULARITY_BLOCK, .tile = { 128, 128 } } },
		{ "MXFP8", { .granularity = GRANULARITY_MX, .tile = { 1, 32 } } },
	};

	for (size_t i = 0; i < sizeof algos / sizeof *algos; i++) {
		if (strcasecmp(algos[i].algo, algo))
			continue;
		said->declared = said->has_input = true;
		said->scheme = algos[i].scheme;
		said->scale_fmt = said->scheme.granularity == GRANULARITY_MX;
		return true;
	}
	return false;
}

/* The keys are at the top in config.json, below "quantization" in hf_quant_config.json.  With
 * several algorithms, takes that of the first layer in FP8. */
static void read_config(const json_t *config, struct declaration *said)
{
	const json_t *keys = config_keys(config);
	const char *name;
	json_t *layer;

	if (read_algo(json_member_text(keys, "quant_algo"), said))
		return;
	json_object_foreach(
		json_object_get(keys, "quantized_layers"), name,
		layer) if (read_algo(json_member_text(layer, "quant_algo"), said)) return;
}

static bool same_list(const json_t *a, const json_t *b)
{
	size_t n = json_array_size(a);

	if (n != json_array_size(b))
		return false;
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		for (size_t k = 0; k < n && !found; k++)
			found = json_equal(json_array_get(a, i), json_array_get(b, k));
		if (!found)
			return false;
	}
	return true;
}

/* Some engines read config.json, others hf_quant_config.json: compares the two. */
static void check_twice(const struct config_check *check, const json_t *config)
{
	const json_t *other = json_object_get(check->hf_quant_config, "quantization");
	const json_t *list = json_object_get(other, "exclude_modules");
	const json_t *layers = json_object_get(config, "quantized_layers");
	const json_t *other_layers = json_object_get(other, "quantized_layers");

	if (!other || !config || strcmp(json_member_text(config, "quant_method"), "modelopt"))
		return;
	if (strcasecmp(json_member_text(config, "quant_algo"),
		       json_member_text(other, "quant_algo")))
		config_report(check, CONFIG_KEYS, "hf_quant_config.json",
			      "quant_algo is '%s' here, but '%s' in config.json",
			      json_member_text(other, "quant_algo"),
			      json_member_text(config, "quant_algo"));
	if ((layers || other_layers) && !json_equal(layers, other_layers))
		config_report(check, CONFIG_KEYS, "hf_quant_config.json",
			      "quantized_layers differs from that in config.json");
	if (says_fp8_cache(config) != says_fp8_cache(other))
		config_report(check, CONFIG_KEYS, "hf_quant_config.json",
			      "kv_cache_quant_algo is %sFP8 here, but kv_cache_scheme in "
			      "config.json is %sFP8",
			      says_fp8_cache(other) ? "" : "not ",
			      says_fp8_cache(config) ? "" : "not ");
	if (list && check->kept && !same_list(list, check->kept))
		config_report(check, CONFIG_KEPT, "hf_quant_config.json",
			      "exclude_modules differs from the list in config.json");
}

#define LIST_EFFECT "vLLM refuses to load it, and other engines quantize all modules"

/* vLLM 0.32, ModelOptQuantConfigBase.from_config(); SGLang 0.5.23, ModelOptFp8Config. */
static const struct member members[] = {
	MEMBER_ROW("quant_algo", MEMBER_TEXT, ENGINE_ALL_BITS, 0, "engines refuse to load it"),
	MEMBER_ROW("ignore", MEMBER_NULL | MEMBER_TEXTS, ENGINE_ALL_BITS, 0, LIST_EFFECT),
	MEMBER_ROW("ignore", MEMBER_TEXTS, ENGINE_BIT(ENGINE_VLLM), 0, "vLLM refuses to load it"),
	MEMBER_ROW("exclude_modules", MEMBER_NULL | MEMBER_TEXTS, ENGINE_ALL_BITS, 0, LIST_EFFECT),
	MEMBER_ROW("exclude_modules", MEMBER_TEXTS, ENGINE_BIT(ENGINE_VLLM), 0,
		   "vLLM refuses to load it"),
	MEMBER_RANGE("group_size", MEMBER_NULL, ENGINE_ALL_BITS, 0, "vLLM refuses to load it", 1,
		     1 << 30),
	MEMBER_ROW("kv_cache_quant_algo", MEMBER_NULL | MEMBER_TEXT, ENGINE_ALL_BITS, 0,
		   "vLLM refuses to load it"),
	MEMBER_ROW("kv_cache_scheme", MEMBER_NULL | MEMBER_OBJECT, ENGINE_ALL_BITS, 0,
		   "engines do not take it for a cache in FP8"),
	MEMBER_ROW("quantized_layers", MEMBER_NULL | MEMBER_OBJECT, ENGINE_ALL_BITS, 0,
		   "engines refuse to load it"),
	MEMBER_ROW("config_groups", MEMBER_NULL | MEMBER_OBJECT, ENGINE_ALL_BITS, 0,
		   "engines refuse to load it"),
	{ 0 },
};

/* Both files, of which one engine reads the one and another the other. */
static void check_members(const struct config_check *check)
{
	const json_t *config = check->detection->config;
	const json_t *other = json_object_get(check->hf_quant_config, "quantization");
	const bool nested = json_is_object(json_object_get(config, "quantization"));

	member_check(check, nested ? "hf_quant_config.json" : "config.json", "",
		     config_keys(config), members);
	if (json_is_object(other) && !nested)
		member_check(check, "hf_quant_config.json", "quantization", other, members);
	if (!check->hf_quant_config && check->target == ENGINE_TRTLLM)
		config_report(check, CONFIG_KEYS, "hf_quant_config.json",
			      "it is missing: TensorRT-LLM 1.2 and older read the configuration of "
			      "modelopt there alone");
}

static void check_config(const struct config_check *check)
{
	const json_t *config = check->detection->config;
	const json_t *nested = json_object_get(config, "quantization");
	const char *algo = json_member_text(config_keys(config), "quant_algo");

	if (!*algo)
		config_report(check, CONFIG_KEYS, nested ? "hf_quant_config.json" : "config.json",
			      "quantization_config has no quant_algo: engines refuse to load it");
	else if (!strcasecmp(algo, MIXED) &&
		 !json_object_size(json_object_get(config_keys(config), "quantized_layers")))
		config_report(check, CONFIG_KEYS, nested ? "hf_quant_config.json" : "config.json",
			      "quant_algo is '%s', but quantized_layers is missing or empty: "
			      "engines refuse to load it",
			      algo);
	else if (!check->detection->declared && strcasecmp(algo, MIXED) &&
		 (check->detection->n_weights ||
		  !strcmp(config_quant_method(config), "modelopt_mxfp8")))
		config_report(check, CONFIG_KEYS, "config.json",
			      "quant_algo is '%s', which is not FP8: engines refuse it or read "
			      "codes as weights",
			      algo);
	check_members(check);
	check_twice(check, config);
}

const struct format format_modelopt = {
	.name = "modelopt",
	.summary = "ModelOpt's: one quant_algo, hf_quant_config.json",
	.variants = variants,
	.methods = methods,
	.kv_scale = "?_proj.?_scale",
	.kv_dims = 0,
	.passes = passes,
	.configure = configure,
	.read = read_config,
	.check = check_config,
	.head = FP8_HEAD_UNLISTED,
};
