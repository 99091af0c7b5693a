/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups of matrices: matrices of a layer that share an input, all experts of a layer or each
 * of them, the head.
 */
#ifndef FP8CONV_SENSITIVITY_GROUPS_H
#define FP8CONV_SENSITIVITY_GROUPS_H

#include "sensitivity/sensitivity.h"

/* Fills plan->table and plan->members from plan->plans and plan->model.  ERR_USAGE if no
 * group can be measured. */
int groups_make(struct sensitivity_plan *plan, bool by_expert, struct err *err);

#endif
