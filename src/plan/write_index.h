/* SPDX-License-Identifier: Apache-2.0
 *
 * model.safetensors.index.json as Hugging Face writes it: the sum of tensor bytes, and names in
 * order.  The text is made piece by piece, because it may be larger than the rest of a plan.
 */
#ifndef FP8CONV_PLAN_WRITE_INDEX_H
#define FP8CONV_PLAN_WRITE_INDEX_H

#include "ckpt/outdir.h"
#include "plan/plan.h"

/* Checks that all names differ (else ERR_INPUT), and computes the index's size. */
int plan_index(struct plan *plan, struct err *err);

/* Adds the index of n shards to the text. */
void output_index_text(const struct output_shard *shards, size_t n, struct buf *text);

/* Writes the index of n shards to dir. */
int output_index_put(const struct output_shard *shards, size_t n, const struct outdir *dir,
		     struct err *err);

#endif
