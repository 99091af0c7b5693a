/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of kernels/cpu/forward/ops_loops.h by AVX2.
 */
#define CPU_OP(function) avx2_##function
#include "kernels/cpu/forward/ops_loops.h"

static bool avx2_usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

const struct host_ops cpu_ops_avx2 = CPU_OPS_ROW("avx2");
