/* SPDX-License-Identifier: Apache-2.0
 *
 * compressed-tensors (llm-compressor's output): config groups of modules with a scheme each,
 * fp8conv-formats(7).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "format/check_compressed.h"
#include "format/read_config.h"
#include "format/write_config.h"
#include "format/variant.h"

#define TRTLLM_STRATEGIES "it supports only the strategies channel and block"
#define TRTLLM_DYNAMIC	  "it supports one scale per tensor only in modelopt, with --calibration"

static const char *const methods[] = { "compressed-tensors", NULL };

/* vLLM and SGLang ask for expert 0 by these words, whatever the checkpoint calls its matrices. */
static const char *const kept_experts[] = { ".0.gate_proj", ".0.up_proj", ".0.down_proj", NULL };

static const char whole_groups[] =
	"transformers quantizes activations in whole groups of 128, and stops";

/* CompressedTensorsDequantize of its integrations/compressed_tensors.py. */
static const char expert_blocks[] =
	"transformers multiplies experts by their scales without repeating block scales, and "
	"stops";

static const struct variant variants[] = {
	{
		.method = "float-quantized",
		.granularity = GRANULARITY_TENSOR,
		.preferred = true,
		.weight_scale = "_scale",
		.layout = LAYOUT_ONE,
		.refused = { [ENGINE_TRTLLM] = TRTLLM_DYNAMIC },
	},
	{
		.method = "float-quantized",
		.granularity = GRANULARITY_TENSOR,
		.static_input = true,
		.preferred = true,
		.weight_scale = "_scale",
		.input_scale = "input_scale",
		.layout = LAYOUT_ONE,
		.refused = { [ENGINE_TRTLLM] = TRTLLM_STRATEGIES },
	},
	{
		.method = "float-quantized",
		.granularity = GRANULARITY_CHANNEL,
		.preferred = true,
		.weight_scale = "_scale",
		.layout = LAYOUT_OUT_ONE,
	},
	{
		.method = "float-quantized",
		.granularity = GRANULARITY_BLOCK,
		.tile = { 128, 128 },
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID,
		.refused_moe = { [ENGINE_TRANSFORMERS] = expert_blocks },
		.refused_cols = { [ENGINE_TRANSFORMERS] = whole_groups },
	},
	{
		.method = "mxfp8-quantized",
		.granularity = GRANULARITY_MX,
		.weight_scale = "_scale",
		.layout = LAYOUT_GRID,
		.refused = { [ENGINE_SGLANG] =
				     "its compressed-tensors reader does not support MXFP8",
			     [ENGINE_TRTLLM] = TRTLLM_STRATEGIES },
		.refused_moe = { [ENGINE_TRANSFORMERS] = expert_blocks },
	},
	{ 0 },
};

/* vLLM and SGLang search the targets for the name of a fused layer, then for its class, and last
 * for the names of its members: without these entries a group would lose its fused layers to
 * "Linear".  They search experts by the names of Llama's projections in all models. */
static const struct {
	const char *part;
	const char *alias;
	bool expert;
} aliases[] = {
	{ "q_proj", "qkv_proj", false },
	{ "gate_proj", "gate_up_proj", false },
	{ "q_a_proj", "fused_qkv_a_proj", false },
	{ "q_a_proj", "fused_qkv_a_proj_with_mqa", false },
	{ "in_proj_qkv", "in_proj_qkvz", false },
	{ "w1", "gate_proj", true },
	{ "w3", "up_proj", true },
	{ "w2", "down_proj", true },
};

static void add_aliases(json_t *targets, const char *module)
{
	const char *part = text_after(module, '.');
	bool expert = strstr(module, ".experts.") != NULL;

	for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
		if (aliases[i].expert == expert && !strcmp(aliases[i].part, part))
			json_array_append_new(targets, json_sprintf("%.*s%s", (int)(part - module),
								    module, aliases[i].alias));
}

/* Returns the targets of a group.  The default group has all linear modules that no other group
 * names. */
static json_t *targets_json(const struct module_set *set, bool is_default)
{
	json_t *targets;

	if (is_default)
		return module_set_head(set) ? json_pack("[s, s]", "Linear", "re:.*lm_head")
					    : json_pack("[s]", "Linear");
	targets = json_array();
	for (size_t i = 0; i < set->n_modules; i++) {
		json_array_append_new(targets, json_string(set->modules[i]));
		add_aliases(targets, set->modules[i]);
	}
	return targets;
}

/* Returns QuantizationArgs with the keys of all versions since 0.12: an unknown key would fail the
 * load. */
