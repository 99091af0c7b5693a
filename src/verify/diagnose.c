/* SPDX-License-Identifier: Apache-2.0
 *
 * From what the values of each weight are like to problems: what is wrong by itself, and what is
 * only beside the others.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "verify/steps.h"
#include "num/bits.h"
#include "num/fp8.h"

/* A largest code below FMAX / 2 shows that no power of two and no float scale was taken from the
 * amax; far below it, that bits are wasted. */
#define LOW_FACTOR (1.0f / 32)

/* Floors of amax (DeepGEMM's 1e-4) and values that no model has make small codes where all is
 * well. */
#define FLOOR_SCALE 2.5e-7f

enum fp8_format weight_format(const struct checked *weight)
{
	return weight->unit.source->tensor->dtype == DT_F8_E5M2 ? FP8_E5M2 : FP8_E4M3;
}

/* With a margin, codes are as much smaller as it says. */
float verify_low_code(const struct verify *verify, enum fp8_format format)
{
	return LOW_FACTOR * fp8_to_f32(format, format == FP8_E4M3 ? 0x7E : 0x7B) *
	       f32_pow2(-verify->recorded.spec.margin);
}

float verify_floor_scale(const struct verify *verify)
{
	enum fp8_format format = verify->detection->scheme.fp8_format;
	float fmax = fp8_to_f32(format, format == FP8_E4M3 ? 0x7E : 0x7B);
	float recorded =
		2.01f * verify->recorded.spec.amax_epsilon / fmax; /* twice: a power of two above */

	return recorded > FLOOR_SCALE ? recorded : FLOOR_SCALE;
}

static bool looks_large(const struct scan *scan)
{
	return 2 * scan->n_large > scan->n_scales;
}

