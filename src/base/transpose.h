/* SPDX-License-Identifier: Apache-2.0
 *
 * The transpose of a matrix in memory.
 */
#ifndef FP8CONV_BASE_TRANSPOSE_H
#define FP8CONV_BASE_TRANSPOSE_H

#include <stddef.h>

/* A matrix (rows, cols) to read, and its transpose (cols, rows) to write, which do not overlap. */
struct transpose {
	const void *from;
	void *to;
	size_t from_stride, to_stride; /* elements from one row to the next */
	size_t rows, cols;
	size_t element; /* bytes: 1, 2 or 4; data need not be aligned */
	size_t ahead;	/* rows below, which are read next: they are fetched into L2 */
};

void transpose(const struct transpose *t);

#endif
