/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rows of which units each matrix of the forward pass multiplies.
 */
#ifndef FP8CONV_COMPENSATE_JOBS_H
#define FP8CONV_COMPENSATE_JOBS_H

#include "compensate/compensate.h"

/* Fills plan->stages, n_codes, places, n_units and n_outside. */
void compensate_find_jobs(struct compensate_plan *plan);

#endif
