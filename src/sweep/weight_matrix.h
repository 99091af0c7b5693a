/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a weight as a matrix of one type, whatever its type in the checkpoint, a band at a time:
 * besides the matrix itself this takes a few MiB.  A weight that is multiplied in FP8 is read as
 * the values of its codes.
 */
#ifndef FP8CONV_SWEEP_WEIGHT_MATRIX_H
#define FP8CONV_SWEEP_WEIGHT_MATRIX_H

#include "backend/host_ops.h"
#include "format/detect.h"
#include "source/source.h"
#include "model/model.h"
#include "sweep/fp8_forward.h"

/* How weights are read. */
struct weight_reader {
	struct source *source;
	const struct detection *detection; /* of FP8 sources */
	const struct host_ops *host;
	bool round;		 /* to values of bf16, except for weights in FP8 */
	struct fp8_forward *fp8; /* NULL: no weight is in FP8 */
};

/* Some rows of a weight, and where to write them. */
struct weight_matrix {
	const struct linear_ref *ref;
	size_t first, n;  /* rows; first is a multiple of 128, and of fp8_forward_tile().rows */
	enum dtype dtype; /* of values: BF16 (implies rounding) or F32 */
	void *values;	  /* (n, k), without gaps; NULL: only compute amax */
	float amax;	  /* result: of the checkpoint's values, dequantized if FP8, unrounded */
	bool inexact;	  /* result: BF16 does not hold the values of some codes in FP8 */
};

/* Fills values and amax.  ERR_INPUT, naming the tensor, for unsupported types, NaN and infinity. */
int weight_matrix_read(const struct weight_reader *reader, struct weight_matrix *matrix,
		       struct err *err);

#endif
