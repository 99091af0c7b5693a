/* SPDX-License-Identifier: Apache-2.0
 *
 * Which matrices of a checkpoint are quantized, with which recipe, and for each that is not, why
 * not.
 */
#ifndef FP8CONV_SELECT_SELECT_H
#define FP8CONV_SELECT_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "recipe/recipe.h"
#include "source/unit.h"

struct role_facts;

/* Modules that ignore lists name when they are kept; kept experts in one tensor are one, whatever
 * their layout.  facts: of the tensor's name. */
bool tensor_is_linear(const struct st_tensor *tensor, const struct role_facts *facts);

struct select_rule {
	const char *pattern;	     /* PCRE2 on the full tensor name in the source */
	const struct recipe *recipe; /* NULL: skip */
};

struct select_options {
	const struct recipe *recipe; /* of whatever no rule names */
	const char *const
		*include; /* patterns; if any, only what matches one of them is quantized */
	size_t n_include;
	const char *const *exclude; /* patterns; what matches is kept ("excluded") */
	size_t n_exclude;
	/* --tensor; the last that matches wins, and overrides lists and roles (not shapes) */
	const struct select_rule *rules;
	size_t n_rules;
	bool ragged;	 /* blockwise also where a dimension is no multiple of the block */
	bool requantize; /* an FP8 source is read through its scales */
	int tp; /* 0, or the size that must load: ERR_USAGE naming the tensor if it does not */
};

struct selection {
	size_t n_units;
	struct unit *units; /* by source shard, then source offset, then expert, gate before up */
	struct arena names; /* of matrices of fused experts */
	size_t n_quantized;
	size_t n_scale_groups;
	size_t n_linear; /* linear weights, and of them: */
	size_t n_linear_kept;
	int tp[7]; /* the sizes of 1, 2, 4 .. 64 that load */
	size_t n_tp;
	/* one line, where most linear weights had to be kept: the counts, and the recipe or option
	 * that takes them; else NULL */
	char *advice;
	char *unmatched; /* one line, where patterns match no tensor; else NULL */
	/* one line, where engines' kernels will not take what is quantized; else  NULL */
	char *caution;
};

/* checkpoint must outlive the selection.  ERR_USAGE where nothing can be quantized, and where
 * options ask for what cannot be done: recipes that part what engines merge, FP8 sources without
 * requantize, a tp that does not load.  ERR_INPUT for experts whose layout the shapes leave open.
 */
int selection_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct select_options *options, struct err *err);

/* Keeps unit i for `reason`, and what must be kept with it: the weights that engines merge it with,
 * all experts of its layer. Indices stay.  selection_settle() must follow before the units are
 * used. */
void selection_keep(struct selection *selection, size_t i, const char *reason);

/* Makes one unit again of fused experts that are kept, and counts anew: INDICES CHANGE where there
 * were any.  ERR_USAGE where nothing is left to quantize, or an FP8 tensor would be kept. */
int selection_settle(struct selection *selection, struct err *err);

void selection_release(struct selection *selection);

#endif
