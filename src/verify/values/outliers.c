/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/outliers.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "num/bits.h"
#include "verify/values/diagnose.h"
#include "verify/tensors.h"

/* In SmolLM2 no scale of a block is more than 2^2.9 above the mean of its weight, of a channel 2^4,
 * of 32 values of MX 2^4.7; no weight more than 2^2 above its module in other layers. */
#define ABOVE_OTHERS 40.0f
#define ABOVE_MX     1024.0f
#define ABOVE_LAYERS 32.0f
#define SIBLINGS     3 /* weights of one name from which on their median counts */

/* The mean scale of a weight, and the number of its name. */
struct level {
	const struct verify_weight *weight;
	size_t number;
	float scale;
};

struct levels {
	size_t n;
	struct level *list;
};

COMPARISON(compare_scales, struct level, ORDER(x->scale, y->scale))

COMPARISON(compare_levels, struct level, ORDER(x->number, y->number) ?: ORDER(x->scale, y->scale))

static void report_scale(struct verify *verify, const struct verify_weight *weight,
			 const struct range *scales)
{
	const struct tensor_ref *ref = weight->unit.source_scale.scale;
	bool mx = weight->unit.source_scale.scale_type == SCALE_E8M0;
	float others;

	if (scales->n < 2)
		return;
	others = range_others(scales);
	if (scales->max >= others * (mx ? ABOVE_MX : ABOVE_OTHERS))
		verify_report(verify, PROBLEM_SCALE_OUTLIER, ref,
			      "'%s' has %g at %" PRIu64 ", but the others are about %g",
			      ref->tensor->name, (double)scales->max, scales->max_at,
			      (double)others);
}

static void report_level(struct verify *verify, const struct level *level, float median)
{
	const struct tensor_ref *ref = level->weight->unit.source_scale.scale;

	if (level->scale >= ABOVE_LAYERS * median)
		verify_report(verify, PROBLEM_SCALE_OUTLIER, ref,
			      "values of '%s' are about %g, but values of such weights about %g",
			      ref->tensor->name, (double)level->scale, (double)median);
}

/* Compares each weight with the median of the weights of its name, or of all if there are few. */
static void report_levels(struct verify *verify, struct levels *levels)
{
	float median;

	if (levels->n < SIBLINGS)
		return;
	qsort(levels->list, levels->n, sizeof *levels->list, compare_scales);
	median = levels->list[levels->n / 2].scale;
	qsort(levels->list, levels->n, sizeof *levels->list, compare_levels);
	for (size_t i = 0, n; i < levels->n; i += n) {
		const struct level *first = &levels->list[i];

		for (n = 1; i + n < levels->n && first[n].number == first->number;)
			n++;
		for (size_t k = 0; k < n; k++)
			report_level(verify, &first[k], n < SIBLINGS ? median : first[n / 2].scale);
	}
}

void verify_outliers(struct verify *verify)
{
	struct levels levels = { 0, xcalloc(verify->weights.n, sizeof *levels.list) };

	for (size_t w = 0, n; w < verify->weights.n; w += n) {
		const struct verify_weight *weight = &verify->weights.list[w];
		struct range scales = { 0 };

		n = verify_weight_run(verify, w);
		if (!weight->scanned || verify_is_proven(verify, weight))
			continue;
		for (size_t i = 0; i < n; i++)
			range_merge(&scales, &weight[i].scan.live_scales);
		if (!scales.n)
			continue;
		report_scale(verify, weight, &scales);
		levels.list[levels.n++] = (struct level){
			.weight = weight,
			.number = role_cache_add(&verify->roles, weight->unit.name),
			.scale = f32_from_bits((uint32_t)(scales.bits / scales.n)),
		};
	}
	report_levels(verify, &levels);
	free(levels.list);
}
