/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/diagnose.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "num/bits.h"
#include "num/fp8.h"
#include "num/scale.h"
#include "verify/values/identify.h"
#include "verify/values/outliers.h"
#include "verify/tensors.h"

/* A largest code below FMAX / 2 proves that the scale, power of two or float, does not come from
 * the amax; one far below wastes bits. */
#define LOW_FACTOR (1.0f / 32)

/* More zeros than this part are no weight's. */
#define WIDE_PART 4

/* A weight of one scale of which this part is zero, in runs of this many codes, was not pruned. */
#define EMPTY_PART 4
#define LONG_RUN   ((uint64_t)256 << 10)

/* A scale that an unknown rule gives to a tile of zeros is further than this from other scales. */
#define FAR 16

/* So many codes without one of either sign are no weight. */
#define SIGN_CODES 1024

/* A floor of the amax (DeepGEMM's 1e-4) and values smaller than in any real model make small codes
 * in correct weights. */
#define FLOOR_SCALE 2.5e-7f

/* Dead rows and blocks have scales that are too small; a weight of which they are more than this
 * part is not what it was. */
#define SMALL_PART 4

enum fp8_format verify_weight_format(const struct verify_weight *weight)
{
	return fp8_of_dtype(weight->unit.source->tensor->dtype);
}

/* A margin makes codes smaller by its power of two. */
float diagnose_low_code(const struct verify *verify, enum fp8_format format)
{
	return LOW_FACTOR * fp8_max(format) * f32_pow2(-verify->opened.recorded.spec.margin);
}

float diagnose_floor_scale(const struct verify *verify)
{
	enum fp8_format format = verify->opened.detection->scheme.fp8_format;
	float fmax = fp8_max(format);
	float recorded = 2.01f * verify->opened.recorded.spec.amax_epsilon /
			 fmax; /* the factor 2: the scale is the power of two above */

	return recorded > FLOOR_SCALE ? recorded : FLOOR_SCALE;
}

static bool looks_large(const struct scan *scan)
{
	return 2 * scan->n_large > scan->n_scales;
}

COMPARISON(compare_floats, float, ORDER(*x, *y))

float diagnose_median(float *values, size_t n)
{
	qsort(values, n, sizeof *values, compare_floats);
	return values[n / 2];
}

/* The usual scales of the model. */
struct usual {
	float scale;	   /* the median of the weights' largest ones */
	bool mostly_large; /* most weights have scales that look inverted */
};

static struct usual find_usual(const struct verify *verify)
{
	float *largest = xcalloc(verify->weights.n + 1, sizeof *largest);
	struct usual usual;
	size_t n = 0, n_large = 0;

	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct scan *scan = &verify->weights.list[w].scan;

		if (!scan->n_scales)
			continue;
		largest[n++] = scan->largest;
		n_large += looks_large(scan);
	}
	usual = (struct usual){ diagnose_median(largest, n), 2 * n_large > n };
	free(largest);
	return usual;
}

bool verify_is_proven(const struct verify *verify, const struct verify_weight *weight)
{
	const struct unit *unit = &weight->unit;

	if (weight->origin && identify_is_known(verify, weight->granularity) &&
	    !weight->scan.scales_off.n)
		return true;
	return sums_are_right(&verify->run.sums, unit->source->shard) &&
	       sums_are_right(&verify->run.sums, unit->source_scale.scale->shard);
}

/* A tile whose values are further apart than FP8 holds has codes of zero, as weights have not. */
static bool is_wide(const struct scan *scan)
{
	return WIDE_PART * scan->n_sampled_zero > scan->n_sampled;
}

/* Scales that divide are thousands where scales that multiply are thousandths.  A single tensor
 * counts as inverted only if the inverse of its scales is usual in the model, and never where they
 * are proven right. */
