/* SPDX-License-Identifier: Apache-2.0
 *
 * Compensated rounding in a conversion: the codes before the first shard, and what the manifest
 * records of them.
 */
#ifndef FP8CONV_EXECUTE_COMPENSATED_H
#define FP8CONV_EXECUTE_COMPENSATED_H

#include "execute/execution.h"
#include "plan/quantize.h"

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
