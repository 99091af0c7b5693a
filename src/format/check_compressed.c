/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows, and the conditions between members that QuantizationArgs has.  All three loaders read the
 * arguments of weights and inputs through QuantizationArgs, which forbids other keys.
 */
#include "format/check_compressed.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/words.h"
#include "format/write_config.h"

#define VLLM	     ENGINE_BIT(ENGINE_VLLM)
#define SGLANG	     ENGINE_BIT(ENGINE_SGLANG)
#define TRANSFORMERS ENGINE_BIT(ENGINE_TRANSFORMERS)
#define BOTH	     (VLLM | SGLANG)
#define ALL	     (VLLM | SGLANG | TRANSFORMERS)

#define REFUSED	  "engines refuse to load it"
#define NOT_FP8	  "engines refuse to load it, or build no FP8 module and answer garbage"
#define OTHER_ACT "engines refuse to load it, or round activations to another type"

#define STRATEGIES "tensor|channel|group|block|token|tensor_group|attn_head"
#define FORMATS                                                                                 \
	"dense|sparse-bitmask|sparse-24-bitmask|int-quantized|float-quantized|naive-quantized|" \
	"pack-quantized|marlin-24|nvfp4-pack-quantized|mxfp4-pack-quantized|"                   \
	"mxfp6-pack-quantized|mxfp8-quantized"

/* is_activation_quantization_format() of vLLM: the formats of codes that are not packed. */
#define PLAIN_FORMATS "naive-quantized|int-quantized|float-quantized|nvfp4-pack-quantized"

static const struct member top[] = {
	MEMBER_ROW("config_groups", MEMBER_OBJECT, ALL, 0, REFUSED),
	MEMBER_ROW("format", MEMBER_TEXT, BOTH, BOTH, "vLLM and SGLang refuse to load it"),
	MEMBER_WORDS("quantization_status", 0, TRANSFORMERS, TRANSFORMERS,
		     "transformers initializes the weights anew and answers garbage", "compressed"),
	MEMBER_ROW("ignore", MEMBER_TEXTS, ALL, TRANSFORMERS,
		   "transformers builds lm_head in FP8 and answers garbage"),
	MEMBER_ROW("kv_cache_scheme", MEMBER_NULL | MEMBER_OBJECT, ALL, 0, REFUSED),
	MEMBER_ROW("sparsity_config", MEMBER_NULL | MEMBER_OBJECT, BOTH, 0,
		   "vLLM and SGLang refuse to load it"),
	MEMBER_ROW("transform_config", MEMBER_NULL | MEMBER_OBJECT, VLLM, 0,
		   "vLLM refuses to load it"),
	MEMBER_ROW("global_compression_ratio", MEMBER_NULL | MEMBER_NUMBER, TRANSFORMERS, 0,
		   "transformers refuses to load it"),
	{ 0 },
};

static const struct member sparsity[] = {
	MEMBER_ROW("targets", MEMBER_NULL | MEMBER_NO_TEXTS, VLLM, 0,
		   "vLLM refuses to load a sparse model"),
	{ 0 },
};

static const struct member group_rows[] = {
	MEMBER_ROW("targets", MEMBER_TEXTS, ALL, 0, REFUSED),
	MEMBER_ROW("weights", MEMBER_NULL | MEMBER_OBJECT, ALL, 0, REFUSED),
	MEMBER_ROW("input_activations", MEMBER_NULL | MEMBER_OBJECT, ALL, 0, REFUSED),
	MEMBER_ROW("output_activations", MEMBER_NULL | MEMBER_OBJECT, ALL, 0, REFUSED),
	MEMBER_WORDS("format", MEMBER_NULL, ALL, 0, REFUSED, FORMATS),
	{ 0 },
};

/* The rest of QuantizationArgs. */
#define ARGS_REST                                                                          \
	MEMBER_RANGE("group_size", MEMBER_NULL, ALL, 0, REFUSED, -1, 1 << 30),             \
		MEMBER_ROW("block_structure", MEMBER_NULL | MEMBER_TILE, ALL, 0, REFUSED), \
		MEMBER_WORDS("actorder", MEMBER_NULL | MEMBER_FALSE, ALL, 0, REFUSED,      \
			     "weight|static"),                                             \
		MEMBER_ROW("scale_dtype", MEMBER_NULL | MEMBER_TEXT, ALL, 0, REFUSED),     \
		MEMBER_ROW("zp_dtype", MEMBER_NULL | MEMBER_TEXT, ALL, 0, REFUSED),        \
		MEMBER_ROW("observer", MEMBER_NULL | MEMBER_TEXT, ALL, 0, REFUSED),        \
		MEMBER_ROW("observer_kwargs", MEMBER_OBJECT, ALL, 0, REFUSED), { 0 },

