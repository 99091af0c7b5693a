/* SPDX-License-Identifier: Apache-2.0
 *
 * The candidates: models whose weights have the codes of one rho, or the nearest.  They go through
 * the layers beside the source, over the sequences that no Hessian has seen; the one that diverges
 * least from it wins.  Inputs stay in high precision: their rounding is the same for all.
 */
#ifndef FP8CONV_COMPENSATE_CANDIDATES_H
#define FP8CONV_COMPENSATE_CANDIDATES_H

#include "compensate/steps.h"

/* Allocates the candidates. */
int candidates_open(struct compensation *job, struct err *err);

/* Gives them the embeddings of their sequences. */
int candidates_begin(struct compensation *job, struct err *err);

/* Takes them through the current stage, whose codes are in the store. */
int candidates_stage(struct compensation *job, struct err *err);

/* Chooses by the divergences of the head. */
void candidates_choose(const struct compensation *job, struct store_outcome *outcome);
void candidates_release(struct compensation *job);

#endif
