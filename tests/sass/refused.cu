/* SPDX-License-Identifier: Apache-2.0
 *
 * A cast with what kernels/gpu/cast must not have: the format is looked at for each pair of
 * elements, and each load is used before the next.  `make sass` fails if sass.py accepts it.
 */
#include <gpu.h>

struct branchy {
	const uint4 *x;
	uint2 *codes;
	const int *divide; /* of each pair: volatile, so that the compiler cannot move the test */
	float factor;
};

__global__ void branch_per_element(struct branchy a)
{
	for (int k = 0; k < 8; k++) {
		const uint4 packed = a.x[blockIdx.x * 2048 + k * 256 + threadIdx.x];
		const unsigned word[] = { packed.x, packed.y, packed.z, packed.w };
		unsigned codes[4];

		GPU_UNROLL
		for (int i = 0; i < 4; i++) {
			float low = bf16_to_f32((uint16_t)word[i]);
			float high = bf16_to_f32((uint16_t)(word[i] >> 16));

			if (*reinterpret_cast<const volatile int *>(a.divide)) {
				low /= a.factor;
				high /= a.factor;
			} else {
				low *= a.factor;
				high *= a.factor;
			}
			codes[i] = gpu_fp8x2(FP8_E4M3, low, high);
		}
		a.codes[blockIdx.x * 2048 + k * 256 + threadIdx.x] = { codes[0] | codes[1] << 16,
								       codes[2] | codes[3] << 16 };
	}
}