static bool is_inverted(const struct verify *verify, const struct verify_weight *weight,
			const struct usual *usual)
{
	const struct scan *scan = &weight->scan;

	if (verify->opened.detection->inverted)
		return true;
	if (!looks_large(scan) || is_wide(scan) || verify_is_proven(verify, weight))
		return false;
	return usual->mostly_large ||
	       (1 / scan->smallest < 4 * usual->scale && 4 / scan->smallest > usual->scale);
}

static void report_scales(struct verify *verify, const struct verify_weight *weight,
			  const struct usual *usual)
{
	const struct scan *scan = &weight->scan;
	const struct tensor_ref *ref = weight->unit.source_scale.scale;
	bool proven = verify_is_proven(verify, weight);

	verify_report_values(verify, PROBLEM_SCALE_VALUE, ref, &scan->bad, scan->n_scales,
			     "are zero, negative or not finite");
	if (!proven)
		verify_report_values(verify, PROBLEM_SCALE_TOO_LARGE, ref, &scan->large,
				     scan->n_scales, "are too large for a weight");
	if (!proven && SMALL_PART * scan->small.n > scan->n_scales)
		verify_report_values(verify, PROBLEM_SCALE_TOO_SMALL, ref, &scan->small,
				     scan->n_scales, "are too small for a weight");
	if (verify->opened.detection->scheme.pow2 &&
	    weight->granularity == verify->opened.detection->scheme.granularity)
		verify_report_values(verify, PROBLEM_SCALE_NOT_POW2, ref, &scan->not_pow2,
				     scan->n_scales,
				     "are not powers of two, but scale_fmt is ue8m0");
	if (is_inverted(verify, weight, usual))
		verify_report(verify, PROBLEM_SCALE_INVERTED, ref,
			      "'%s' holds divisors (%g is one): 'fp8conv repack' inverts them",
			      ref->tensor->name, scan->any_scale);
}

static bool has_one_scale(const struct verify_weight *weight)
{
	const struct tile tile = weight->unit.source_scale.tile;

	return weight->scanned && tile.rows == WHOLE && tile.cols == WHOLE && !weight->scan.nan.n;
}

/* Are the codes zero where nothing was pruned?  In a weight of one scale, pruned rows lie apart. */
static bool is_half_empty(const struct scan *scan)
{
	uint64_t run = scan->n_codes / 8 < LONG_RUN ? scan->n_codes / 8 : LONG_RUN;

	return scan->max > 0 && EMPTY_PART * scan->n_zero_rows >= scan->n_codes &&
	       scan->n_zero_rows >= scan->zero_rows.n * run;
}

/* What is said of one place, and of several. */
struct sentence {
	const char *of[2], *what[2];
};

/* Reports codes, tiles or runs of a weight, if there are any: "3 codes of 'w' are zero, the first
 * at [0, 5]".  The value of the first one, if it is not 0, stands before its place. */
static void report_places(struct verify *verify, enum problem_kind kind, const struct unit *unit,
			  const struct finding *finding, const struct sentence *said)
{
	bool several = finding->n > 1;
	char value[32] = "";

	if (!finding->n)
		return;
	if (finding->value != 0)
		snprintf(value, sizeof value, " (%g)", (double)finding->value);
	verify_report(verify, kind, unit->source,
		      "%" PRIu64 " %s '%s' %s, the first%s at [%" PRIu64 ", %" PRIu64 "]",
		      finding->n, said->of[several], unit->name, said->what[several], value,
		      finding->first / unit->cols, finding->first % unit->cols);
}

