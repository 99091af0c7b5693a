/* SPDX-License-Identifier: Apache-2.0
 *
 * What `quantize --calibration` knows: from the history of a calibration to static scales.
 */
#ifndef FP8CONV_CONVERT_STATIC_SCALES_H
#define FP8CONV_CONVERT_STATIC_SCALES_H

#include "amax/amax.h"
#include "convert/plan.h"
#include "recipe/static_amax.h"

/* What becomes of a module that fewer than min_tokens tokens reached; the order is that of
 * UNCOVERED_WORDS. */
enum uncovered {
	UNCOVERED_ERROR,
	UNCOVERED_GROUP_MAX, /* the maximum of the experts of its layer that were reached */
	UNCOVERED_DYNAMIC,   /* no static scale, for all that engines run with it */
	UNCOVERED_SKIP,	     /* kept in high precision, with the same */
};

#define UNCOVERED_WORDS "error|group-max|dynamic|skip"

struct static_scales_params {
	const char *path;      /* NULL: there is none */
	const char *amax_algo; /* of STATIC_ALGOS; NULL: max */
	int uncovered;	       /* enum uncovered */
	bool uncovered_given;
	uint64_t min_tokens; /* 0: not given, 1 */
	bool kv_cache;
};

struct static_scales {
	const struct static_scales_params *params;
	struct static_choice choice;
	struct amax_stats stats;
};

/* Reads the history.  ERR_USAGE for options that have no use without one, or without histograms. */
int static_scales_open(struct static_scales *scales, const struct io *io,
		       const struct static_scales_params *params, struct err *err);
void static_scales_release(struct static_scales *scales);

/* Whether a unit of this recipe gets a static input scale. */
bool static_scales_is_static(const struct static_scales *scales, const struct recipe *recipe);

/* Decides for each unit of plan.selection whether its input scale is static (unit.static_input),
 * keeps what is to be skipped, and says in *note (unless NULL; to be freed; else left alone) how
 * many were not covered.  ERR_INPUT: a history of another model, one that lacks a module, a module
 * that was not covered.  True in *kept: units were kept, and selection_settle() must follow. */
int static_scales_cover(const struct static_scales *scales, struct plan *plan, bool *kept,
			char **note, struct err *err);

/* Fills plan.group_amax (weights of recipes that take it from the history), plan.input_scale_inv
 * and plan.caches, for units, groups and specs as they are now.  ERR_INPUT: an infinite amax; an
 * attention that is in the history or in the model only. */
int static_scales_apply(const struct static_scales *scales, struct plan *plan, struct err *err);

#endif
