/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of the CPU backends, and their executor.
 */
#ifndef FP8CONV_KERNELS_CPU_H
#define FP8CONV_KERNELS_CPU_H

#include "backend/backend.h"
#include "backend/executor.h"

extern const struct backend backend_reference;
extern const struct backend backend_avx2;
extern const struct backend backend_avx512;
extern const struct backend backend_neon;

/* struct backend's quantize_fp4(), for every CPU with AVX2 (avx2/fp4.c). */
bool cpu_quantize_fp4(const struct fp4_matrix *x, const struct qspec *spec,
		      const struct quant_out *out, uint64_t *n_changed);

extern const struct executor_ops executor_cpu;

#endif
