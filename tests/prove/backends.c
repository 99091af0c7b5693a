/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends against src/num.  A backend may hand a row to the reference; so that it cannot hide
 * behind that, values stand in short rows, and near the limits in rows of one.
 */
#include "prove.h"

#include <stdlib.h>

#include "num/scale.h"

#define COLS	  64
#define UNIT_BITS 20 /* fp32 patterns of a unit */
#define UNIT_SIZE (1u << UNIT_BITS)

static float value_of(const struct matrix *x, size_t i)
{
	if (x->dtype == DT_F32)
		return ((const float *)x->data)[i];
	if (x->dtype == DT_BF16)
		return bf16_to_f32(((const uint16_t *)x->data)[i]);
	return f16_to_f32(((const uint16_t *)x->data)[i]);
}

/* Casts n values as rows of cols and compares each code.  amax: of the whole. */
static bool casts_equal(const struct backend *backend, const struct matrix *x,
			const struct qspec *spec, float amax, uint8_t *codes,
			struct counterexample *found)
{
	struct scaling scaling = scaling_from_amax(spec, amax, scale_limit(x->dtype, spec->tile));
	struct quant_stats stats = { 0 };
	float scale_inv;
	struct quant_out out = { codes, x->cols, &scale_inv, 1, &stats, false };

	backend->cast(x, spec, &amax, 1, &out);
	for (size_t i = 0; i < x->rows * x->cols; i++) {
		float v = value_of(x, i);
		uint8_t want = fp8_from_f32(spec->format, scaling_apply(scaling, v));

		if (codes[i] != want)
			return refuted(found,
				       "%s %08x, amax %08x, %s, arith %d, rows of %zu: code %02x, "
				       "not %02x",
				       dtype_name(x->dtype), f32_bits(v), f32_bits(amax),
				       spec->format == FP8_E4M3 ? "E4M3" : "E5M2", spec->arith,
				       x->cols, codes[i], want);
	}
	return true;
}

/* Of the units, those that hold a limit beyond which values saturate, in the middle of other
 * values. */
static bool holds_limit(uint32_t first, enum fp8_format format)
{
	uint32_t limit = f32_bits(format == FP8_E4M3 ? 464.0f : 61440.0f);

	return (first & 0x7FFFFFFF) <= limit && limit - (first & 0x7FFFFFFF) < UNIT_SIZE;
}

static bool unit_f32(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	uint32_t first = (uint32_t)unit << UNIT_BITS, *bits = malloc(UNIT_SIZE * sizeof *bits);
	uint8_t *codes = malloc(UNIT_SIZE);
	bool ok = bits && codes;

	for (uint32_t i = 0; ok && i < UNIT_SIZE; i++)
		bits[i] = first + i;
	for (int format = 0; ok && format < 2; format++) {
		struct qspec spec = { .format = (enum fp8_format)format };
		struct matrix x = { bits, DT_F32, UNIT_SIZE / COLS, COLS, COLS };

		if (holds_limit(first, spec.format))
			x = (struct matrix){ bits, DT_F32, UNIT_SIZE, 1, 1 };
		ok = casts_equal(backend, &x, &spec, fp8_max(spec.format), codes, found);
	}
	free(bits);
	free(codes);
	return ok;
}

/* All bf16 and fp16 patterns under one scale, in rows of COLS and of 1. */
static bool halves_equal(const struct backend *backend, const struct qspec *spec, float amax,
			 struct counterexample *found)
{
	uint16_t *bits = malloc(65536 * sizeof *bits);
	uint8_t *codes = malloc(65536);
	bool ok = bits && codes;

	for (uint32_t i = 0; ok && i < 65536; i++)
		bits[i] = (uint16_t)i;
	for (size_t cols = 1; ok && cols <= COLS; cols *= COLS) {
		struct matrix x = { bits, DT_BF16, 65536 / cols, cols, cols };

		ok = casts_equal(backend, &x, spec, amax, codes, found);
		x.dtype = DT_F16;
		ok = ok && casts_equal(backend, &x, spec, amax, codes, found);
	}
	free(bits);
	free(codes);
	return ok;
}

/* unit: an E8M0 code, so a power of two; code 254 comes from an amax of inf. */
static bool unit_pow2(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	bool ok = true;

	for (int format = 0; ok && format < 2; format++) {
		struct qspec spec = { .format = (enum fp8_format)format, .scale_type = SCALE_E8M0 };

		ok = halves_equal(backend, &spec, fp8_max(spec.format) * f32_pow2((int)unit - 127),
				  found);
	}
	return ok;
}

/* unit: any scale, by a multiplicative walk through the amaxes. */
static bool unit_float(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	float amax =
		f32_from_bits(0x00800000 + (uint32_t)(unit * 0x9E3779B1u) % (F32_INF - 0x00800000));
	bool ok = true;

	for (int i = 0; ok && i < 6; i++) {
		struct qspec spec = { .format = (enum fp8_format)(i % 2),
				      .arith = (enum scale_arith)(i / 2) };

		ok = halves_equal(backend, &spec, amax, found);
	}
	return ok;
}

/* The scales that a backend makes of every positive amax, in tiles of 1x1 that hold a zero. */
static bool unit_scales(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	static const struct qspec specs[] = {
		{ .tile = { 1, 1 }, .scale_type = SCALE_E8M0 },
		{ .tile = { 1, 1 }, .scale_type = SCALE_E8M0, .format = FP8_E5M2 },
		{ .tile = { 1, 1 } },
		{ .tile = { 1, 1 }, .pow2 = true },
	};
	enum { N = 4096 };
	static const float zeros[N];
	float amax[N], scale_inv[N];
	uint8_t codes[N], e8m0[N];

	for (uint32_t chunk = 0; chunk < UNIT_SIZE / 8; chunk += N) {
		/* Each spec has its own eighth. */
		for (size_t s = 0; s < 4; s++) {
			struct matrix x = { zeros, DT_F32, 1, N, N };
			struct quant_stats stats = { 0 };
			struct quant_out out = {
				codes,
				N,
				specs[s].scale_type == SCALE_E8M0 ? (void *)e8m0 : scale_inv,
				N,
				&stats,
				false
			};

			for (uint32_t i = 0; i < N; i++)
				amax[i] = f32_from_bits(((uint32_t)unit << UNIT_BITS) +
							(chunk + i) * 8 + (uint32_t)s);
			backend->cast(&x, &specs[s], amax, N, &out);
			for (uint32_t i = 0; i < N; i++) {
				struct scaling want =
					scaling_from_amax(&specs[s], amax[i], F32_MAX);

				if (specs[s].scale_type == SCALE_E8M0
					    ? e8m0[i] != want.e8m0
					    : f32_bits(scale_inv[i]) != f32_bits(want.scale_inv))
					return refuted(found, "the scale of amax %08x, spec %zu",
						       f32_bits(amax[i]), s);
			}
		}
	}
	return true;
}

const struct proof proofs_backends[] = {
	{ "casts of fp32, all 2^32", 1u << (32 - UNIT_BITS), true, unit_f32, NULL },
	{ "casts of bf16 and fp16, all 2^16 times every power of two", 255, true, unit_pow2, NULL },
	{ "casts of bf16 and fp16, all 2^16 times 256 scales", 256, true, unit_float, NULL },
	{ "scales, one amax in eight of all", 1u << (31 - UNIT_BITS), true, unit_scales, NULL },
	{ NULL, 0, false, NULL, NULL },
};