static int compare_floats(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* What is usual in the model: the median of the largest scales of weights, and whether most of them
 * look inverted. */
static void find_usual(struct verify *verify)
{
	float *largest = xcalloc(verify->n_weights + 1, sizeof *largest);
	size_t n = 0, n_large = 0;

	for (size_t w = 0; w < verify->n_weights; w++) {
		const struct scan *scan = &verify->weights[w].scan;

		if (!scan->n_scales)
			continue;
		largest[n++] = scan->largest;
		n_large += looks_large(scan);
	}
	qsort(largest, n, sizeof *largest, compare_floats);
	verify->usual_scale = largest[n / 2];
	verify->mostly_large = 2 * n_large > n;
	free(largest);
}

/* Dividing makes scales of thousands where multiplying makes thousandths.  One tensor among others
 * is taken for inverted only if turning its scales round makes them usual; and not where the source
 * shows that they are right. */
static bool is_inverted(const struct verify *verify, const struct checked *weight)
{
	const struct scan *scan = &weight->scan;

	if (verify->detection->inverted)
		return true;
	if (!looks_large(scan) ||
	    (weight->origin && verify_knows_arithmetic(verify, weight->granularity) &&
	     !scan->n_scales_off))
		return false;
	return verify->mostly_large || (1 / scan->smallest < 4 * verify->usual_scale &&
					4 / scan->smallest > verify->usual_scale);
}

static void tell_scales(struct verify *verify, const struct checked *weight)
{
	const struct scan *scan = &weight->scan;
	const struct tensor_ref *ref = weight->unit.source_scale.scale;
	const char *name = ref->tensor->name, *file = verify_file(verify, ref);
	struct problems *problems = &verify->result->problems;

	if (scan->n_bad)
		problem_add(problems, PROBLEM_SCALE_VALUE, name, file,
			    "%llu of %llu values of '%s' are zero, negative or not finite, the "
			    "first is %g at %llu",
			    (unsigned long long)scan->n_bad, (unsigned long long)scan->n_scales,
			    name, scan->bad, (unsigned long long)scan->first_bad);
	if (scan->n_not_pow2 && verify->detection->scheme.pow2 &&
	    weight->granularity == verify->detection->scheme.granularity)
		problem_add(problems, PROBLEM_SCALE_NOT_POW2, name, file,
			    "scale_fmt is ue8m0, but %llu of %llu values of '%s' are no powers of "
			    "two, the first is %g at "
			    "%llu",
			    (unsigned long long)scan->n_not_pow2,
			    (unsigned long long)scan->n_scales, name, scan->not_pow2,
			    (unsigned long long)scan->first_not_pow2);
	if (is_inverted(verify, weight))
		problem_add(problems, PROBLEM_SCALE_INVERTED, name, file,
			    "values of '%s' divide (%g is one): 'fp8conv repack' turns them round",
			    name, scan->any_scale);
}

static void tell_codes(struct verify *verify, const struct checked *weight)
{
	const struct scan *scan = &weight->scan;
	const struct unit *unit = &weight->unit;
	const char *file = verify_file(verify, unit->source);
	struct problems *problems = &verify->result->problems;

	if (scan->n_nan)
		problem_add(problems, PROBLEM_CODE_NAN, unit->name, file,
			    "%llu codes of '%s' are not finite, the first at [%llu, %llu]",
			    (unsigned long long)scan->n_nan, unit->name,
			    (unsigned long long)(scan->first_nan / unit->cols),
			    (unsigned long long)(scan->first_nan % unit->cols));
	if (scan->n_low)
		problem_add(problems, PROBLEM_CODE_RANGE, unit->name, file,
			    "the largest code of %llu tiles of '%s' is far below the format's, the "
			    "first is %g at [%llu, %llu]",
			    (unsigned long long)scan->n_low, unit->name, scan->low,
			    (unsigned long long)(scan->first_low / unit->cols),
			    (unsigned long long)(scan->first_low % unit->cols));
	if (scan->n_codes_off)
		problem_add(
			problems, PROBLEM_CODE_MISMATCH, unit->name, file,
			"%llu codes of '%s' are not those of the source, the first at [%llu, %llu]",
			(unsigned long long)scan->n_codes_off, unit->name,
			(unsigned long long)(scan->first_code_off / unit->cols),
			(unsigned long long)(scan->first_code_off % unit->cols));
	if (scan->n_scales_off)
		problem_add(problems, PROBLEM_SCALE_MISMATCH,
			    unit->source_scale.scale->tensor->name,
			    verify_file(verify, unit->source_scale.scale),
			    "%llu values of '%s' are not those of the source, the first at %llu",
			    (unsigned long long)scan->n_scales_off,
			    unit->source_scale.scale->tensor->name,
			    (unsigned long long)scan->first_scale_off);
}

/* Weights that engines merge, each with one scale: the largest code is the group's, and so is the
 * scale. */
struct group {
	float most;
	const struct checked *first;
};

static bool has_one_scale(const struct checked *weight)
{
	const struct tile tile = weight->unit.source_scale.tile;

	return weight->scanned && tile.rows == WHOLE && tile.cols == WHOLE && !weight->scan.n_nan;
}

static struct group *gather_groups(const struct verify *verify)
{
	struct group *groups = xcalloc(verify->groups.n, sizeof *groups);

	for (size_t w = 0; w < verify->n_weights; w++) {
		const struct checked *weight = &verify->weights[w];
		struct group *group;

		if (weight->group == SIZE_MAX || !has_one_scale(weight))
			continue;
		group = &groups[weight->group];
		group->most = fmaxf(group->most, weight->scan.most);
		group->first = group->first ? group->first : weight;
	}
	return groups;
}

/* most: the largest code of all that share the scale. */
static void judge_range(struct verify *verify, struct checked *weight, float most)
{
	struct scan *scan = &weight->scan;

	bool has_values =
		scan->most > 0 || weight->amax > 0; /* amax: of its source, where one was given */

	if (has_values && !scan->n_nan && most < verify_low_code(verify, weight_format(weight)) &&
	    scan->largest > verify_floor_scale(verify)) {
		scan->n_low = 1;
		scan->low = scan->most;
	}
}

static void tell_one_scale(struct verify *verify, struct checked *weight, const struct group *group)
{
	const struct scan *scan = &weight->scan;

	judge_range(verify, weight, group ? group->most : scan->most);
	if (group && scan->any_scale != group->first->scan.any_scale)
		problem_add(&verify->result->problems, PROBLEM_GROUP_SCALES_DIFFER,
			    weight->unit.name, verify_file(verify, weight->unit.source),
			    "the scale of '%s' is %.9g, and that of '%s' is %.9g",
			    weight->unit.name, scan->any_scale, group->first->unit.name,
			    group->first->scan.any_scale);
}

void verify_tell(struct verify *verify)
{
	struct group *groups = gather_groups(verify);

	find_usual(verify);
	for (size_t w = 0; w < verify->n_weights; w++) {
		struct checked *weight = &verify->weights[w];

		if (!weight->scanned)
			continue;
		if (weight->unit.source_scale.scale_type == SCALE_E8M0)
			judge_range(verify, weight, weight->scan.most);
		else if (has_one_scale(weight))
			tell_one_scale(verify, weight,
				       weight->group == SIZE_MAX ? NULL : &groups[weight->group]);
		tell_scales(verify, weight);
		tell_codes(verify, weight);
	}
	free(groups);
}
