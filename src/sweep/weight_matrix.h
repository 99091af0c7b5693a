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

struct matrix_reader {
	struct source *source;
	const struct detection *detection; /* of FP8 sources */
	const struct host_ops *host;
	bool round; /* to what bf16 holds */
};

/* Rows [first, first + n) of the matrix of ref, close together, into values (n, k) of dtype BF16
 * (round is implied) or F32; values NULL: only their amax is wanted.  first is a multiple of 128,
 * the most rows that a block of an FP8 source has. *amax: of what the checkpoint holds, decoded
 * where it is FP8, before anything is rounded.  ERR_INPUT, naming the tensor: types that cannot be
 * read, NaN and infinity. */
int matrix_read(const struct matrix_reader *reader, const struct linear_ref *ref, size_t first,
		size_t n, enum dtype dtype, void *values, float *amax, struct err *err);

#endif
