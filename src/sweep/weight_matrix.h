/* SPDX-License-Identifier: Apache-2.0
 *
 * A weight as a matrix of one type, whatever the checkpoint has it in, read a band at a time:
 * besides the matrix itself a few MiB are enough.
 */
#ifndef FP8CONV_SWEEP_WEIGHT_MATRIX_H
#define FP8CONV_SWEEP_WEIGHT_MATRIX_H

#include "backend/host_ops.h"
#include "format/detect.h"
#include "source/source.h"
#include "model/model.h"

/* How weights are read. */
struct weight_reader {
	struct source *source;
	const struct detection *detection; /* of FP8 sources */
	const struct host_ops *host;
	bool round; /* to what bf16 holds */
};

/* Rows of a weight. */
struct weight_matrix {
	const struct linear_ref *ref;
	size_t first, n;  /* rows; first is a multiple of 128, the most that a block has */
	enum dtype dtype; /* of values: BF16 (rounding is implied) or F32 */
	void *values;	  /* (n, k), close together; NULL: only their amax is wanted */
	float amax; /* found: of what the checkpoint has, decoded where it is FP8, unrounded */
};

/* Fills values, and amax.  ERR_INPUT, naming the tensor: unsupported types, NaN and infinity. */
int weight_matrix_read(const struct weight_reader *reader, struct weight_matrix *matrix,
		       struct err *err);

#endif
