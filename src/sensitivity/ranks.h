/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a group must have in common: the measurement, and what was measured before.
 */
#ifndef FP8CONV_SENSITIVITY_RANKS_H
#define FP8CONV_SENSITIVITY_RANKS_H

#include "sensitivity/sensitivity.h"

/* Fails with ERR_USAGE where the ranks of a group do not measure the same, and lets as
 * many groups into a round as each of them has memory for. */
int ranks_agree(struct sensitivity_plan *plan, const struct group *group, struct err *err);
/* Gives all ranks the divergences of the leading one, and whether its output is finished. */
int ranks_take(struct sensitivity_plan *plan, const struct group *group, bool *finished,
	       struct err *err);

#endif
