/* SPDX-License-Identifier: Apache-2.0
 *
 * Making a plan: plan_open(), the units, plan_begin(), plan_add() for each output by unit,
 * plan_layout(), the configuration, plan_finish().
 */
#ifndef FP8CONV_CONVERT_PLAN_H
#define FP8CONV_CONVERT_PLAN_H

#include "convert/convert.h"

/* Opens the source.  ERR_USAGE where it and the output do not go together. */
int plan_open(struct plan *plan, const struct convert_params *params, struct progress *progress,
	      struct err *err);

/* Every unit gets the plan's spec, whatever it had. */
void plan_specs_begin(struct plan *plan);

/* Unit u gets a spec of its own; units that follow each other share what is equal. */
void plan_spec_set(struct plan *plan, size_t u, const struct qspec *spec);

/* Room for the outputs of plan.selection.  preserve: for those of plan.preserved too. */
void plan_begin(struct plan *plan, bool preserve);

/* From here on plan_add() is about unit u. */
void plan_unit_begin(struct plan *plan, size_t u);

/* One more output of unit u, in the shard of the unit's source.  source: what it is made of, where
 * that is not the unit's; else NULL.  name must outlive the plan, the shape is copied.  Returns the
 * output, until the next is added. */
struct output *plan_add(struct plan *plan, size_t u, enum output_kind kind,
			const struct tensor_ref *source, char *name, enum dtype dtype, int n_dims,
			const uint64_t *shape);

/* A unit that stays as it is: its one output. */
void plan_keep(struct plan *plan, size_t u);

/* One more tensor of a shard, its name and shape to outlive the plan. */
void output_shard_add(struct output_shard *shard, const struct st_tensor *tensor);

/* Places, headers, indexes and byte counts.  ERR_INPUT: two outputs of one name. */
int plan_layout(struct plan *plan, struct err *err);

/* plan_index.c: whether all names differ, and the index's size.  ERR_INPUT: two outputs of one
 * name. */
int plan_index(struct plan *plan, struct err *err);

/* plan_config.c: config.json and hf_quant_config.json, for units that have recipe and spec, or are
 * kept.  ERR_USAGE where the format cannot have it. */
int plan_configuration(struct plan *plan, struct err *err);

/* What is known when config and hf_quant_config are there: the disk space, the progress to make. */
int plan_finish(struct plan *plan, struct progress *progress, struct err *err);

#endif