/* Of modules that are not FP8. */
static const struct member any_args[] = {
	MEMBER_RANGE("num_bits", 0, ALL, 0, REFUSED, 1, 32),
	MEMBER_WORDS("type", MEMBER_ANY_CASE, ALL, 0, REFUSED, "int|float"),
	MEMBER_ROW("symmetric", MEMBER_BOOL, ALL, 0, REFUSED),
	MEMBER_WORDS("strategy", MEMBER_NULL | MEMBER_ANY_CASE, ALL, 0, REFUSED, STRATEGIES),
	MEMBER_WORDS("dynamic", MEMBER_BOOL, ALL, 0, REFUSED, "local"),
	ARGS_REST
};

/* Of FP8 weights.  Without "type", they are integers. */
static const struct member weight_args[] = {
	MEMBER_RANGE("num_bits", 0, ALL, 0, NOT_FP8, 8, 8),
	MEMBER_WORDS("type", MEMBER_ANY_CASE, ALL, ALL, NOT_FP8, "float"),
	MEMBER_ROW("symmetric", MEMBER_TRUE, ALL, 0,
		   "engines refuse to load it, or answer garbage"),
	MEMBER_WORDS("strategy", MEMBER_NULL | MEMBER_ANY_CASE, ALL, 0, NOT_FP8,
		     "tensor|channel|block|group"),
	MEMBER_ROW("dynamic", MEMBER_FALSE, ALL, 0, NOT_FP8),
	ARGS_REST
};

/* Of the inputs of FP8 weights. */
static const struct member input_args[] = { MEMBER_RANGE("num_bits", 0, ALL, 0, OTHER_ACT, 8, 8),
					    MEMBER_WORDS("type", MEMBER_ANY_CASE, ALL, ALL,
							 OTHER_ACT, "float"),
					    MEMBER_ROW("symmetric", MEMBER_TRUE, ALL, 0, OTHER_ACT),
					    MEMBER_WORDS("strategy", MEMBER_NULL | MEMBER_ANY_CASE,
							 ALL, 0, OTHER_ACT, "tensor|token|group"),
					    MEMBER_ROW("dynamic", MEMBER_BOOL, ALL, 0, OTHER_ACT),
					    ARGS_REST };

/* vLLM, CompressedTensorsKVCacheMethod.validate_kv_cache_scheme(): without defaults. */
static const struct member cache_args[] = {
	MEMBER_RANGE("num_bits", 0, ALL, BOTH, REFUSED, 8, 8),
	MEMBER_WORDS("type", MEMBER_ANY_CASE, ALL, ALL, REFUSED, "float"),
	MEMBER_ROW("symmetric", MEMBER_TRUE, ALL, VLLM, REFUSED),
	MEMBER_WORDS("strategy", MEMBER_ANY_CASE, ALL, BOTH, REFUSED, "tensor|attn_head"),
	MEMBER_ROW("dynamic", MEMBER_BOOL, ALL, 0, REFUSED),
	ARGS_REST
};

/* Returns the strategy, which follows from group_size where it is missing. */
static const char *strategy_of(const json_t *args)
{
	const char *strategy = json_member_text(args, "strategy");
	json_int_t size = json_integer_value(json_object_get(args, "group_size"));

	if (*strategy)
		return strategy;
	return size > 0 ? "group" : size == -1 ? "channel" : "tensor";
}

/* Returns what contradicts a strategy, or NULL: QuantizationArgs.validate_model_after(). */
static const char *find_conflict(const json_t *args)
{
	const char *strategy = strategy_of(args);
	bool groups = !strcasecmp(strategy, "group") || !strcasecmp(strategy, "tensor_group");
	bool dynamic = json_is_true(json_object_get(args, "dynamic"));
	bool sized = json_integer_value(json_object_get(args, "group_size")) > 0;
	bool blocks = json_is_array(json_object_get(args, "block_structure"));

	if (groups != sized)
		return groups ? "has no group_size" : "has a group_size";
	if (!strcasecmp(strategy, "block") != blocks)
		return blocks ? "has a block_structure" : "has no block_structure";
	if (!strcasecmp(strategy, "token") && !dynamic)
		return "is not dynamic";
	if (dynamic && words_find("token|tensor|group|tensor_group", strategy) < 0)
		return "is dynamic";
	return NULL;
}

/* Checks arguments of a group; where: their path. */
static void check_args(const struct config_check *check, const char *where, const json_t *args,
		       const struct member *rows)
{
	const char *conflict;

	if (!json_is_object(args))
		return;
	member_check_unknown(check, where, args, rows);
	if (!member_check(check, "config.json", where, args, rows))
		return;
	conflict = find_conflict(args);
	if (conflict)
		config_report(check, CONFIG_KEYS, "config.json",
			      "%s with strategy '%s' %s: compressed-tensors refuses to load it",
			      where, strategy_of(args), conflict);
}

