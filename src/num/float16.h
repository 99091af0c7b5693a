/* SPDX-License-Identifier: Apache-2.0
 *
 * bf16 and fp16 (IEEE binary16) to fp32, exact, and back, rounded to nearest even; overflow gives
 * inf.  Every NaN becomes one NaN (0x7FC0, 0x7E00), because CPU and GPU treat signs and payloads
 * differently.
 */
#ifndef FP8CONV_NUM_FLOAT16_H
#define FP8CONV_NUM_FLOAT16_H

#include "num/bits.h"

#define BF16_MAX f32_from_bits(0x7F7F0000) /* 0x1.FEp127 */
#define F16_MAX	 65504.0f
#define F32_MAX	 f32_from_bits(0x7F7FFFFF)
#define F32_MIN	 f32_from_bits(0x00800000) /* the smallest normal number */

NUM_INLINE float bf16_to_f32(uint16_t v)
{
	return f32_from_bits((uint32_t)v << 16);
}

NUM_INLINE uint16_t bf16_from_f32(float v)
{
	uint32_t bits = f32_bits(v);

	if (f32_is_nan(v))
		return 0x7FC0;
	return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

NUM_INLINE float f16_to_f32(uint16_t v)
{
	uint32_t sign = (uint32_t)(v & 0x8000) << 16;
	uint32_t magnitude = v & 0x7FFF;

	if (magnitude > 0x7C00)
		return f32_from_bits(F32_NAN);
	if (magnitude == 0x7C00)
		return f32_from_bits(sign | F32_INF);
	if (magnitude < 0x0400)
		return f32_from_bits(sign | f32_bits((float)magnitude * f32_pow2(-24)));
	return f32_from_bits(sign | ((magnitude << 13) + ((127u - 15) << 23)));
}

NUM_INLINE uint16_t f16_from_f32(float v)
{
	uint32_t sign = f32_bits(v) >> 16 & 0x8000;
	uint32_t code;

	if (f32_is_nan(v))
		return 0x7E00;
	code = f32_narrow(f32_magnitude(v), 10, -14);
	return (uint16_t)(sign | (code > 0x7C00 ? 0x7C00 : code));
}

#endif
