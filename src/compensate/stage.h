/* SPDX-License-Identifier: Apache-2.0
 *
 * From Hessians to codes: with each rho, the factor of every group of a turn, then the codes of its
 * matrices, band by band.
 */
#ifndef FP8CONV_COMPENSATE_STAGE_H
#define FP8CONV_COMPENSATE_STAGE_H

#include "compensate/steps.h"

/* Rounds the matrices of every n_ranks-th group of a turn with every rho, and writes their
 * codes. */
int turn_round(struct compensation *job, const struct turn *turn, struct writer *writer,
	       struct store_counts *counts, struct err *err);

#endif