static json_t *args_json(const struct scheme *scheme, const char *strategy, bool dynamic)
{
	json_t *args = json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", 8, "type", "float",
				 "symmetric", 1, "strategy", strategy, "dynamic", (int)dynamic);

	json_object_set_new(args, "group_size",
			    strcmp(strategy, "group")
				    ? json_null()
				    : json_integer((json_int_t)scheme->tile.cols));
	json_object_set_new(args, "block_structure",
			    strcmp(strategy, "block") ? json_null()
						      : json_pack("[i, i]", (int)scheme->tile.rows,
								  (int)scheme->tile.cols));
	json_object_set_new(args, "actorder", json_null());
	if (scheme->granularity == GRANULARITY_MX)
		json_object_set_new(args, "scale_dtype", json_string("torch.uint8"));
	json_object_set_new(args, "observer", dynamic ? json_null() : json_string("minmax"));
	json_object_set_new(args, "observer_kwargs", json_object());
	return args;
}

static json_t *group_json(const struct module_set *set, const struct variant *variant,
			  bool is_default, bool name_format, bool weight_only)
{
	json_t *group = json_object();

	json_object_set_new(group, "targets", targets_json(set, is_default));
	json_object_set_new(
		group, "weights",
		args_json(&set->scheme, strategy_of_weights(set->scheme.granularity), false));
	json_object_set_new(group, "input_activations",
			    weight_only ? json_null()
					: args_json(&set->scheme,
						    strategy_of_inputs(set->scheme.granularity),
						    !set->scheme.static_input));
	json_object_set_new(group, "output_activations", json_null());
	if (name_format)
		json_object_set_new(group, "format", json_string(variant->method));
	return group;
}

static bool passes(const struct passed *passed)
{
	return !strcmp(json_member_text(passed->config, "quant_method"), "compressed-tensors") &&
	       json_object_size(json_object_get(passed->config, "config_groups"));
}

/* Sets name to "group_N", which the source has not. */
static void group_name(const struct passed *passed, size_t i, char name[32])
{
	const json_t *groups =
		passed->n_modules ? json_object_get(passed->config, "config_groups") : NULL;

	do
		snprintf(name, 32, "group_%zu", i++);
	while (json_object_get(groups, name));
}

/* Adds the source's groups after ours, whose targets are names: the first target that matches a
 * name wins, and names win over classes. */
static void add_passed_groups(json_t *groups, const struct passed *passed)
{
	const char *format = json_member_text(passed->config, "format");
	const char *name;
	json_t *group;

	if (!passed->n_modules)
		return;
	json_object_foreach(json_object_get(passed->config, "config_groups"), name, group)
	{
		json_t *copy = json_deep_copy(group);

		if (!json_object_get(copy, "format") && *format)
			json_object_set_new(copy, "format", json_string(format));
		json_object_set_new(groups, name, copy);
	}
}

/* TensorRT-LLM reads the group "group_0", by that name. */
static json_t *groups_json(const struct format *format, const struct quantization *quantization,
			   bool name_formats)
{
	bool mixed = quantization_mixed(quantization);
	bool passed = quantization->passed.n_modules;
	json_t *groups = json_object();
	char name[32];
	size_t next = 0;

	for (size_t i = 0; i < (mixed || passed ? quantization->n_sets : 1); i++) {
		const struct module_set *set = &quantization->sets[i];
		const struct variant *variant =
			variant_find(format, &set->scheme, quantization->target);

		group_name(&quantization->passed, next, name);
		next = strtoul(name + strlen("group_"), NULL, 10) + 1;
		json_object_set_new(groups, name,
				    group_json(set, variant, i == 0 && !passed, name_formats,
					       quantization->weight_only));
	}
	add_passed_groups(groups, &quantization->passed);
	return groups;
}

/* Returns the variant that names the whole configuration: MXFP8's if there is one, which needs the
 * newest reader.  *formats_differ: sets differ in the value of "format". */
static const struct variant *head_variant(const struct format *format,
					  const struct quantization *quantization,
					  bool *formats_differ)
{
	const struct variant *newest =
		variant_find(format, &quantization->sets[0].scheme, quantization->target);

	*formats_differ = false;
	for (size_t i = 1; i < quantization->n_sets; i++) {
		const struct variant *variant =
			variant_find(format, &quantization->sets[i].scheme, quantization->target);

		*formats_differ |= strcmp(newest->method, variant->method) != 0;
		if (variant->granularity == GRANULARITY_MX)
			newest = variant;
	}
	return newest;
}

