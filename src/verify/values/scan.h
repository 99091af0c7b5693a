/* SPDX-License-Identifier: Apache-2.0
 *
 * Findings in the scales and codes of a weight, by themselves and against the source.
 */
#ifndef FP8CONV_VERIFY_VALUES_SCAN_H
#define FP8CONV_VERIFY_VALUES_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "source/cut.h"

struct verify;

/* Findings of one kind: their number, the place of the first one (row and column in one number, of
 * which the smallest is kept), and its value.  Zeroed: no findings. */
struct finding {
	uint64_t n, first;
	float value;
};

/* Positive numbers: the smallest, the largest with its place, and the sum of their bits, which
 * grow as logarithms do.  Zeroed: none. */
struct range {
	float min, max;
	uint64_t max_at; /* the first, of equal ones */
	uint64_t n, bits;
};

void range_add(struct range *range, float value, uint64_t at);
void range_merge(struct range *into, const struct range *from);

/* Returns about the geometric mean of all but the largest, of at least two. */
float range_others(const struct range *range);

void finding_add(struct finding *finding, uint64_t at, float value);
void finding_merge(struct finding *into, const struct finding *from);

/* The findings of one weight or of a cut of it.  A zeroed struct is empty. */
struct scan {
	uint64_t n_scales;
	struct finding bad;	   /* scales that are zero, negative or not finite */
	struct finding large;	   /* scales that are too large */
	struct finding small;	   /* too small ones, of tiles that are not all zero */
	struct finding not_pow2;   /* scales that are not powers of two */
	uint64_t n_large;	   /* scales of the size of inverted ones */
	float largest, smallest;   /* scale */
	float any_scale;	   /* any scale: of a tensor with one scale, that one */
	struct finding nan;	   /* codes that are NaN or inf */
	struct finding low;	   /* tiles whose largest code is far below the format's */
	float max;		   /* the largest code's value */
	struct finding empty;	   /* tiles of zeros with a scale that arithmetics give to values */
	struct range empty_scales; /* theirs */
	struct range live_scales;  /* of tiles with values; of MX, of all tiles */
	struct finding cut_off;	   /* runs of zeros that begin or end inside of a row */
	struct finding zero_rows;  /* other long runs of zeros, in tiles with values */
	uint64_t n_zero_rows;	   /* codes of these runs */
	uint64_t n_codes;
	uint64_t n_sampled, n_sampled_zero; /* of the first codes of each cut */
	bool negative, positive;	    /* there are such codes */
	struct finding codes_off;  /* codes that differ from those expected of the source */
	struct finding scales_off; /* scales that do */
	struct error_stats error;  /* of the codes against the source */
	double own_noise;	   /* the noise that fp8conv's own arithmetic makes */
	struct finding moved;	   /* of compensated rounding: codes that are not the nearest */
	uint64_t n_changed;	   /* of a low-bit source: values that codes do not hold */
};

/* Adds the findings of a cut by itself to found.  codes: of the cut, row by row; scales: of its
 * tiles, in whole rows of the grid, as source_scales() reads them. */
void scan_cut(const struct verify *verify, const struct cut *cut, const uint8_t *codes,
	      const void *scales, struct scan *found);

/* Adds the findings of another cut of the same weight. */
void scan_merge(struct scan *into, const struct scan *from);

#endif
