/* SPDX-License-Identifier: Apache-2.0
 *
 * The sequences of one of several ranks: sequence i goes to rank i mod n_ranks, which depends on
 * nothing but numbers.  All ranks walk the same passes, each with its sequences of them, so a rank
 * may have none in a pass.  A unit is the fewest sequences of a rank that end with a pass.
 */
#ifndef FP8CONV_CALIBRATE_SHARE_H
#define FP8CONV_CALIBRATE_SHARE_H

#include "amax/amax.h"
#include "dataset/dataset.h"

struct rank {
	size_t index, n; /* index from 0 */
};

/* One process is rank 0 of 1.  `sequence`: its number in the data; i: in the share. */
struct share {
	struct rank rank;
	size_t batch;	    /* sequences of a pass, at most all */
	size_t n_sequences; /* of all ranks */
	struct dataset own; /* of this rank; the token ids belong to the whole data */
};

/* Takes the share of a rank.  ERR_USAGE if a rank would have no sequence. */
int share_open(struct share *share, const struct dataset *data, size_t batch, struct rank rank,
	       struct err *err);
void share_release(struct share *share);

size_t share_n_passes(const struct share *share); /* of all ranks */
size_t share_unit(const struct share *share);

/* The number in the data, and the pass, of sequence i of the share. */
size_t share_sequence(const struct share *share, size_t i);
size_t share_pass(const struct share *share, size_t i);

/* The passes that end with the first i sequences of the share: whole units, or all. */
size_t share_passes_done(const struct share *share, size_t i);
/* The sequences of the share in the first n_passes passes. */
size_t share_sequences_of(const struct share *share, uint64_t n_passes);

/* Sets the place that the history of this share has among all ranks' histories, with a fingerprint
 * of what these must agree on: their number, the batch, history_len, and all sequences of the data
 * in their order.  Of one process the place is zeroed. */
void share_place(const struct share *share, const struct dataset *data, uint64_t history_len,
		 struct amax_rank *place);

#endif
