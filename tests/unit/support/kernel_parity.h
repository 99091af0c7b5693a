/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend against the scalar reference, byte for byte, on matrices and Hessians that are the same
 * in every run, in memory that ends where the next byte cannot be touched.  What may not be written
 * (the space between rows) is compared too.  A difference says where, and both bytes.  A backend
 * that this machine cannot run is a test that was skipped, and counted (tests/run.sh).
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_KERNEL_PARITY_H
#define FP8CONV_TESTS_UNIT_SUPPORT_KERNEL_PARITY_H

#include "backend/backend.h"
#include "compensate/factor.h"

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

/* Space before the first code and between rows, in elements.  streaming: past the caches. */
struct layout {
	size_t codes_offset, codes_gap, scales_offset, scales_gap;
	bool streaming;
};

extern const struct layout layout_plain; /* no space */

/* What a backend makes of x by spec, in memory of that layout. */
struct output {
	const struct matrix *x;
	const struct qspec *spec;
	struct layout layout;
	struct quant_out out;
	struct quant_stats stats;
	unsigned char *codes, *scales;
	size_t codes_size, scales_size;
};

/* Keeps x and spec, which must outlive it. */
void output_init(struct output *o, const struct matrix *x, const struct qspec *spec,
		 struct layout l);
void output_release(struct output *o);

/* The test fails where two outputs of one layout differ in a byte or a count.  what: the function
 * that made them. */
void outputs_check(const char *what, const struct backend *backend, const struct output *want,
		   const struct output *got);

/* Holds amax, quantize, cast, dequantize and error of every backend against the reference.  cast
 * is given amaxes times amax_factor, so that it meets values beyond them too. */
void parity_check(const struct sample *s, const struct qspec *spec, struct layout l,
		  float amax_factor);

/* One of the ways to make scales, of N_KINDS. */
#define N_KINDS 9
struct qspec spec_of(size_t kind, struct tile tile, enum fp8_format format);

/* Prints a line "SKIPPED: backend NAME: WHY" for each backend that this machine cannot run. */
void skipped_print(void);

/* An instruction set that this machine can run, and a number of threads. */
struct way {
	const struct host_ops *ops;
	int n_threads;
};

/* Returns way i: each instruction set with 1, 2 and 5 threads; ops is NULL after the last.  Prints
 * SKIPPED for what the machine lacks if i is 0. */
struct way way_at(size_t i);

/* Returns X^T X (n, n) of n_tokens rows of correlated inputs: each is a mix of a few common signals
 * and noise, and columns differ in size.  Below the diagonal there is NaN.  The caller frees. */
float *hessian_new(size_t n, size_t n_tokens, uint32_t seed);

/* In [-1, 1]. */
float noise(uint32_t *state);

#endif
