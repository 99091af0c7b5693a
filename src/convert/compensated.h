/* SPDX-License-Identifier: Apache-2.0
 *
 * Compensated rounding in a conversion: what the plan asks for, the codes before the first shard,
 * and what the manifest records.
 */
#ifndef FP8CONV_CONVERT_COMPENSATED_H
#define FP8CONV_CONVERT_COMPENSATED_H

#include "convert/execution.h"
#include "convert/quantize.h"

/* Plans compensated rounding where params ask for it; releases that plan; returns
 * what decides its codes, for the manifest. */
int compensated_plan(struct plan *plan, const struct quantize_params *params, struct err *err);
void compensated_release(struct plan *plan);
json_t *compensated_identity(const struct plan *plan);

/* Computes the codes, or finds the codes of an earlier run, before the first shard;
 * needed: there are shards to write.  Of several ranks, the leading one says whether they are
 * needed, and has the store. */
int compensated_run(struct execution *execution, bool needed, struct err *err);

/* ERR_USAGE on all ranks unless their plans are the same. */
int compensated_agree(const struct plan *plan, const struct group *group, struct err *err);

/* Records which codes, copied from the source, were compensated there.  The caller holds the guard
 * of the manifest. */
int compensated_inherit(const struct execution *execution, struct err *err);

#endif
