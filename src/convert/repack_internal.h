/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of repack_plan_make().
 */
#ifndef FP8CONV_CONVERT_REPACK_INTERNAL_H
#define FP8CONV_CONVERT_REPACK_INTERNAL_H

#include "convert/plan.h"
#include "convert/repack.h"

/* repack_check.c: looks at the scales of all blocks: those that become exponents must be powers of
 * two (ERR_USAGE), and spec.pow2 of the others says whether they all are. */
int repack_check_blocks(struct plan *plan, const struct io *io, struct err *err);

/* repack_outputs.c: outputs, shards, layouts and totals of units that have recipe and spec. */
int repack_outputs(struct plan *plan, const struct detection *detection, struct err *err);

#endif
