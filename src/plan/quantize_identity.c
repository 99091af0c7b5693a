/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of a quantize job, for the manifest.
 */
#include <openssl/sha.h>

#include "base/buf.h"
#include "base/words.h"
#include "plan/rounding.h"
#include "plan/quantize.h"

/* The numbers of the job's recipe, after tuning. */
static json_t *spec_json(const struct qspec *spec)
{
	char format[WORD_SIZE], arith[WORD_SIZE], mx_rule[WORD_SIZE];

	return json_pack("{s:s, s:[I, I], s:b, s:s, s:s, s:f, s:i}", "fp8_format",
			 words_get(FP8_FORMAT_WORDS, (int)spec->format, format), "tile",
			 (json_int_t)spec->tile.rows, (json_int_t)spec->tile.cols, "pow2",
			 spec->pow2, "scale_arith",
			 words_get(SCALE_ARITH_WORDS, (int)spec->arith, arith), "mx_scale",
			 words_get(MX_RULE_WORDS, (int)spec->mx_rule, mx_rule), "amax_epsilon",
			 (double)spec->amax_epsilon, "margin", spec->margin);
}

static json_t *rules_json(const struct select_options *select)
{
	json_t *list = json_array();

	for (size_t i = 0; i < select->rules.n; i++) {
		const struct recipe *recipe = select->rules.list[i].recipe;

		json_array_append_new(list, json_sprintf("%s=%s", select->rules.list[i].pattern,
							 recipe ? recipe->name : "skip"));
	}
	return list;
}

static void add_values(struct buf *values, const struct output_shard *shard)
{
	for (size_t i = 0; i < shard->n_tensors; i++)
		if (shard->outputs[i].kind == OUTPUT_VALUE)
			buf_add(values, &shard->outputs[i].value, sizeof(float));
}

/* Returns all numbers taken from a calibration; other differences of the amax file do not matter.
 * NULL without one. */
static json_t *calibration_json(const struct plan *plan, const struct quantize_params *params)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	struct buf values = { 0 };
	char text[33];

	if (!params->calibration.path)
		return json_null();
	for (size_t group = 0; group < plan->selection.n_scale_groups; group++)
		buf_add(&values, &plan->groups[group].amax, sizeof(float));
	for (size_t s = 0; s < plan->n_shards; s++)
		add_values(&values, &plan->shards[s]);
	SHA256((const unsigned char *)values.data, values.len, digest);
	text_hex(text, digest, sizeof text / 2);
	buf_release(&values);
	return json_string(text);
}

/* Records options by their effect on the output's bytes, so that a default that is given in full is
 * the same job. */
json_t *quantize_identity(const struct plan *plan, const struct quantize_params *params)
{
	static const char *const nonfinite[] = { "error", "saturate", "skip" };
	static const char *const profiles[] = { "vendor", "engine", "none" };
	const struct select_options *select = &params->select;
	json_t *options = json_pack(
		"{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:s, s:b, s:b, s:o}", "recipe",
		plan->recipe->name, "format", plan->format->name, "target",
		engine_name(plan->target), "profile", profiles[params->profile], "scales",
		spec_json(&plan->spec), "include", plan_texts_json(&select->include), "exclude",
		plan_texts_json(&select->exclude), "tensor", rules_json(select), "ragged",
		select->ragged, "requantize", select->requantize, "on_nonfinite",
		nonfinite[params->convert.on_nonfinite], "preserve_high_precision",
		params->convert.preserve != NULL, "kv_cache", plan->kv_cache, "calibration",
		calibration_json(plan, params));

	if (plan->rounding)
		json_object_set_new(options, "rounding", rounding_identity(plan));
	if (select->named)
		json_object_set_new(options, "tensors", json_string(select->named->sha256));
	return options;
}
