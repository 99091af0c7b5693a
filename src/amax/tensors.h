/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors and metadata of fp8conv-amax(5), as rows for reading and writing.
 */
#ifndef FP8CONV_AMAX_TENSORS_H
#define FP8CONV_AMAX_TENSORS_H

#include "amax/amax.h"
#include "num/dtype.h"

#define AMAX_VERSION	 "1"
#define AMAX_VERSION_KEY "fp8conv_amax"
/* of one rank among several: "I/N", and the fingerprint of their common calibration */
#define AMAX_RANK_KEY "rank"
#define AMAX_JOB_KEY  "ranks"

/* The parts of a site, one tensor each. */
enum amax_part {
	AMAX_PART_HISTORY,
	AMAX_PART_QKV,
	AMAX_PART_TOKENS,
	AMAX_PART_HISTOGRAM,
	N_AMAX_PARTS
};

struct amax_tensor {
	const char *suffix; /* appended to the site's name */
	enum dtype dtype;
	int n_dims;
	uint64_t shape[2]; /* the first is 0 where it is the number of passes */
	const char *text;  /* for messages */
};

extern const struct amax_tensor amax_tensors[N_AMAX_PARTS];

/* Returns the site's data of a part; NULL if it has no such tensor, or no memory for it yet. */
void *amax_site_part(const struct amax_site *site, enum amax_part part);

/* A number of the metadata. */
struct amax_count {
	const char *key;
	size_t offset; /* of a uint64_t in struct amax_stats */
	uint64_t min, max;
};

/* A text of the metadata. */
struct amax_text {
	const char *key;
	size_t offset; /* of a char * in struct amax_stats */
};

/* n_planned, which only the history of an interrupted calibration has. */
extern const struct amax_count amax_planned;

extern const struct amax_count amax_counts[]; /* key NULL at the end */
extern const struct amax_text amax_texts[];

#endif
