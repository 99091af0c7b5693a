/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting a job into pieces that fit a worker's memory and stay in its cache: a band is a rectangle
 * of one unit made of whole tiles wherever a tile fits; a extent is a row of bands whose codes lie
 * together in the output file and are written at once, across tensor borders.
 */
#ifndef FP8CONV_CONVERT_BANDS_H
#define FP8CONV_CONVERT_BANDS_H

#include "convert/convert.h"
#include "source/source.h"

/* Sizes in bytes of what one worker holds. */
struct band_limits {
	/* of a band's matrix: what stays in the second-level cache, or the backend likes */
	uint64_t target;
	uint64_t max;	 /* of a band's matrix: where a row of tiles is larger than the target */
	uint64_t extent; /* of the output of an extent of several bands; one band may have `max` */
	uint64_t extent_direct; /* the same where writes go past the page cache */
};

struct band {
	size_t unit;	  /* in selection.units */
	size_t output;	  /* in its shard's; of no meaning where amax is taken */
	struct rect rect; /* a copy: bytes, n_rows 1; recoded: elements, n_rows 1 */
};

struct extent {
	size_t first_band;
	size_t n_bands;
	uint64_t begin,
		end; /* in the output's data; end - begin bytes lie together unless `scattered` */
	uint64_t input_bytes;
	bool scattered; /* one band of part of the columns: its rows are written one by one */
};

struct band_list {
	size_t n_bands;
	struct band *bands;
	size_t n_extents;
	struct extent *extents;
};

/* What fits `memory` bytes a worker, for a backend that works best on `band` bytes (0: a CPU).
 * ERR_USAGE if that is too little. */
int band_limits_fit(struct band_limits *limits, uint64_t memory, uint64_t band, struct err *err);

/* Bytes one worker needs at max for any unit of the plan. */
uint64_t band_limits_memory(const struct band_limits *limits);

/* Whether a tile of the unit is larger than any band: its amax must be taken before. */
bool unit_needs_amax(const struct unit *unit, const struct qspec *spec,
		     const struct band_limits *limits);

/* Bytes of one element of an output of the shard; 1 for a copy, whose elements do not matter. */
uint64_t output_element_size(const struct output_shard *shard, size_t output);

/* The bands of converted unit u, added to the list; `output` is put in each. */
void bands_add_unit(struct band_list *list, const struct plan *plan, size_t u,
		    const struct band_limits *limits, size_t output);

/* All bands and extents of an output shard, in the order of the output file.  direct: writes go
 * past the page cache. */
void bands_cut_shard(struct band_list *list, const struct plan *plan, size_t shard,
		     const struct band_limits *limits, bool direct);

void band_list_release(struct band_list *list);

#endif
