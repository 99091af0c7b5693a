/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations whose output is FP8, on any CPU: scalar, and the specification.  All CPU backends
 * use them.
 */
#ifndef FP8CONV_KERNELS_CPU_CAST_CAST_TRANSPOSE_H
#define FP8CONV_KERNELS_CPU_CAST_CAST_TRANSPOSE_H

#include "backend/backend.h"
#include "kernels/cpu/cpu.h"

/* The values of an operation before the cast, one element at a time. */
struct cast_transpose_source {
	float (*at)(const void *args, size_t row, size_t col);
	const void *args;
	size_t rows, cols;
	enum dtype dtype; /* its largest value bounds the scale of a block */
};

/* Writes the codes and the scale_inv of every copy that out wants, and raises the amax. */
void cast_transpose_write(const struct cast_transpose_source *source, const struct qspec *spec,
			  const struct fp8_out *out);

int cpu_failed(struct err *err);
int cpu_supports(const struct qspec *spec, struct err *err);
void cpu_cast_transpose(const struct matrix *x, const struct qspec *spec,
			const struct fp8_out *out);
void cpu_norm(const struct norm_args *args, const struct qspec *spec, const struct fp8_out *out);
void cpu_activate(const struct activation_args *args, const struct qspec *spec,
		  const struct fp8_out *out);
void cpu_error(const struct matrix *x, const struct quant_in *q, struct error_stats *stats);

/* The members of a struct backend that these functions fill. */
#define CPU_CAST_TRANSPOSE                                                                    \
	.failed = cpu_failed, .supports = cpu_supports, .cast_transpose = cpu_cast_transpose, \
	.norm = cpu_norm, .activate = cpu_activate, .executor = &executor_cpu

#endif
