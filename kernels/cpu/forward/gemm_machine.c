/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library multiplies fast on this machine, as measured.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "kernels/cpu/forward/gemm.h"

/* bf16 products are twice as fast as fp32 ones on AMD since Zen 4 and in Intel's tiles (AMX).
 * Intel's vectors without tiles (VDPBF16PS, half the rate of FMA) are slower in bf16. */
#define AMX_BF16    (1u << 22) /* of edx, leaf 7.0 */
#define AVX512_BF16 (1u << 5)  /* of eax, leaf 7.1 */

enum dtype gemm_bf16_type(void)
{
#ifdef __x86_64__
	unsigned a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16))
		return DT_BF16;
	if (__builtin_cpu_is("amd") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX512_BF16))
		return DT_BF16;
#endif
	return DT_F32;
}

/* With AVX-512 weights lie as the library multiplies them, so that only reading them again costs
 * time.  Without, oneDNN 2.6 copies them in each product of some 400 rows or more, at 75 GFLOP/s on
 * a core of AMD's Zen 3, and multiplies fewer rows where they lie, at 38 (96 rows) or 34 (32). */
size_t gemm_min_rows(void)
{
#ifdef __x86_64__
	if (!__builtin_cpu_supports("avx512f"))
		return 512;
#endif
	return 48;
}
