/* SPDX-License-Identifier: Apache-2.0 */
#include "format/read_config.h"

#include <string.h>
#include <strings.h>

static int find_object(struct json_text text, const char *key, struct json_text *value,
		       struct err *err)
{
	if (json_find(text, key, value, err))
		return -1;
	if (value->len && *value->data != '{') /* null, or nothing that we could read */
		*value = (struct json_text){ 0 };
	return 0;
}

static int find_in_config(struct json_text config, struct json_text *value, struct err *err)
{
	struct json_text nested;

	*value = (struct json_text){ 0 };
	if (!config.len)
		return 0;
	if (find_object(config, "quantization_config", value, err) ||
	    find_object(config, "text_config", &nested, err))
		return -1;
	if (value->len || !nested.len)
		return 0;
	return find_object(nested, "quantization_config", value, err);
}

int config_find_quantization(const struct checkpoint *checkpoint, struct json_text hf_quant_config,
			     json_t **config, struct err *err)
{
	const struct json_text text = { checkpoint->config.data, checkpoint->config.len };
	struct json_text value;

	*config = NULL;
	if (find_in_config(text, &value, err))
		return err_wrap(err, "'%s': config.json", checkpoint->path);
	if (value.len) {
		*config = json_decode_python(value, err);
		return *config ? 0
			       : err_wrap(err, "'%s': config.json: quantization_config",
					  checkpoint->path);
	}
	if (!hf_quant_config.len)
		return 0;
	*config = json_decode_python(hf_quant_config, err);
	return *config ? 0 : err_wrap(err, "'%s': hf_quant_config.json", checkpoint->path);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* A tile of two positive integers. */
static bool tile_of(const json_t *list, struct tile *tile)
{
	json_int_t rows = json_integer_value(json_array_get(list, 0));
	json_int_t cols = json_integer_value(json_array_get(list, 1));

	if (json_array_size(list) != 2 || rows <= 0 || cols <= 0)
		return false;
	*tile = (struct tile){ (size_t)rows, (size_t)cols };
	return true;
}

/* GPTQModel writes FP8 under the same quant_method, and scales that divide under the same names. */
static bool made_by_gptqmodel(const json_t *config)
{
	const json_t *quantizers = json_object_get(json_object_get(config, "meta"), "quantizer");
	const json_t *quantizer;
	size_t i;

	if (!strcmp(text_of(config, "weight_scale_semantics"), "inverse"))
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
	const char *activations = text_of(config, "activation_scheme");

	said->declared = true;
	said->has_input = *activations;
	scheme->static_input = !strcmp(activations, "static");
	scheme->grain = tile_of(json_object_get(config, "weight_block_size"), &scheme->tile)
				? GRAIN_BLOCK
				: GRAIN_TENSOR;
	if (strstr(text_of(config, "fmt"), "e5m2"))
		scheme->fp8_format = FP8_E5M2;
	said->scale_fmt = !strcmp(text_of(config, "scale_fmt"), "ue8m0");
	if (made_by_gptqmodel(config)) {
		said->format = "gptqmodel";
		said->inverted = true;
		said->has_input = false;
	}
}

static void read_mxfp8(const json_t *config, struct declaration *said)
{
	(void)config;
	said->declared = said->has_input = said->scale_fmt = true;
	said->scheme.grain = GRAIN_MX;
	said->scheme.tile = (struct tile){ 1, 32 };
}

static void read_fbgemm(const json_t *config, struct declaration *said)
{
	(void)config;
	said->declared = said->has_input = true;
	said->scheme.grain = GRAIN_CHANNEL;
	said->scheme.tile = (struct tile){ 1, WHOLE };
}

/* The first group that quantizes weights to FP8; "group_0" comes first in what anybody writes. */
static const json_t *fp8_group(const json_t *config)
{
	json_t *groups = json_object_get(config, "config_groups");
	json_t *group;
	const char *key;

	json_object_foreach(groups, key, group)
	{
		const json_t *weights = json_object_get(group, "weights");

		if (json_integer_value(json_object_get(weights, "num_bits")) == 8 &&
		    !strcmp(text_of(weights, "type"), "float"))
			return group;
	}
	return NULL;
}

static void read_groups(const json_t *config, struct declaration *said)
{
	const json_t *group = fp8_group(config);
	const json_t *weights = json_object_get(group, "weights");
	const json_t *inputs = json_object_get(group, "input_activations");
	const char *strategy = text_of(weights, "strategy");
	struct scheme *scheme = &said->scheme;

	if (!group)
		return;
	said->declared = said->has_input = true;
	scheme->static_input = json_is_false(json_object_get(inputs, "dynamic"));
	if (!strcmp(strategy, "channel")) {
		scheme->grain = GRAIN_CHANNEL;
		scheme->tile = (struct tile){ 1, WHOLE };
	} else if (!strcmp(strategy, "block") &&
		   tile_of(json_object_get(weights, "block_structure"), &scheme->tile)) {
		scheme->grain = GRAIN_BLOCK;
	} else if (!strcmp(strategy, "group")) {
		read_mxfp8(config, said);
		scheme->tile.cols =
			(size_t)json_integer_value(json_object_get(weights, "group_size"));
	}
}

/* Flat in config.json, under "quantization" in hf_quant_config.json. */
static void read_modelopt(const json_t *config, struct declaration *said)
{
	static const struct {
		const char *algo;
		struct scheme scheme;
	} algos[] = {
		{ "FP8", { .grain = GRAIN_TENSOR, .static_input = true } },
		{ "FP8_PER_CHANNEL_PER_TOKEN", { .grain = GRAIN_CHANNEL, .tile = { 1, WHOLE } } },
		{ "FP8_PB_WO", { .grain = GRAIN_BLOCK, .tile = { 128, 128 } } },
		{ "FP8_BLOCK_SCALES", { .grain = GRAIN_BLOCK, .tile = { 128, 128 } } },
		{ "MXFP8", { .grain = GRAIN_MX, .tile = { 1, 32 } } },
	};
	const json_t *nested = json_object_get(config, "quantization");
	const char *algo = text_of(nested ? nested : config, "quant_algo");

	for (size_t i = 0; i < sizeof algos / sizeof *algos; i++) {
		if (strcasecmp(algos[i].algo, algo))
			continue;
		said->declared = said->has_input = true;
		said->scheme = algos[i].scheme;
		said->scale_fmt = said->scheme.grain == GRAIN_MX;
	}
}

struct declaration config_read_declaration(const json_t *config)
{
	static const struct {
		const char *quant_method;
		const char *format;
		void (*read)(const json_t *config, struct declaration *said);
	} readers[] = {
		{ "fp8", "hf", read_fp8 },
		{ "mxfp8", "hf", read_mxfp8 },
		{ "compressed-tensors", "compressed-tensors", read_groups },
		{ "modelopt", "modelopt", read_modelopt },
		{ "modelopt_mxfp8", "modelopt", read_modelopt },
		{ "fbgemm_fp8", "fbgemm", read_fbgemm },
	};
	struct declaration said = { 0 };
	const char *method = text_of(config, "quant_method");

	/* hf_quant_config.json has no quant_method, and is ModelOpt's. */
	if (!*method && json_is_object(json_object_get(config, "quantization")))
		method = "modelopt";
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
		if (strcmp(readers[i].quant_method, method))
			continue;
		said.format = readers[i].format;
		readers[i].read(config, &said);
	}
	said.scheme.pow2 = said.scale_fmt;
	if (!said.declared)
		said.format = NULL;
	return said;
}
