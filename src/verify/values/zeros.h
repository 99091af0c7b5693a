/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes of zero.  A tile of zeros has the scale that the arithmetic gives an amax of 0; with
 * another scale it had values once.  A file that was made at its full size and not written to its
 * end (a download that was cut) has such tiles, or long runs of zeros that begin inside of a row.
 */
#ifndef FP8CONV_VERIFY_VALUES_ZEROS_H
#define FP8CONV_VERIFY_VALUES_ZEROS_H

#include <stdbool.h>
#include <stdint.h>

#include "num/dtype.h"
#include "num/qspec.h"
#include "verify/values/arithmetic.h"

#define ZERO_SCALES 40
#define ZERO_RUN    4096 /* codes: a page of a file */

/* The scales of a tile of zeros that arithmetics give, by fp32 or E8M0. */
struct zero_scales {
	size_t n;
	struct {
		enum scale_type type;
		float scale;
	} list[ZERO_SCALES];
};

/* Lists the scales that all arithmetics give to zeros, the recorded one too if it has a name. */
void zero_scales_list(struct zero_scales *known, const struct arithmetic *recorded);

/* Is it the scale of a tile of zeros?  dtype: of the tensor of scales, whose epsilon
 * compressed-tensors takes for 0. */
bool zero_scale_is_known(const struct zero_scales *known, enum scale_type type, enum dtype dtype,
			 float scale);

/* A run of codes that are zero, of either sign, by their places in an array. */
struct zero_run {
	uint64_t begin, end;
};

/* Finds the next run of at least `least` zeros in codes (n) that ends behind run->end; a zeroed run
 * before the first call.  Looks at one place in `least` / 2, so most codes are not read.  Returns
 * false after the last one. */
bool zero_run_next(const uint8_t *codes, uint64_t n, uint64_t least, struct zero_run *run);

/* Does the run begin or end inside of a row, of codes (n / cols, cols), beside a row that has
 * values in the same columns?  Rows and columns that a model prunes do not. */
bool zero_run_is_cut(const uint8_t *codes, uint64_t n, uint64_t cols, struct zero_run run);

#endif