/* The strategy of the scales.  With several groups verify compares each weight with its own. */
static void check_strategy(const struct config_check *check, const char *where,
			   const json_t *weights)
{
	const char *strategy = strategy_of(weights);
	const char *expected = strategy_of_weights(check->detection->scheme.granularity);

	if (check->detection->n_weights && strcasecmp(strategy, expected) != 0)
		config_report(check, CONFIG_KEYS, "config.json",
			      "%s has strategy '%s', but the scales fit '%s'", where, strategy,
			      expected);
	if (!strcmp(expected, "group") &&
	    strcmp(json_member_text(weights, "scale_dtype"), "torch.uint8") != 0)
		config_report(check, CONFIG_KEYS, "config.json",
			      "%s has no scale_dtype 'torch.uint8': compressed-tensors reads the "
			      "scales as numbers",
			      where);
}

/* FP8 codes are not packed.  MXFP8 is found by its arguments. */
static void check_group_format(const struct config_check *check, const char *name,
			       const json_t *group)
{
	const char *own = json_member_text(group, "format");
	const char *format = *own ? own : json_member_text(check->detection->config, "format");

	if (words_find(PLAIN_FORMATS, format) < 0 && *format &&
	    strcasecmp(strategy_of(json_object_get(group, "weights")), "group") != 0 &&
	    engine_has_bit(VLLM | TRANSFORMERS, check->target))
		config_report(check, CONFIG_KEYS, "config.json",
			      "the format of '%s' is '%s', but FP8 codes are '%s': vLLM refuses to "
			      "load it",
			      name, format, "float-quantized");
}

/* A group of attention has no weights; vLLM passes over it by the name of its class. */
static bool is_attention(const json_t *group)
{
	const json_t *targets = json_object_get(group, "targets");
	const char *target = json_string_value(json_array_get(targets, 0));

	return json_array_size(targets) == 1 && target && text_ends(target, "Attention");
}

static void check_group(const struct config_check *check, const char *name, const json_t *group,
			bool fp8)
{
	const json_t *weights = json_object_get(group, "weights");
	char *where = xasprintf("config_groups.%s", name);
	char *of_weights = xasprintf("%s.weights", where);
	char *of_inputs = xasprintf("%s.input_activations", where);

	member_check_unknown(check, where, group, group_rows);
	member_check(check, "config.json", where, group, group_rows);
	if (!json_array_size(json_object_get(group, "targets")))
		config_report(check, CONFIG_KEYS, "config.json", "config group '%s' has no targets",
			      name);
	if (!json_is_object(weights) && !is_attention(group))
		config_report(check, CONFIG_KEYS, "config.json", "config group '%s' has no weights",
			      name);
	check_args(check, of_weights, weights, fp8 ? weight_args : any_args);
	check_args(check, of_inputs, json_object_get(group, "input_activations"),
		   fp8 ? input_args : any_args);
	if (fp8 && json_is_object(weights))
		check_group_format(check, name, group);
	free(where);
	free(of_weights);
	free(of_inputs);
}

static void check_groups(const struct config_check *check, json_t *groups)
{
	const char *name;
	json_t *group;
	size_t i = 0;

	if (!json_object_size(groups))
		config_report(check, CONFIG_KEYS, "config.json",
			      "quantization_config has no config_groups: engines read nothing as "
			      "FP8");
	json_object_foreach(groups, name, group)
	{
		const json_t *weights = json_object_get(group, "weights");
		char *where = xasprintf("config_groups.%s.weights", name);

		if (json_is_object(group))
			check_group(check, name, group, check->fp8_groups && check->fp8_groups[i]);
		else
			config_report(check, CONFIG_KEYS, "config.json",
				      "config group '%s' is not an object: " REFUSED, name);
		if (json_is_object(weights) && json_object_size(groups) == 1)
			check_strategy(check, where, weights);
		free(where);
		i++;
	}
}

/* vLLM turns activations by the matrices of a transform; the others leave them out. */
static void check_transforms(const struct config_check *check)
{
	const json_t *transforms = json_object_get(check->detection->config, "transform_config");

	if (json_object_size(transforms) && engine_has_bit(SGLANG | TRANSFORMERS, check->target))
		config_report(check, CONFIG_KEYS, "config.json",
			      "transform_config has transforms: SGLang and transformers leave them "
			      "out, and compute with turned weights");
}

void check_compressed_tensors(const struct config_check *check)
{
	const json_t *config = check->detection->config;
	const json_t *cache = json_object_get(config, "kv_cache_scheme");

	member_check(check, "config.json", "", config, top);
	member_check(check, "config.json", "sparsity_config",
		     json_object_get(config, "sparsity_config"), sparsity);
	check_transforms(check);
	check_args(check, "kv_cache_scheme", cache, cache_args);
	check_groups(check, json_object_get(config, "config_groups"));
}
