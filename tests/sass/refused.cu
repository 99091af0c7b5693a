/* SPDX-License-Identifier: Apache-2.0
 *
 * Casts with what kernels/gpu/cast must not have: `divide` is looked at for each pair of elements,
 * and each load is used before the next; or a function that makes values looks at it for each.
 * `make sass` fails if sass.py accepts one.
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

/* Eight values, by value as in struct element_group. */
struct eight {
	float v[8];
};

static __device__ GPU_CALL struct eight scaled_group(uint4 packed, const int *divide, float factor)
{
	const unsigned word[] = { packed.x, packed.y, packed.z, packed.w };
	struct eight of;

	GPU_UNROLL
	for (int i = 0; i < 8; i++) {
		float v = bf16_to_f32((uint16_t)(word[i / 2] >> 16 * (i % 2)));

		of.v[i] = *reinterpret_cast<const volatile int *>(divide) ? v / factor : v * factor;
	}
	return of;
}

__global__ void branch_in_call(struct branchy a)
{
	const size_t first = blockIdx.x * 2048 + threadIdx.x;
	uint4 packed[8];

	GPU_UNROLL
	for (int k = 0; k < 8; k++)
		packed[k] = a.x[first + k * 256];
	GPU_UNROLL
	for (int k = 0; k < 8; k++) {
		const struct eight of = scaled_group(packed[k], a.divide, a.factor);
		unsigned codes[4];

		GPU_UNROLL
		for (int i = 0; i < 4; i++)
			codes[i] = gpu_fp8x2(FP8_E4M3, of.v[2 * i], of.v[2 * i + 1]);
		a.codes[first + k * 256] = { codes[0] | codes[1] << 16, codes[2] | codes[3] << 16 };
	}
}
