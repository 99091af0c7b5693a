/* SPDX-License-Identifier: Apache-2.0 */
#include "format/read_config.h"

#include <string.h>

static int find_object(struct json_text text, const char *key, struct json_text *value,
		       struct err *err)
{
	if (json_find(text, key, value, err))
		return -1;
	if (value->len && *value->data != '{') /* null or unreadable */
		*value = (struct json_text){ 0 };
	return 0;
}

/* vLLM and SGLang take "compression_config", the older name of compressed-tensors, for the same. */
static int find_in_config(struct json_text config, struct json_text *value, struct err *err)
{
	struct json_text nested;

	*value = (struct json_text){ 0 };
	if (!config.len)
		return 0;
	if (find_object(config, "quantization_config", value, err) ||
	    find_object(config, "text_config", &nested, err))
		return -1;
	if (!value->len && nested.len && find_object(nested, "quantization_config", value, err))
		return -1;
	return value->len ? 0 : find_object(config, "compression_config", value, err);
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

bool config_tile(const json_t *list, struct tile *tile)
{
	json_int_t rows = json_integer_value(json_array_get(list, 0));
	json_int_t cols = json_integer_value(json_array_get(list, 1));

	if (json_array_size(list) != 2 || rows <= 0 || cols <= 0)
		return false;
	*tile = (struct tile){ (size_t)rows, (size_t)cols };
	return true;
}

const char *config_quant_method(const json_t *config)
{
	const char *method = json_member_text(config, "quant_method");

	if (!*method && json_is_object(json_object_get(config, "quantization")))
		return "modelopt";
	return method;
}

const json_t *config_keys(const json_t *config)
{
	const json_t *nested = json_object_get(config, "quantization");

	return nested ? nested : config;
}

const struct format *config_format(const json_t *config)
{
	const char *method = config_quant_method(config);

	for (size_t i = 0; formats[i]; i++)
		for (const char *const *name = formats[i]->methods; *name; name++)
			if (!strcmp(*name, method))
				return formats[i];
	return NULL;
}

struct declaration config_read_declaration(const json_t *config)
{
	const struct format *format = config_format(config);
	struct declaration said = { 0 };

	if (format) {
		said.format = format->name;
		format->read(config, &said);
	}
	said.scheme.pow2 = said.scale_fmt;
	if (!said.declared)
		said.format = NULL;
	return said;
}
