/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/config.h"

#include <string.h>

#include "format/check_config.h"
#include "format/read_config.h"
#include "source/fp8_source.h"
#include "verify/entries.h"
#include "verify/lists.h"

static void problem(struct verify *verify, enum problem_kind kind, const char *file,
		    const char *message)
{
	problem_add(&verify->result->problems, kind, NULL, file, "%s", message);
}

static void report(void *context, enum config_part part, const char *file, const char *message)
{
	problem(context, part == CONFIG_KEYS ? PROBLEM_CONFIG_KEY : PROBLEM_CONFIG_IGNORE, file,
		message);
}

/* Reports the first module with an algorithm of its own that the target does not read. */
static void check_layers(struct verify *verify)
{
	const struct format *format = verify->opened.format;
	const char *name;
	json_t *layer;

	if (!format)
		return;
	json_object_foreach((json_t *)verify->lists.layer_list, name, layer)
	{
		struct declaration said = { 0 };
		const char *reason;

		format->read(layer, &said);
		reason = said.declared ? engine_refuses_beside(verify->opened.target, format,
							       &said.scheme)
				       : NULL;
		if (!reason)
			continue;
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "quantized_layers has '%s' as %s, which %s does not load: %s", name,
			    json_member_text(layer, "quant_algo"),
			    engine_name(verify->opened.target), reason);
		return;
	}
}

/* Reports a scheme that the loader of the target refuses. */
static void check_target(struct verify *verify)
{
	struct err err = { 0 };

	check_layers(verify);
	if (verify->opened.target != ENGINE_ANY && verify->opened.format &&
	    engine_check(verify->opened.target, verify->opened.format,
			 &verify->opened.detection->scheme,
			 fp8_source_recipe(verify->opened.detection), &err))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json", err.message);
}

int config_declares(struct verify *verify, struct err *err)
{
	const struct detection *detection = verify->opened.detection;
	struct buf text = { 0 };
	struct err ignored;
	const char *type;
	json_t *params, *quantization;
	bool says;

	if (fp8_source_params(verify->opened.checkpoint, verify->params->io, &text, err))
		return -1;
	params = json_decode_python((struct json_text){ text.data, text.len }, &ignored);
	quantization = json_object_get(params, "quantization");
	type = json_string_value(json_object_get(quantization, "qformat_weight"));
	says = (type && !strncmp(type, "fp8", 3)) || json_object_get(quantization, "quant_method");
	if (detection->config && detection->n_weights && params && !says)
		problem(verify, PROBLEM_CONFIG_KEY, PARAMS_NAME,
			"\"quantization\" is missing, and vLLM takes params.json before "
			"config.json where the weights lie in consolidated*.safetensors: add it, "
			"or remove params.json");
	verify->opened.declared = detection->config ? detection->declared : says;
	json_decref(params);
	buf_release(&text);
	return 0;
}

/* Reports a "quantization_config" that is no object. */
static void check_object(struct verify *verify)
{
	const struct buf *config = &verify->opened.checkpoint->config;
	struct json_text value;
	struct err ignored;

	if (!config->len || json_find((struct json_text){ config->data, config->len },
				      "quantization_config", &value, &ignored))
		return;
	if (value.len && *value.data != '{' && !json_text_is_null(value))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "quantization_config is %.*s, which is not an object: engines refuse "
			    "to load it",
			    value.len < 40 ? (int)value.len : 40, value.data);
}

void verify_config(struct verify *verify)
{
	const struct detection *detection = verify->opened.detection;

	lists_read(verify);
	if (!verify->opened.checkpoint->directory)
		return;
	check_object(verify);
	if (!detection->config) {
		/* The configuration of an unfinished output is written last. */
		if (detection->n_weights && !verify->opened.declared &&
		    !verify->opened.checkpoint->n_expected)
			problem(verify, PROBLEM_CONFIG_KEY, "config.json",
				verify->opened.checkpoint->config.len
					? "quantization_config is missing: engines read FP8 codes "
					  "as weights"
					: "there is no config.json: take that of the source model, "
					  "and add the quantization_config that 'quantize' or "
					  "'repack' shows");
		return;
	}
	if (!detection->declared && !detection->n_weights)
		return;
	config_check_keys(&(struct config_check){ .detection = detection,
						  .hf_quant_config = verify->opened.hf_quant_config,
						  .kept = verify->lists.kept,
						  .fp8_groups = verify->lists.fp8_groups,
						  .target = verify->opened.target,
						  .report = report,
						  .context = verify });
	check_target(verify);
	verify_entries(verify);
}
