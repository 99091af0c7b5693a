/* SPDX-License-Identifier: Apache-2.0
 *
 * params.json, the configuration of Mistral's own layout.
 *
 * Source: vllm/transformers_utils/configs/mistral.py and models/mistral.py of vLLM 0.32:
 * "quantization" is FP8 with one scale a weight and no list of kept modules, or the text of
 * compressed-tensors, whose list names modules of vLLM.  Its loader sorts the rows of each head in
 * wq and wk, but not their weight_scale: a scale must hold for whole heads.  SGLang 0.5.23 reads
 * the first of the two, and sorts no rows.
 */
#include <fnmatch.h>
#include <string.h>

#include "base/json.h"
#include "source/fp8_source.h"
#include "plan/plan.h"

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

/* Is the output for SGLang, which has no other configuration then? */
static bool is_alone_for_sglang(const struct plan *plan)
{
	return plan->target == ENGINE_SGLANG && !plan->source.config.len;
}

/* Returns the value of "quantization" for a quantization_config; NULL: engines have none. */
static const char *value_of(const struct plan *plan, struct json_text params,
			    const struct scheme *scheme, const char *quantization)
{
	if (!fp8_source_holds_heads(params, scheme) || !keeps_no_layer(plan))
		return NULL;
	if (profile_on_format(plan->format) & ON_COMPRESSED)
		return is_alone_for_sglang(plan) ? NULL : quantization;
	if (!(profile_on_format(plan->format) & ON_HF) || scheme->granularity != GRANULARITY_TENSOR)
		return NULL;
	return scheme->static_input
		       ? "{\"qformat_weight\": \"fp8_e4m3\", \"qscheme_act\": \"TENSOR\"}"
		       : "{\"qformat_weight\": \"fp8_e4m3\", \"qscheme_act\": \"NO_SCALES\"}";
}

int plan_params_format(struct plan *plan, const struct scheme *scheme, struct err *err)
{
	struct buf text = { 0 };
	bool reads = plan->target == ENGINE_ANY || plan->target == ENGINE_VLLM;
	bool sglang = is_alone_for_sglang(plan);

	if (!(scheme->granularity == GRANULARITY_TENSOR ? sglang : reads))
		return 0;
	if (fp8_source_params(&plan->source, plan->source.io, &text, err))
		return -1;
	if (text.len && fp8_source_holds_heads((struct json_text){ text.data, text.len }, scheme))
		plan->format = format_select(sglang ? "hf" : "compressed-tensors", plan->target,
					     scheme, plan->recipe->name, err);
	buf_release(&text);
	return plan->format ? 0 : -1;
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
		value = value_of(plan, whole, scheme, quantization);
	if (quantization && !value && (plan->target == ENGINE_VLLM || is_alone_for_sglang(plan))) {
		err_set(err, ERR_USAGE,
			PARAMS_NAME " cannot tell %s of this layout: use --recipe current or "
				    "delayed, and keep no weight of a layer, or omit --target",
			engine_name(plan->target));
		goto out;
	}
	plan->files.has_params = true;
	plan->files.params_say = value != NULL;
	rc = value || was.len ? json_edit(whole, key, value, &plan->files.params, err) : 0;
out:
	buf_release(&text);
	return rc;
}
