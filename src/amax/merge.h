/* SPDX-License-Identifier: Apache-2.0
 *
 * Several histories into one.
 */
#ifndef FP8CONV_AMAX_MERGE_H
#define FP8CONV_AMAX_MERGE_H

#include "amax/amax.h"

enum amax_merge {
	AMAX_APPEND, /* the passes of one behind those of the other */
	/* the same passes, seen by data-parallel ranks: the maximum of each, the sum of its
	 * tokens */
	AMAX_RANKS,
};

/* Merges from into stats.  Counts, histograms and the fingerprints of the data add up; backends are
 * united; of history lengths and of sequence lengths the longer counts.  AMAX_RANKS gives the same
 * bytes in any order, AMAX_APPEND in any grouping.  ERR_INPUT, naming from by its path, where
 * model, precision, sites, whether there are histograms or (AMAX_RANKS) passes differ, or where a
 * sum has more than 63 bits (64 in a histogram); then stats is to be released. */
int amax_stats_merge(struct amax_stats *stats, const struct amax_stats *from, enum amax_merge how,
		     const char *path, struct err *err);

struct amax_merge_params {
	const struct io *io;
	const char **inputs; /* paths, at least two */
	size_t n_inputs;
	const char *output;
	enum amax_merge how;
};

/* Reads the inputs one after the other, holding two at most, and writes the output, whole or not at
 * all.  ERR_USAGE where the output is one of the inputs, ERR_INPUT where they do not belong
 * together. */
int amax_merge_files(const struct amax_merge_params *params, struct err *err);

#endif
