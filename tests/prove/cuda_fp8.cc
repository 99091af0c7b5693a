/* SPDX-License-Identifier: Apache-2.0
 *
 * The codes of NVIDIA's own header.  Compiled only where it is found: -I<cuda>/include, C++17,
 * nothing to link.
 */
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" void cuda_fp8_codes(uint32_t first, size_t n, uint8_t *e4m3, uint8_t *e5m2,
			       uint8_t *e8m0);

void cuda_fp8_codes(uint32_t first, size_t n, uint8_t *e4m3, uint8_t *e5m2, uint8_t *e8m0)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t bits = first + static_cast<uint32_t>(i);
		float v;

		std::memcpy(&v, &bits, sizeof v);
		e4m3[i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
		e5m2[i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
		e8m0[i] = __nv_cvt_float_to_e8m0(v, __NV_SATFINITE, cudaRoundPosInf);
	}
}
