/* SPDX-License-Identifier: Apache-2.0
 *
 * src/num against the host path of NVIDIA's cuda_fp8.hpp (cuda_fp8.cc), where the CUDA headers are
 * at hand.
 */
#include "prove.h"

#include "num/e8m0.h"
#include "num/fp8.h"

#define UNIT_BITS 23
#define CHUNK	  4096

static bool unit_cuda(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	uint32_t first = (uint32_t)unit << UNIT_BITS;
	uint8_t codes[3][CHUNK];

	(void)backend;
	for (uint32_t begin = first; begin - first < 1u << UNIT_BITS; begin += CHUNK) {
		cuda_fp8_codes(begin, CHUNK, codes[0], codes[1], codes[2]);
		for (uint32_t i = 0; i < CHUNK; i++) {
			float v = f32_from_bits(begin + i);

			if (codes[0][i] != fp8_e4m3_from_f32(v))
				return refuted(found, "fp32 %08x: E4M3 %02x, not %02x", begin + i,
					       fp8_e4m3_from_f32(v), codes[0][i]);
			if (codes[1][i] != fp8_e5m2_from_f32(v))
				return refuted(found, "fp32 %08x: E5M2 %02x, not %02x", begin + i,
					       fp8_e5m2_from_f32(v), codes[1][i]);
			if (begin + i < 0x80000000 && codes[2][i] != e8m0_round_up(v))
				return refuted(found, "fp32 %08x: E8M0 %02x, not %02x", begin + i,
					       e8m0_round_up(v), codes[2][i]);
		}
	}
	return true;
}

static const char *without_cuda(void)
{
	return cuda_fp8_codes ? NULL : "built without the CUDA headers";
}

const struct proof proofs_cuda[] = {
	{ "the same codes as cuda_fp8.hpp, all 2^32", 1u << (32 - UNIT_BITS), false, unit_cuda,
	  without_cuda },
	{ NULL, 0, false, NULL, NULL },
};
