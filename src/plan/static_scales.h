/* SPDX-License-Identifier: Apache-2.0
 *
 * `quantize --calibration`: from an amax file to static scales.
 *
 * Order: static_scales_open(); static_scales_cover() after the selection, before specs;
 * static_scales_apply() after specs; static_scales_release(), also after a failure.
 */
#ifndef FP8CONV_PLAN_STATIC_SCALES_H
#define FP8CONV_PLAN_STATIC_SCALES_H

#include "amax/amax.h"
#include "plan/plan.h"
#include "recipe/static_amax.h"

/* The treatment of a module that fewer than min_tokens tokens reached, in the order of
 * UNCOVERED_WORDS. */
enum uncovered {
	UNCOVERED_ERROR,
	UNCOVERED_GROUP_MAX, /* the maximum over the covered experts of its layer */
	UNCOVERED_DYNAMIC, /* no static scale, for it and all modules that engines merge with it */
	UNCOVERED_SKIP,	   /* kept in high precision, with the same modules */
};

#define UNCOVERED_WORDS "error|group-max|dynamic|skip"

struct static_scales_params {
	const char *path;      /* amax file or checkpoint; NULL: no calibration */
	const char *amax_algo; /* of STATIC_ALGOS; NULL: max */
	int uncovered;	       /* enum uncovered */
	bool uncovered_given;
	uint64_t min_tokens; /* 0: not given, means 1 */
	bool kv_cache;
};

struct static_scales {
	const struct static_scales_params *params;
	struct static_choice choice;
	struct amax_stats stats;
};

/* Reads the amax file, or the states of TransformerEngine's modules in a checkpoint: a directory or
 * a file of torch.save(), of which `convert` says the new names.  ERR_USAGE for options that have
 * no effect without one, or need histograms that it lacks; ERR_INPUT for a checkpoint without
 * states that have a history. */
int static_scales_open(struct static_scales *scales, const struct convert_params *convert,
		       const struct static_scales_params *params, struct err *err);
void static_scales_release(struct static_scales *scales);

/* Does a unit of this recipe get a static input scale? */
bool static_scales_is_static(const struct static_scales *scales, const struct recipe *recipe);

/* Joins the histories of the experts of each tensor that stays whole, under the name of its module:
 * the passes' maxima, the sums of their tokens and histograms.  Before static_scales_cover().
 * ERR_INPUT where a sum is too large. */
int static_scales_join(struct static_scales *scales, const struct selection *selection,
		       struct err *err);

/* Decides for each unit of plan.selection whether its input scale is static (unit.static_input),
 * and keeps units that are to be skipped.  Adds a note of the number
 * of uncovered modules.  *kept: units were kept, and selection_settle() must follow.  ERR_INPUT for
 * an amax file of another model, or without one of the modules, and for an uncovered module with
 * UNCOVERED_ERROR. */
int static_scales_cover(const struct static_scales *scales, struct plan *plan, bool *kept,
			struct err *err);

/* Fills the amax of plan.groups (for recipes that take that of weights from the amax file),
 * plan.units[].input_scale_inv and plan.caches, for the current units, groups and specs.  ERR_INPUT
 * for an infinite amax, and for an attention that only the amax file or only the model has. */
int static_scales_apply(const struct static_scales *scales, struct plan *plan, struct err *err);

/* What the files static_scales*.c share. */

/* Finds the site of a unit's module.  ERR_INPUT naming the module if there is none, or none with
 * passes. */
int static_scales_site(const struct static_scales *scales, const struct unit *unit,
		       const struct amax_site **site, struct err *err);

/* Did enough tokens reach the module? */
bool static_scales_covers(const struct static_scales *scales, const struct amax_site *site);

/* Computes the amax of one column over all passes.  ERR_INPUT if it is infinite. */
int static_scales_amax(const struct static_scales *scales, const struct amax_site *site, int column,
		       const struct qspec *spec, float *amax, struct err *err);

/* Fills plan.caches. */
int static_scales_kv(const struct static_scales *scales, struct plan *plan, struct err *err);

#endif