static void report_zeros(struct verify *verify, const struct verify_weight *weight)
{
	const struct scan *scan = &weight->scan;
	const struct unit *unit = &weight->unit;
	static const struct sentence empty = {
		{ "tile of", "tiles of" },
		{ "is zero, but has a scale of another value",
		  "are zero, but have scales of other values" },
	};
	static const struct sentence cut_off = {
		{ "run of zeros in", "runs of zeros in" },
		{ "begins or ends inside of a row", "begin or end inside of a row" },
	};
	static const struct sentence zero_rows = {
		{ "code of whole rows of", "codes of whole rows of" },
		{ "is zero", "are zero" },
	};
	const struct finding rows = { scan->zero_rows.n ? scan->n_zero_rows : 0,
				      scan->zero_rows.first, 0 };

	report_places(verify, PROBLEM_CODE_ZERO, unit, &scan->empty, &empty);
	report_places(verify, PROBLEM_CODE_ZERO, unit, &scan->cut_off, &cut_off);
	if (is_half_empty(scan))
		verify_report(verify, PROBLEM_CODE_ZERO, unit->source,
			      "%" PRIu64 " of %" PRIu64
			      " codes of '%s' are zero, one after the other",
			      scan->n_zero_rows, scan->n_codes, unit->name);
	else
		report_places(verify, PROBLEM_ZERO_ROWS, unit, &rows, &zero_rows);
	if (scan->max > 0 && scan->n_codes >= SIGN_CODES && scan->negative != scan->positive)
		verify_report(verify, PROBLEM_CODE_SIGN, unit->source, "no code of '%s' is %s",
			      unit->name, scan->negative ? "positive" : "negative");
}

static void report_codes(struct verify *verify, const struct verify_weight *weight)
{
	const struct scan *scan = &weight->scan;
	const struct unit *unit = &weight->unit;
	const struct tensor_ref *scale = unit->source_scale.scale;
	static const struct sentence nan = {
		{ "code of", "codes of" },
		{ "is not finite", "are not finite" },
	};
	static const struct sentence low = {
		{ "tile of", "tiles of" },
		{ "has a largest code far below the maximum of the format",
		  "have a largest code far below the maximum of the format" },
	};
	static const struct sentence codes_off = {
		{ "code of", "codes of" },
		{ "differs from the source", "differ from the source" },
	};

	report_places(verify, PROBLEM_CODE_NAN, unit, &scan->nan, &nan);
	report_places(verify, PROBLEM_CODE_RANGE, unit, &scan->low, &low);
	report_places(verify, PROBLEM_CODE_MISMATCH, unit, &scan->codes_off, &codes_off);
	if (scan->scales_off.n)
		verify_report(verify, PROBLEM_SCALE_MISMATCH, scale,
			      "%" PRIu64 " value%s of '%s' %s from the source, the first at "
			      "%" PRIu64,
			      scan->scales_off.n, scan->scales_off.n == 1 ? "" : "s",
			      scale->tensor->name, scan->scales_off.n == 1 ? "differs" : "differ",
			      scan->scales_off.first);
}

/* A fused set of weights with one scale each: the largest code and the scale of the set. */
struct fused {
	float max;
	const struct verify_weight *first;
};

static struct fused *gather_fused(const struct verify *verify)
{
	struct fused *sets = xcalloc(verify->weights.fused_sets.n, sizeof *sets);

	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];
		struct fused *set;

		if (weight->fused_set == SIZE_MAX || !has_one_scale(weight))
			continue;
		set = &sets[weight->fused_set];
		set->max = fmaxf(set->max, weight->scan.max);
		set->first = set->first ? set->first : weight;
	}
	return sets;
}

/* max: the largest code of all weights that have the same scale. */
static void judge_range(const struct verify *verify, struct verify_weight *weight, float max)
{
	struct scan *scan = &weight->scan;
	/* weight->amax: of its source, or 0 without one */
	bool has_values = scan->max > 0 || weight->amax > 0;

	if (has_values && !scan->nan.n &&
	    max < diagnose_low_code(verify, verify_weight_format(weight)) &&
	    scan->largest > diagnose_floor_scale(verify))
		scan->low = (struct finding){ .n = 1,
					      .first = weight->unit.slice.first,
					      .value = scan->max };
}

static void report_one_scale(struct verify *verify, struct verify_weight *weight,
			     const struct fused *set)
{
	const struct scan *scan = &weight->scan;

	judge_range(verify, weight, set ? set->max : scan->max);
	if (set && scan->any_scale != set->first->scan.any_scale)
		verify_report(verify, PROBLEM_GROUP_SCALES_DIFFER, weight->unit.source,
			      "the scale of '%s' is %.9g, but that of '%s' is %.9g",
			      weight->unit.name, scan->any_scale, set->first->unit.name,
			      set->first->scan.any_scale);
}

