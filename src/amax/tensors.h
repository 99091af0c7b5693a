/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors and metadata of fp8conv-amax(5), as rows, for reading and writing.
 */
#ifndef FP8CONV_AMAX_TENSORS_H
#define FP8CONV_AMAX_TENSORS_H

#include "amax/amax.h"
#include "num/dtype.h"

#define AMAX_VERSION	 "1"
#define AMAX_VERSION_KEY "fp8conv_amax"

/* What a site's tensors are. */
enum amax_part {
	AMAX_PART_HISTORY,
	AMAX_PART_QKV,
	AMAX_PART_TOKENS,
	AMAX_PART_HISTOGRAM,
	N_AMAX_PARTS
};

struct amax_tensor {
	const char *suffix; /* behind the site's name */
	enum dtype dtype;
	int n_dims;
	uint64_t shape[2]; /* the first is 0 where it is the passes kept */
	const char *text;  /* for messages */
};

extern const struct amax_tensor amax_tensors[N_AMAX_PARTS];

/* The site's bytes of a part; NULL: it has no such tensor, or no memory for it yet. */
void *amax_site_part(const struct amax_site *site, enum amax_part part);

/* The numbers of the metadata. */
struct amax_count {
	const char *key;
	size_t offset; /* of a uint64_t in struct amax_stats */
	uint64_t min, max;
};

/* Its texts. */
struct amax_text {
	const char *key;
	size_t offset; /* of a char * in struct amax_stats */
};

extern const struct amax_count amax_counts[]; /* key NULL at the end */
extern const struct amax_text amax_texts[];

#endif
