/* SPDX-License-Identifier: Apache-2.0
 *
 * What the scales and codes of a weight show by themselves, and beside the source.
 */
#ifndef FP8CONV_VERIFY_SCAN_H
#define FP8CONV_VERIFY_SCAN_H

#include <stdint.h>

#include "backend/backend.h"
#include "source/cut.h"

struct verify;

/* Things of one kind: how many, the place of the first (row and column in one number, so the
 * smallest), and its value.  Zeroed: none. */
struct finding {
	uint64_t n, first;
	float value;
};

void finding_add(struct finding *finding, uint64_t at, float value);
void finding_merge(struct finding *into, const struct finding *from);

/* Of one weight, or of a cut of it.  Zeroed: nothing was read. */
struct scan {
	uint64_t n_scales;
	struct finding bad;	   /* scales that are zero, negative or not finite */
	struct finding not_pow2;   /* scales that are not powers of two */
	uint64_t n_large;	   /* scales as large as inverted ones are */
	float largest, smallest;   /* scale */
	float any_scale;	   /* one of them: of a tensor with one scale, that one */
	struct finding nan;	   /* codes that are NaN or inf */
	struct finding low;	   /* tiles whose largest code is far below the format's */
	float max;		   /* the largest code's value */
	struct finding codes_off;  /* codes that differ from what the source becomes */
	struct finding scales_off; /* scales that do */
	struct error_stats error;  /* of the codes against the source */
	double own_noise;	   /* that fp8conv's own arithmetic would have made */
};

/* Adds to found what a cut shows by itself.  scales: of the tiles of the cut, in whole rows of the
 * grid, as source_scales() gives them. */
void scan_cut(const struct verify *verify, const struct cut *cut, const uint8_t *codes,
	      const void *scales, struct scan *found);

void scan_merge(struct scan *into, const struct scan *from);

#endif