/* Compensation costs a weight a few dB, 10 in the worst of SmolLM2.  A weight with less than 10 dB
 * left, of which rounding to nearest leaves 10 dB more, has the codes of something else. */
static void judge_compensated(const struct verify *verify, struct verify_weight *weight)
{
	struct scan *scan = &weight->scan;

	if (verify->opened.compensated && 10 * scan->error.noise > scan->error.signal &&
	    scan->error.noise > 10 * scan->own_noise)
		scan->codes_off = scan->moved;
}

/* Returns the scales of all tiles with values.  Only the whole weight shows whether its one scale
 * is one of them. */
static struct range find_live(const struct verify *verify)
{
	struct range live = { 0 };

	for (size_t w = 0; w < verify->weights.n; w++) {
		struct verify_weight *weight = &verify->weights.list[w];
		struct scan *scan = &weight->scan;

		if (has_one_scale(weight) && scan->max > 0 &&
		    scale_fault_of(scan->any_scale, verify_weight_format(weight)) == SCALE_SOUND)
			range_add(&scan->live_scales, scan->any_scale, weight->first_scale);
		range_merge(&live, &scan->live_scales);
	}
	return live;
}

/* Drops the finding about tiles of zeros if they have one scale, far from all others: an unknown
 * rule made it. */
static void judge_empty(const struct verify *verify, struct verify_weight *weight,
			const struct range *live)
{
	struct scan *scan = &weight->scan;
	const struct range *scales = &scan->empty_scales;
	const struct weight_scale *of = &weight->unit.source_scale;

	if (has_one_scale(weight) && scan->max == 0 && scan->any_scale > 0 &&
	    !zero_scale_is_known(&verify->run.zero_scales, of->scale_type, of->scale->tensor->dtype,
				 scan->any_scale)) {
		scan->empty = (struct finding){ 1, weight->unit.slice.first, scan->any_scale };
		range_add(&scan->empty_scales, scan->any_scale, 0);
	}
	if (live->n && scales->min == scales->max &&
	    (scales->min > FAR * live->max || scales->min * FAR < live->min))
		scan->empty = (struct finding){ 0 };
}

/* Judges a weight by its largest code, and by the scale that it shares. */
static void judge(struct verify *verify, struct verify_weight *weight, const struct fused *sets)
{
	if (!weight->scanned)
		return;
	if (weight->unit.source_scale.scale_type == SCALE_E8M0)
		judge_range(verify, weight, weight->scan.max);
	else if (has_one_scale(weight))
		report_one_scale(verify, weight,
				 weight->fused_set == SIZE_MAX ? NULL : &sets[weight->fused_set]);
}

/* Reports n weights of one tensor as one. */
static void report(struct verify *verify, const struct verify_weight *weights, size_t n,
		   const struct usual *usual)
{
	struct verify_weight all = *weights;

	for (size_t i = 1; i < n; i++)
		scan_merge(&all.scan, &weights[i].scan);
	if (!all.scanned)
		return;
	report_scales(verify, &all, usual);
	report_codes(verify, &all);
	if (!verify_is_proven(verify, &all))
		report_zeros(verify, &all);
}

void diagnose(struct verify *verify)
{
	struct fused *sets = gather_fused(verify);
	const struct usual usual = find_usual(verify);
	const struct range live = find_live(verify);

	for (size_t w = 0, n; w < verify->weights.n; w += n) {
		n = verify_weight_run(verify, w);
		for (size_t i = 0; i < n; i++) {
			judge(verify, &verify->weights.list[w + i], sets);
			judge_empty(verify, &verify->weights.list[w + i], &live);
			judge_compensated(verify, &verify->weights.list[w + i]);
		}
		report(verify, &verify->weights.list[w], n, &usual);
	}
	verify_outliers(verify);
	free(sets);
}
