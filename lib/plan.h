/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan behind fp8conv.h.
 */
#ifndef FP8CONV_LIB_PLAN_H
#define FP8CONV_LIB_PLAN_H

#include "lib/context.h"
#include "lib/plan_files.h"
#include "plan/plan.h"

/* The units and outputs of a tensor of the model: runs in lists by tensor. */
struct tensor_entry {
	size_t first_unit, n_units;
	size_t first_output, n_outputs;
	size_t n_needed;
	size_t *needed; /* NULL: not asked for yet */
};

struct fp8conv_plan {
	struct fp8conv_context *context;
	struct plan_files files;
	struct convert_params params;
	struct progress progress;
	struct plan plan;
	struct pipeline *pipeline; /* NULL before the first call that converts */
	struct command_words words;
	size_t n; /* tensors of the model */
	const char **names;
	size_t *model_of; /* by tensor of plan.source.tensors: of the model */
	struct tensor_entry *entries;
	size_t *units;		    /* by tensor of the model */
	size_t *outputs;	    /* by tensor of the model, codes before their scale */
	size_t *seen;		    /* by tensor: 1 + the last one that was found to need it */
	struct fp8conv_item *items; /* of outputs, in this order */
	struct buf notes;
	float **amax; /* by scale group, within a call on a device; NULL before the first one */
};

/* Returns the entry of tensor i of the model, with what it needs. */
const struct tensor_entry *plan_needs(struct fp8conv_plan *plan, size_t i);

/* Returns the tensor of the model that a tensor of the source is. */
size_t plan_tensor(const struct fp8conv_plan *plan, const struct tensor_ref *ref);

/* Sets the memory of all tensors of a list, of which *n_read are to be forgotten, also after a
 * failure.  Fails where a tensor is not there that an entry needs. */
int plan_list_read(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		   size_t *n_read, struct err *err);
void plan_forget(struct fp8conv_plan *plan, const struct fp8conv_conversion *conversion);

/* fp8conv_plan_apply() of tensors of the CPU, and of a device. */
int plan_apply_here(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		    struct err *err);
int plan_apply_there(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		     struct err *err);

#endif
