/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges several histories into one.
 */
#ifndef FP8CONV_AMAX_MERGE_H
#define FP8CONV_AMAX_MERGE_H

#include "amax/amax.h"

enum amax_merge {
	AMAX_APPEND, /* the passes of one behind the other's */
	/* the same passes, of data-parallel ranks: the maximum of each, the sum of its tokens */
	AMAX_RANKS,
};

/* Merges from into stats.  Counts, histograms and fingerprints of the data are added; backends are
 * united; history lengths and sequence lengths become the larger one.  AMAX_RANKS gives the same
 * bytes in any order, AMAX_APPEND in any grouping.  ERR_INPUT, with from's path, where model,
 * precision, sites, the presence of histograms or (AMAX_RANKS) passes differ, or where a sum has
 * more than 63 bits (64 in a histogram).  On failure the caller releases stats. */
int amax_stats_merge(struct amax_stats *stats, const struct amax_stats *from, enum amax_merge how,
		     const char *path, struct err *err);

/* Adds a site of the same passes to one that has them, or is new: the maximum of each, the sum of
 * its tokens, the sum of histograms.  path is the file of both, for messages. */
int amax_site_join(struct amax_site *site, const struct amax_site *from, const char *path,
		   struct err *err);

struct amax_merge_params {
	const struct io *io;
	const char **inputs; /* paths, at least two */
	size_t n_inputs;
	const char *output;
	enum amax_merge how;
};

/* What a merge wrote. */
struct amax_merged {
	uint64_t n_passes, n_tokens; /* of all inputs */
	size_t repeated[2]; /* two inputs of the same data, which counts twice; 0, 0: none */
};

/* Reads the inputs one after the other, with at most two in memory, and writes the output, whole or
 * not at all.  ERR_USAGE where the output is one of the inputs, ERR_INPUT where the inputs do not
 * belong together: histories of ranks of one calibration must be all of them, each once, with all
 * passes. */
int amax_merge_files(const struct amax_merge_params *params, struct amax_merged *merged,
		     struct err *err);

#endif
