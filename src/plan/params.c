/* SPDX-License-Identifier: Apache-2.0
 *
 * params.json, the configuration of Mistral's own layout.
 *
 * Source: vllm/transformers_utils/configs/mistral.py and models/mistral.py of vLLM 0.32:
 * "quantization" is FP8 with one scale a weight and no list of kept modules, or the text of
 * compressed-tensors, whose list names modules of vLLM.  Its loader sorts the rows of each head in
 * wq and wk, but not their weight_scale: a scale must hold for whole heads.  Latent attention has
 * no rows to sort.  SGLang 0.5.23 reads the first of the two.
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

/* Does each scale of the scheme hold for whole heads of the model, as far as rows are sorted? */
static bool holds_heads(struct json_text params, const struct scheme *scheme)
{
	struct err ignored;
	json_t *config = json_decode(params, &ignored);
	json_int_t dim = json_integer_value(json_object_get(config, "head_dim"));
	json_int_t heads = json_integer_value(json_object_get(config, "n_heads"));
	bool latent = json_integer_value(json_object_get(config, "qk_nope_head_dim")) > 0;

	if (!dim && heads > 0)
		dim = json_integer_value(json_object_get(config, "dim")) / heads;
	json_decref(config);
	return scheme->granularity == GRANULARITY_TENSOR || latent ||
	       (dim > 0 && (json_int_t)scheme->tile.rows % dim == 0);
}

/* Returns the value of "quantization" for a quantization_config; NULL: vLLM has none. */
static const char *value_of(const struct plan *plan, struct json_text params,
			    const struct scheme *scheme, const char *quantization)
{
	if (!holds_heads(params, scheme) || !keeps_no_layer(plan))
		return NULL;
	if (profile_on_format(plan->format) & ON_COMPRESSED)
		return quantization;
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

	if (!reads || scheme->granularity == GRANULARITY_TENSOR)
		return 0;
	if (fp8_source_params(&plan->source, plan->source.io, &text, err))
		return -1;
	if (text.len && holds_heads((struct json_text){ text.data, text.len }, scheme))
		plan->format = format_select("compressed-tensors", plan->target, scheme,
					     plan->recipe->name, err);
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
	plan->files.has_params = true;
	plan->files.params_say = value != NULL;
	rc = value || was.len ? json_edit(whole, key, value, &plan->files.params, err) : 0;
out:
	buf_release(&text);
	return rc;
}
