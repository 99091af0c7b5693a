/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe decides numbers: FP8 formats, tiles and rounding of each tensor role, and the way from
 * an amax history to scales.  It is constant data: a row of rows.c, listed by the build.  It
 * never names a tensor.
 */
#ifndef FP8CONV_RECIPE_RECIPE_H
#define FP8CONV_RECIPE_RECIPE_H

#include <stdbool.h>

#include "base/err.h"
#include "num/history.h"
#include "num/qspec.h"

/* The three specs are TransformerEngine's QParams of a role (power_2_scale, amax_epsilon) with its
 * tile, margin and format: E4M3 forward and E5M2 backward is HYBRID. */
struct recipe {
	const char *name;
	const char *summary; /* one line for `recipes` */
	const char *origin;  /* TransformerEngine's class, or who uses it */
	struct qspec input;  /* x and the output y, in the forward pass */
	struct qspec weight;
	struct qspec grad;    /* grad_output and grad_input, in the backward pass */
	bool needs_history;   /* scales come from an amax history (delayed scaling), by these: */
	int amax_history_len; /* steps, with the current one */
	enum amax_algo amax_algo; /* which amax of the history counts */
	bool reduce_amax;	  /* whether the ranks of a group take their maximum */
};

/* Every recipe, in the order of their names; NULL at the end (generated from the file names). */
extern const struct recipe *const recipes[];

/* Returns the recipe of that name, or NULL with ERR_USAGE and the nearest name in the message. */
const struct recipe *recipe_find(const char *name, struct err *err);

/* Returns the first recipe that makes weights of the granularity and inputs with or without static
 * scales; NULL where no recipe does.  Static inputs exist for GRANULARITY_TENSOR only. */
const struct recipe *recipe_of_scheme(enum granularity granularity, bool static_input);

/* Changes of a recipe's weight spec by options, as text.  NULL keeps the value of the row. */
struct recipe_tuning {
	const char *fp8_format;	  /* "e4m3", "e5m2" or NULL */
	const char *scale_fmt;	  /* "ue8m0", "float" or NULL */
	const char *scale_arith;  /* "te", "deepseek", "deepgemm" or NULL */
	const char *mx_scale;	  /* "up", "floor", "even" or NULL */
	const char *amax_epsilon; /* a finite number >= 0, or NULL */
	const char *margin;	  /* an integer, or NULL */
};

/* Sets *spec to the recipe's weight spec with the tuning applied.  ERR_USAGE, with the option and
 * the value or the recipe, for an invalid value and for an option that does not apply to the recipe
 * (--mx-scale without an MX recipe, --scale-arith with power-of-two scales, ...). */
int recipe_weight_spec(const struct recipe *recipe, const struct recipe_tuning *tuning,
		       struct qspec *spec, struct err *err);

#endif
