/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend against the scalar reference, byte for byte.  What may not be written (the space
 * between rows) is compared too.  A difference says where, and both bytes.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_KERNEL_PARITY_H
#define FP8CONV_TESTS_UNIT_SUPPORT_KERNEL_PARITY_H

#include "backend/backend.h"
#include "tests/unit/support/kernel_sample.h"

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

#endif
