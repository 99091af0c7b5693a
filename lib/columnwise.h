/* SPDX-License-Identifier: Apache-2.0
 *
 * Columnwise copies of a stack, on the threads of a context.
 */
#ifndef FP8CONV_LIB_COLUMNWISE_H
#define FP8CONV_LIB_COLUMNWISE_H

#include "base/mem.h"
#include "lib/context.h"
#include "lib/tensor.h"

/* A copy of every matrix, and its scales. */
struct copies {
	struct stack codes, scales; /* data NULL: not wanted */
	struct scale_grid grid;	    /* with the strides of the tensor */
};

/* Tiles of the copy of one matrix. */
struct tiles {
	size_t matrix, row, col, n_rows, n_cols;
};

/* Sets out->scale_inv and its stride to where the scales of the tiles go; or to memory in *scratch,
 * where the tensor has another order: then scales_place() copies them. */
int scales_begin(const struct copies *copies, const struct tiles *tiles, struct buffer *scratch,
		 struct quant_out *out, struct err *err);
void scales_place(const struct copies *copies, const struct tiles *tiles,
		  const struct quant_out *out);

struct columnwise {
	const struct fp8conv_context *context;
	int n_threads;
	const struct quantizer *q;
	struct stack x;
	struct copies copies;
	const float *amax; /* of matrix i at [i * amax_stride]; tiles {WHOLE, WHOLE} alone */
	size_t amax_stride;
	struct quant_stats *stats; /* of each worker; NULL: not counted */
	bool streaming;		   /* codes bypass the caches */
	/* private */
	size_t strip, chunk, n_strips, n_chunks; /* columns and rows of an item, and how many */
	struct worker *workers;
};

int columnwise_write(struct columnwise *c, struct err *err);

#endif
