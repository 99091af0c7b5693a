/* SPDX-License-Identifier: Apache-2.0
 *
 * Which matrices of a checkpoint are quantized, with which recipe, and for each that is not, why not.
 */
#ifndef FP8CONV_JOB_SELECT_H
#define FP8CONV_JOB_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "recipe/recipe.h"

/* Where element (r, c) of a unit lies in its source tensor: element first + r * row_stride + c * col_stride. */
struct slice {
	uint64_t first;
	uint64_t row_stride;
	uint64_t col_stride;
};

/* One tensor of the output that holds weights: a source tensor, or one expert's part of a fused 3-D one. */
struct unit {
	char *name;			      /* in the output: "model.layers.0.mlp.experts.3.up_proj.weight" */
	const struct tensor_ref *source;
	const struct tensor_ref *source_scale; /* of an FP8 source (--requantize), else NULL */
	const struct recipe *recipe;	      /* NULL: kept, copied byte for byte under its own name and shape */
	char *reason;			      /* kept: a phrase such as "router gate"; else NULL */
	uint64_t rows, cols;		      /* quantized: [out, in] */
	struct slice slice;		      /* quantized */
	size_t group;			      /* quantized: units with the same number share a per-tensor scale */
	bool linear;			      /* a 2-D weight of a linear module: ignore lists name it when kept */
};

struct select_rule {
	const char *pattern;	     /* PCRE2 on the full tensor name */
	const struct recipe *recipe; /* NULL: skip */
};

struct select_options {
	const struct recipe *recipe;	 /* of whatever no rule names */
	const char *const *include;	 /* patterns; if any, only what matches one of them is quantized */
	size_t n_include;
	const char *const *exclude;	 /* patterns; what matches is kept ("excluded") */
	size_t n_exclude;
	const struct select_rule *rules; /* --tensor; the last that matches wins, and overrides roles (not shapes) */
	size_t n_rules;
	bool ragged;	 /* blockwise also where a dimension is no multiple of the block */
	bool requantize; /* an FP8 source is read through its scales */
	int tp;		 /* 0, or the size that must load: ERR_USAGE naming the tensor if it does not */
};

struct selection {
	size_t n_units;
	struct unit *units; /* by source shard, then source offset, then expert, gate before up */
	size_t n_groups;
	size_t n_linear;	/* linear weights, and of them: */
	size_t n_linear_kept;
	int tp[7];		/* the sizes of 1, 2, 4 .. 64 that load */
	size_t n_tp;
	char *advice; /* one line, where most linear weights had to be kept: the counts, and the recipe or option that takes
		       * them; else NULL */
};

/* checkpoint must outlive the selection. */
int selection_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct select_options *options, struct err *err);

/* Keeps unit i, and whatever must be kept with it (its group, the other experts of its source), for `reason`. */
void selection_keep(struct selection *selection, size_t i, const char *reason);

void selection_release(struct selection *selection);

#endif
