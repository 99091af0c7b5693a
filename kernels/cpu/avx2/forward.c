/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/compute.h by AVX2.
 */
#ifdef __x86_64__
#define COMPUTE(function) avx2_##function
#include "kernels/cpu/forward/ops_loops.h"

#include "kernels/cpu/forward/ops.h"

static bool avx2_usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct compute compute_avx2 = COMPUTE_ROW("avx2");
#endif
