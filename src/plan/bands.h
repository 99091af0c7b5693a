/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts a job into parts that fit a worker's memory and stay in its cache.  A band is a rectangle of
 * one unit, made of whole tiles wherever a tile fits.  An extent is a list of bands whose bytes are
 * contiguous in the output file and are written at once, across tensor borders.
 *
 * Order: band_limits_plan(); bands_cut_shard() for each shard, or bands_add_unit() for units;
 * band_list_release().
 */
#ifndef FP8CONV_PLAN_BANDS_H
#define FP8CONV_PLAN_BANDS_H

#include "plan/plan.h"
#include "source/source.h"

/* Sizes in bytes for one worker. */
struct band_limits {
	/* of a band's matrix: the size that stays in the second-level cache, or that suits the
	 * backend */
	uint64_t target;
	uint64_t max;	 /* of a band's matrix, if a row of tiles is larger than the target */
	uint64_t extent; /* of the output of several bands; one band alone may have `max` */
	uint64_t extent_direct; /* the same if writes bypass the page cache */
};

struct band {
	size_t unit;	  /* in selection.units */
	size_t output;	  /* in output_shard.outputs; unused in the amax pass */
	struct rect rect; /* of a copy: bytes, n_rows 1; of parts and rescaled scales: elements,
			   * n_rows 1 */
};

struct extent {
	size_t first_band;
	size_t n_bands;
	uint64_t begin, end; /* in the output's data; contiguous unless `scattered` */
	uint64_t input_bytes;
	bool scattered; /* one band with part of the columns: its rows are written one by one */
};

struct band_list {
	size_t n_bands;
	struct band *bands;
	size_t n_extents;
	struct extent *extents;
};

/* Returns the bytes that one worker needs at most for any unit of the plan. */
uint64_t band_limits_memory(const struct band_limits *limits);

/* Computes the limits and *bytes, the bytes of all buffers, for these parameters: the plan prints
 * them, pipeline_new() allocates them.  ERR_USAGE if max_memory is too small. */
int band_limits_plan(const struct convert_params *params, struct band_limits *limits,
		     uint64_t *bytes, struct err *err);

/* Is a tile of the unit larger than any band?  Then its amax must be taken before the cast. */
bool unit_needs_amax(const struct unit *unit, const struct qspec *spec,
		     const struct band_limits *limits);

/* Returns the bytes of one element of an output of the shard; 1 for a copy, which has no
 * elements. */
uint64_t output_element_size(const struct output_shard *shard, size_t output);

/* Returns the source bytes for `bytes` of an output, in proportion. */
uint64_t output_source_bytes(const struct output_shard *shard, size_t output, uint64_t bytes);

/* Adds the bands of converted unit u to the list, with `output` in each. */
void bands_add_unit(struct band_list *list, const struct plan *plan, size_t u,
		    const struct band_limits *limits, size_t output);

/* Outputs of a shard: n indices in its outputs; list NULL: all. */
struct output_set {
	const size_t *list;
	size_t n;
};

/* Lists all bands and extents of outputs of a shard, in the order of the output file.  direct:
 * writes bypass the page cache. */
void bands_cut_shard(struct band_list *list, const struct plan *plan, size_t shard,
		     const struct output_set *set, const struct band_limits *limits, bool direct);

void band_list_release(struct band_list *list);

#endif
