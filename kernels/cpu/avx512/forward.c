/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/compute.h by AVX-512.
 */
#ifdef __x86_64__
#define COMPUTE(function) avx512_##function
#include "kernels/cpu/forward/ops_loops.h"

#include "kernels/cpu/forward/ops.h"

static bool avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const struct compute compute_avx512 = COMPUTE_ROW("avx512");
#endif
