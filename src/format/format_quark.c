/* SPDX-License-Identifier: Apache-2.0
 *
 * Quark's FP8 (AMD): one scale for a tensor, a row or a block, read only.  quark.py of vLLM 0.32
 * and SGLang 0.5.23.
 */
#include <fnmatch.h>
#include <string.h>

#include "format/member.h"
#include "format/read_config.h"
#include "format/variant.h"

static const char *const methods[] = { "quark", NULL };

static const struct variant variants[] = { { 0 } };

static bool is_fp8(const json_t *weight)
{
	return !strncmp(json_member_text(weight, "dtype"), "fp8_e4m3", strlen("fp8_e4m3"));
}

static void take_block(const json_t *size, struct scheme *scheme)
{
	if (json_array_size(size) != 2)
		return;
	scheme->granularity = GRANULARITY_BLOCK;
	scheme->tile.rows = (size_t)json_integer_value(json_array_get(size, 0));
	scheme->tile.cols = (size_t)json_integer_value(json_array_get(size, 1));
}

/* Reads the configuration, or a member of its layer_quant_config.  A list of arguments is that of a
 * low-bit weight with two scales. */
static void read_config(const json_t *config, struct declaration *said)
{
	const json_t *all = json_object_get(config, "global_quant_config");
	const json_t *weight = json_object_get(all ? all : config, "weight");
	const json_t *inputs = json_object_get(all ? all : config, "input_tensors");
	const char *scheme = json_member_text(weight, "qscheme");

	if (!is_fp8(weight))
		return;
	said->declared = said->has_input = true;
	said->weight_only = !json_is_object(inputs);
	said->scheme.static_input = json_is_false(json_object_get(inputs, "is_dynamic"));
	if (!strcmp(scheme, "per_channel")) {
		said->scheme.granularity = GRANULARITY_CHANNEL;
		said->scheme.tile = (struct tile){ 1, WHOLE };
	} else if (!strcmp(scheme, "per_block")) {
		take_block(json_object_get(weight, "block_size"), &said->scheme);
	}
}

#define REFUSED "engines refuse to load it"

static const struct member members[] = {
	MEMBER_ROW("global_quant_config", MEMBER_OBJECT, ENGINE_ALL_BITS, ENGINE_ALL_BITS, REFUSED),
	MEMBER_ROW("export", MEMBER_OBJECT, ENGINE_ALL_BITS, ENGINE_BIT(ENGINE_VLLM),
		   "vLLM refuses to load it"),
	MEMBER_ROW("exclude", MEMBER_TEXTS, ENGINE_ALL_BITS, ENGINE_BIT(ENGINE_VLLM),
		   "engines refuse to load it, or quantize other modules"),
	{ 0 },
};

/* Checks that layers with FP8 weights are said to have them. */
static void check_layers(const struct config_check *check, json_t *layers)
{
	const char *name;
	json_t *layer;
	size_t i = 0;

	json_object_foreach(layers, name, layer)
	{
		const json_t *weight = json_object_get(layer, "weight");

		if (check->fp8_groups && check->fp8_groups[i++] && !is_fp8(weight))
			config_report(check, CONFIG_KEYS, "config.json",
				      "layer_quant_config says dtype '%s' of '%s', whose weights "
				      "are FP8: engines refuse to load it, or read other codes",
				      json_member_text(weight, "dtype"), name);
	}
}

/* Checks that vLLM finds a layer of kv_cache_group. */
static void check_caches(const struct config_check *check, json_t *layers)
{
	const json_t *export = json_object_get(check->detection->config, "export");
	const json_t *group = json_object_get(export, "kv_cache_group"), *entry;
	bool found = !json_array_size(group);
	const char *name;
	json_t *layer;
	size_t i;

	json_array_foreach(group, i, entry)
	{
		const char *pattern = json_string_value(entry);

		json_object_foreach(layers, name, layer) found |=
			pattern && !fnmatch(pattern, name, 0);
	}
	if (!found)
		config_report(check, CONFIG_KEYS, "config.json",
			      "layer_quant_config has no layer of kv_cache_group: vLLM refuses to "
			      "load it");
}

static void check_config(const struct config_check *check)
{
	json_t *layers = json_object_get(check->detection->config, "layer_quant_config");

	member_check(check, "config.json", "", check->detection->config, members);
	check_layers(check, layers);
	if (check->target == ENGINE_ANY || check->target == ENGINE_VLLM)
		check_caches(check, layers);
}

const struct format format_quark = {
	.name = "quark",
	.summary = "Quark's: quant_method quark, read only",
	.methods = methods,
	.variants = variants,
	.read = read_config,
	.check = check_config,
};
