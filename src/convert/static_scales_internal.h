/* SPDX-License-Identifier: Apache-2.0
 *
 * What calibration.c and calibration_scales.c share.
 */
#ifndef FP8CONV_CONVERT_STATIC_SCALES_INTERNAL_H
#define FP8CONV_CONVERT_STATIC_SCALES_INTERNAL_H

#include "convert/static_scales.h"

/* "X" of "X.weight"; to be freed. */
char *module_of_weight(const char *weight);

/* The site of a unit's module.  ERR_INPUT naming it if there is none, or one without passes. */
int static_scales_site(const struct static_scales *scales, const struct unit *unit,
		       const struct amax_site **site, struct err *err);

/* The amax of one column that stands for all passes.  ERR_INPUT: it is infinite. */
int static_scales_amax(const struct static_scales *scales, const struct amax_site *site, int column,
		       const struct qspec *spec, float *amax, struct err *err);

/* static_scales_kv.c: plan.caches, by unit. */
int static_scales_kv(const struct static_scales *scales, struct plan *plan, struct err *err);

/* Whether enough tokens reached it. */
bool static_scales_covers(const struct static_scales *scales, const struct amax_site *site);

#endif
