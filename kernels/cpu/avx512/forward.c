/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of kernels/cpu/forward/ops_loops.h by AVX-512.
 */
#define CPU_OP(function) avx512_##function
#include "kernels/cpu/forward/ops_loops.h"

static bool avx512_usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const struct host_ops cpu_ops_avx512 = CPU_OPS_ROW("avx512");
