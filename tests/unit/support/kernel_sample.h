/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices to try kernels on, the same in every run, in memory that ends where the next byte cannot
 * be touched.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_KERNEL_SAMPLE_H
#define FP8CONV_TESTS_UNIT_SUPPORT_KERNEL_SAMPLE_H

#include "backend/backend.h"

/* The types that are cast from. */
extern const enum dtype sample_dtypes[3];

/* --- a random source, the same in every run --- */

uint32_t random_bits(void);
size_t random_below(size_t n); /* n: not 0 */

/* --- memory that ends where the next byte cannot be touched --- */

/* size bytes of that value.  Reading or writing the byte behind them ends the program. */
unsigned char *guarded_new(size_t size, int fill);
void guarded_free(unsigned char *p, size_t size);

/* --- matrices --- */

enum content {
	NORMAL,	    /* with outlier columns */
	TINY,	    /* among the subnormals */
	WIDE,	    /* any exponent, finite */
	ANY_BITS,   /* NaN and inf among them */
	N_CONTENTS, /* or NORMAL with blocks of zeros, subnormals, one NaN, one inf */
	BLOCKS = N_CONTENTS
};

struct sample {
	struct matrix x;
	unsigned char *data; /* x.data, to be written */
	size_t size;	     /* of data, in bytes */
	size_t element_size;
};

/* Elements of a matrix up to its last one. */
size_t matrix_extent(size_t rows, size_t cols, size_t stride);

/* A matrix (rows, cols) with a random stride, aligned or not; guarded_free(data, size) frees it.
 * What lies between rows is NaN. */
struct sample sample_new(enum dtype dtype, size_t rows, size_t cols, enum content content);

#endif
