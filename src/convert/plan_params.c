/* SPDX-License-Identifier: Apache-2.0
 *
 * params.json, the configuration of Mistral's own layout, where the source has no config.json.
 *
 * Source: vllm/transformers_utils/configs/mistral.py of vLLM 0.32: "quantization" is FP8 with one
 * scale a weight and no list of kept modules, or the text of compressed-tensors, whose list names
 * modules of vLLM.  Its loader sorts the rows of wq and wk, but not their weight_scale.
 */
#include <fnmatch.h>
#include <string.h>

#include "base/json.h"
#include "source/fp8_source.h"
#include "convert/plan.h"

static const char key[] = "quantization";

/* Are all linear weights of the layers quantized? */
static bool keeps_no_layer(const struct plan *plan)
{
	for (size_t i = 0; i < plan->skipped.n; i++)
		if (!fnmatch("layers.*.attention.w[qkvo]", plan->skipped.names[i], 0) ||
		    !fnmatch("layers.*.w[123]", plan->skipped.names[i], 0))
			return false;
	return true;
}

/* Returns the value of "quantization" for a quantization_config; NULL: vLLM has none. */
static const char *value_of(const struct plan *plan, const struct scheme *scheme,
			    const char *quantization)
{
	struct err ignored;
	json_t *config =
		json_decode((struct json_text){ quantization, strlen(quantization) }, &ignored);
	const char *method = json_string_value(json_object_get(config, "quant_method"));
	const char *value = NULL;

	if (method && scheme->granularity == GRANULARITY_TENSOR && keeps_no_layer(plan)) {
		if (!strcmp(method, "compressed-tensors"))
			value = quantization;
		else if (!strcmp(method, "fp8"))
			value = scheme->static_input
					? "{\"qformat_weight\": \"fp8_e4m3\", \"qscheme_act\": "
					  "\"TENSOR\"}"
					: "{\"qformat_weight\": \"fp8_e4m3\", \"qscheme_act\": "
					  "\"NO_SCALES\"}";
	}
	json_decref(config);
	return value;
}

int plan_params(struct plan *plan, const struct scheme *scheme, const char *quantization,
		struct err *err)
{
	struct buf text = { 0 };
	const char *value = NULL;
	struct json_text whole, was;
	int rc = -1;

	if (fp8_source_params(&plan->source, plan->source.io, &text, err))
		return -1;
	whole = (struct json_text){ text.data, text.len };
	if (!text.len || json_find(whole, key, &was, err)) {
		rc = text.len ? err_wrap(err, "params.json") : 0;
		goto out;
	}
	if (quantization)
		value = value_of(plan, scheme, quantization);
	plan->files.has_params = true;
	plan->files.params_say = value != NULL;
	rc = value || was.len ? json_edit(whole, key, value, &plan->files.params, err) : 0;
out:
	buf_release(&text);
	return rc;
}
