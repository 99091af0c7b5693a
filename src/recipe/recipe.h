/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe decides numbers: formats, tiles and rounding for each tensor role, and how scales come
 * from amax history. It is constant data: one file recipe_<name>.c with one row, listed by the
 * build.  It never names a tensor.
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
	struct qspec grad;	  /* grad_output and grad_input, in the backward pass */
	bool needs_history;	  /* scales are those of the amax history (delayed scaling) */
	int amax_history_len;	  /* where needs_history: steps, the one being filled included */
	enum amax_algo amax_algo; /* where needs_history */
	bool reduce_amax;	  /* where needs_history: over the ranks of a group */
};

/* Every recipe, in the order of their names; NULL at the end (generated from the file names). */
extern const struct recipe *const recipes[];

/* NULL with ERR_USAGE (and the nearest name in the message) if there is none. */
const struct recipe *recipe_find(const char *name, struct err *err);

/* The recipe that makes weights of a granularity, and inputs with static scales or without: the
 * first row that does.  Only whole tensors have a recipe with static inputs. */
const struct recipe *recipe_of_scheme(enum granularity granularity, bool static_input);

/* What the command line may change in a recipe's weight spec; each default leaves the row as it is.
 */
struct recipe_tuning {
	const char *fp8_format;	  /* "e4m3", "e5m2" or NULL */
	const char *scale_fmt;	  /* "ue8m0", "float" or NULL */
	const char *scale_arith;  /* "te", "deepseek", "deepgemm" or NULL */
	const char *mx_scale;	  /* "up", "floor", "even" or NULL */
	const char *amax_epsilon; /* a finite number >= 0, or NULL */
	const char *margin;	  /* an integer, or NULL */
};

/* The recipe's weight spec with the tuning applied.  An option that does not apply to the recipe
 * (--mx-scale without an MX recipe, --scale-arith with power-of-two scales, ...) or a bad value is
 * ERR_USAGE naming both. */
int recipe_weight_spec(const struct recipe *recipe, const struct recipe_tuning *tuning,
		       struct qspec *spec, struct err *err);

#endif
