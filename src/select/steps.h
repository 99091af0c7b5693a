/* SPDX-License-Identifier: Apache-2.0
 *
 * The selection in the making.  Candidates are source tensors; each step either leaves a candidate
 * to be quantized or keeps it, with the reason, for good.  The last step makes units of them.
 */
#ifndef FP8CONV_SELECT_STEPS_H
#define FP8CONV_SELECT_STEPS_H

#include "base/intern.h"
#include "base/pattern.h"
#include "select/select.h"
#include "model/config.h"
#include "model/role.h"

#define NONE SIZE_MAX

struct candidate {
	const struct tensor_ref *source;
	const struct weight_scale *source_scale; /* of an FP8 source; else NULL */
	const struct recipe *recipe;		 /* NULL: kept */
	char *reason;				 /* kept: why */
	struct role_facts facts;
	bool by_shape;	     /* kept because another shape would not be */
	bool linear;	     /* as in struct unit */
	bool ends_fused_set; /* the last of its fused set, or alone */
	int position;	     /* in its fused set */
	/* of the matrix, or of each expert's; set where it is not kept before shapes count */
	uint64_t rows, cols;
	struct experts_layout *layout;	     /* of fused experts that are quantized */
	size_t fused_set, next_in_fused_set; /* weights that engines merge; NONE: with no other */
	/* what is quantized together or not at all: a fused set, or the experts of a layer */
	size_t joint_set, next_in_joint_set;
};

struct select {
	const struct checkpoint *checkpoint;
	const struct select_options *options;
	struct model_config config;
	struct weight_scale *scales; /* of an FP8 source, by tensor of the checkpoint; else NULL */
	size_t n;
	struct candidate *candidates; /* in the order of the checkpoint's tensors */
	struct intern sets;	      /* numbers of fused and joint sets */
	size_t *first_in_fused_set;   /* by number; NONE: it is no fused set */
	size_t *first_in_joint_set;
};

/* Keeps a candidate that is not kept yet.  format is for the reason. */
void candidate_keep(struct candidate *candidate, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Whether it is all experts of a layer. */
bool candidate_is_fused(const struct candidate *candidate);

/* How many units it becomes: of fused experts that are quantized, one per matrix. */
size_t candidate_n_units(const struct candidate *candidate);

/* requantize.c: refuses sources that are quantized already; with --requantize finds the scales of
 * FP8 tensors. scales[i]: of tensor i in the checkpoint's order; is_scale[i]: it is one.  Both are
 * left NULL without FP8. */
int select_fp8(const struct select *select, struct weight_scale **scales, bool **is_scale,
	       struct err *err);

/* rules.c: makes the candidates: what type, patterns and role say of each by itself.  *note:
 * a pattern that matches nothing, to be freed; else as it was. */
int select_gather(struct select *select, char **note, struct err *err);

/* experts.c: finds the layouts of fused experts. */
int select_experts(struct select *select, struct err *err);

/* shape.c: fused and joint sets, and what shapes forbid.  ERR_USAGE where rules part what
 * engines merge. */
int select_shapes(struct select *select, struct err *err);

/* tp.c: the tensor-parallel sizes that load, and whether the one that must does. */
int select_tp(struct select *select, struct selection *selection, struct err *err);

/* units.c: the units, and the advice. */
int select_units(struct select *select, struct selection *selection, struct err *err);

/* settle.c: counts units.  ERR_USAGE if nothing is quantized (hint: what would help, or NULL),
 * or an FP8 tensor kept. */
int selection_check(struct selection *selection, const char *hint, struct err *err);

#endif