/* The loader of vLLM has the strategies "tensor" and "attn_head". */
static json_t *kv_cache_json(const struct quantization *quantization)
{
	if (!quantization->kv_cache)
		return json_null();
	return json_pack("{s:i, s:s, s:s, s:b, s:b}", "num_bits", 8, "type", "float", "strategy",
			 quantization->kv_heads ? "attn_head" : "tensor", "symmetric", 1, "dynamic",
			 0);
}

/* Returns the version that reads both our groups and the source's.  0.15.0 is the first with
 * mxfp8-quantized; 0.12 refuses the key scale_dtype. */
static const char *newest_version(const struct variant *head, const struct passed *passed)
{
	const char *ours = head->granularity == GRANULARITY_MX ? "0.15.0" : "0.12.2";
	const char *theirs = passed->n_modules ? json_member_text(passed->config, "version") : "";

	return strverscmp(ours, theirs) < 0 ? theirs : ours;
}

static int configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err)
{
	const struct passed *passed = &quantization->passed;
	bool differ;
	const struct variant *head = head_variant(format, quantization, &differ);
	bool name_formats = differ || passed->n_modules ||
			    quantization->sets[0].scheme.granularity == GRANULARITY_MX;
	json_t *object, *kv_cache = kv_cache_json(quantization);

	(void)hf_quant_config;
	(void)err;
	object = json_pack("{s:s, s:s, s:s, s:s, s:n}", "quant_method", format->name, "version",
			   newest_version(head, passed), "format",
			   differ || passed->n_modules ? "mixed-precision" : head->method,
			   "quantization_status", "compressed", "global_compression_ratio");
	if (passed->n_modules && json_is_null(kv_cache)) /* its scales are passed on too */
		kv_cache = json_incref(json_object_get(passed->config, "kv_cache_scheme"));
	json_object_set_new(object, "kv_cache_scheme", kv_cache ? kv_cache : json_null());
	json_object_set_new(object, "ignore", config_kept_json(quantization));
	json_object_set_new(object, "config_groups",
			    groups_json(format, quantization, name_formats));
	config_add_json(config, object, 2);
	return 0;
}

/* --- reading --- */

static bool is_fp8(const json_t *group)
{
	const json_t *weights = json_object_get(group, "weights");

	return json_integer_value(json_object_get(weights, "num_bits")) == 8 &&
	       !strcasecmp(json_member_text(weights, "type"), "float");
}

/* Returns the first group that quantizes weights to FP8, or the given one; all tools write
 * "group_0" first. */
static const json_t *fp8_group(const json_t *config)
{
	json_t *groups = json_object_get(config, "config_groups");
	json_t *group;
	const char *key;

	json_object_foreach(groups, key, group) if (is_fp8(group)) return group;
	return is_fp8(config) ? config : NULL;
}

/* Reads the configuration, or one of its groups. */
static void read_config(const json_t *config, struct declaration *said)
{
	const json_t *group = fp8_group(config);
	const json_t *weights = json_object_get(group, "weights");
	const json_t *inputs = json_object_get(group, "input_activations");
	const char *strategy = json_member_text(weights, "strategy");
	struct scheme *scheme = &said->scheme;

	if (!group)
		return;
	said->declared = said->has_input = true;
	said->weight_only = !json_is_object(inputs);
	scheme->static_input = json_is_false(json_object_get(inputs, "dynamic"));
	if (!strcmp(strategy, "channel")) {
		scheme->granularity = GRANULARITY_CHANNEL;
		scheme->tile = (struct tile){ 1, WHOLE };
	} else if (!strcmp(strategy, "block") &&
		   config_tile(json_object_get(weights, "block_structure"), &scheme->tile)) {
		scheme->granularity = GRANULARITY_BLOCK;
	} else if (!strcmp(strategy, "group")) {
		said->scale_fmt = true;
		scheme->granularity = GRANULARITY_MX;
		scheme->tile.rows = 1;
		scheme->tile.cols =
			(size_t)json_integer_value(json_object_get(weights, "group_size"));
	}
}

const struct format format_compressed_tensors = {
	.name = "compressed-tensors",
	.summary = "llm-compressor's: config groups, weight_scale",
	.variants = variants,
	.methods = methods,
	.kept_experts = kept_experts,
	.head = FP8_HEAD_NAMED,
	.refused_mixed = { [ENGINE_TRTLLM] = "it reads only the first config group" },
	.kv_scale = "?_scale",
	.kv_dims = 1,
	.kv_heads = true,
	.weight_only = true,
	.passes = passes,
	.configure = configure,
	.read = read_config,
	.check = check_compressed_tensors,
};
