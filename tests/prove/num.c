/* SPDX-License-Identifier: Apache-2.0
 *
 * src/num against a second formulation that shares nothing with it: the values of all codes in a
 * table, and of two neighbors the nearer one, the even one on a tie, decided exactly (2v against
 * their sum, in double).
 */
#include "prove.h"

#include <math.h>

#include "num/e8m0.h"
#include "num/float16.h"
#include "num/fp8.h"

#define UNIT_BITS   23 /* bit patterns of one binade and unit */
#define N_CODES_MAX 32641

/* A narrow format: its positive codes, and what follows the last finite one. */
struct narrow {
	const char *name;
	int m_bits, e_min;
	uint32_t last;	   /* the code that overflow gives */
	uint32_t n_finite; /* codes 0 .. n_finite - 1 */
	uint32_t nan;
	uint32_t sign;
	uint32_t (*from_f32)(float v);
};

static uint32_t e4m3(float v)
{
	return fp8_e4m3_from_f32(v);
}

static uint32_t e5m2(float v)
{
	return fp8_e5m2_from_f32(v);
}

static uint32_t f16(float v)
{
	return f16_from_f32(v);
}

static uint32_t bf16(float v)
{
	return bf16_from_f32(v);
}

static const struct narrow narrows[] = {
	{ "E4M3", 3, -6, 0x7E, 0x7F, 0x7F, 0x80, e4m3 },
	{ "E5M2", 2, -14, 0x7B, 0x7C, 0x7F, 0x80, e5m2 },
	{ "fp16", 10, -14, 0x7C00, 0x7C00, 0x7E00, 0x8000, f16 },
	{ "bf16", 7, -126, 0x7F80, 0x7F80, 0x7FC0, 0x8000, bf16 },
};

static double code_value(const struct narrow *n, uint32_t code)
{
	uint32_t exponent = code >> n->m_bits, mantissa = code & ((1u << n->m_bits) - 1);

	if (exponent == 0)
		return ldexp(mantissa, n->e_min - n->m_bits);
	return ldexp(mantissa + (1u << n->m_bits), n->e_min - n->m_bits + (int)exponent - 1);
}

/* v is nearer to the code after code, or in the middle and that one is even. */
static bool next_is_nearer(const struct narrow *n, uint32_t code, float v)
{
	double twice = 2.0 * (double)v, sum = code_value(n, code) + code_value(n, code + 1);

	return twice > sum || (twice == sum && (code + 1) % 2 == 0);
}

/* The first fp32 pattern, from `first` on, that rounds beyond code: by bisection, for v only grows.
 */
static uint32_t end_of_code(const struct narrow *n, uint32_t code, uint32_t first)
{
	uint32_t below = first, beyond = F32_INF;

	while (below < beyond) {
		uint32_t middle = below + (beyond - below) / 2;

		if (next_is_nearer(n, code, f32_from_bits(middle)))
			beyond = middle;
		else
			below = middle + 1;
	}
	return beyond;
}

/* The code of a positive finite v. */
static uint32_t code_of(const struct narrow *n, float v)
{
	uint32_t below = 0, beyond = n->last;

	while (below < beyond) {
		uint32_t middle = below + (beyond - below) / 2;

		if (next_is_nearer(n, middle, v))
			below = middle + 1;
		else
			beyond = middle;
	}
	return below;
}

static bool unit_narrow(const struct narrow *n, unsigned unit, struct counterexample *found)
{
	uint32_t first = (uint32_t)unit << UNIT_BITS, end = first + (1u << UNIT_BITS), code,
		 code_end;
	bool finite = first < F32_INF;

	code = finite ? code_of(n, f32_from_bits(first)) : 0;
	code_end = finite && code < n->last ? end_of_code(n, code, first) : F32_INF;
	for (uint32_t bits = first; bits != end; bits++) {
		uint32_t want, want_negative, got, got_negative;

		for (; bits == code_end && code < n->last;
		     code_end = code < n->last ? end_of_code(n, code, bits) : end)
			code++;
		want = finite ? code : bits == F32_INF ? n->last : n->nan;
		want_negative = want | (bits > F32_INF ? 0 : n->sign);
		got = n->from_f32(f32_from_bits(bits));
		got_negative = n->from_f32(f32_from_bits(bits | 0x80000000));
		if (got != want)
			return refuted(found, "fp32 %08x to %s: %#x, not %#x", bits, n->name, got,
				       want);
		if (got_negative != want_negative)
			return refuted(found, "fp32 %08x to %s: %#x, not %#x", bits | 0x80000000,
				       n->name, got_negative, want_negative);
	}
	return true;
}

static bool unit_e4m3(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_narrow(&narrows[0], unit, found);
}

static bool unit_e5m2(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_narrow(&narrows[1], unit, found);
}

static bool unit_f16(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_narrow(&narrows[2], unit, found);
}

static bool unit_bf16(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	(void)backend;
	return unit_narrow(&narrows[3], unit, found);
}

/* Every positive amax: the E8M0 code is the smallest byte with FMAX * 2^(code - 127) >= amax, save
 * for one. */
static bool unit_e8m0(unsigned unit, const struct backend *backend, struct counterexample *found)
{
	static const uint32_t exceptions[2] = { [FP8_E4M3] = 0x04600001, [FP8_E5M2] = 0x07E00001 };
	uint32_t first = (uint32_t)unit << UNIT_BITS, end = first + (1u << UNIT_BITS);

	(void)backend;
	for (int format = 0; format < 2; format++) {
		double fmax = format == FP8_E4M3 ? 448 : 57344;

		for (uint32_t bits = first; bits != end && bits <= F32_INF; bits++) {
			float amax = f32_from_bits(bits);
			int code = e8m0_from_amax(amax, (enum fp8_format)format, MX_UP, 0);
			bool holds;

			if (bits == F32_INF)
				holds = code == E8M0_MAX;
			else
				holds = fmax * (double)f32_pow2(code - 127) >= amax &&
					(code == 0 ||
					 fmax * (double)f32_pow2(code - 1 - 127) < amax);
			if (holds == (bits == exceptions[format]))
				return refuted(found, "amax %08x: code %d", bits, code);
		}
	}
	return true;
}

#define N_UNITS (0x80000000u >> UNIT_BITS)

const struct proof proofs_num[] = {
	{ "fp32 to E4M3, all 2^32", N_UNITS, false, unit_e4m3, NULL },
	{ "fp32 to E5M2, all 2^32", N_UNITS, false, unit_e5m2, NULL },
	{ "fp32 to fp16, all 2^32", N_UNITS, false, unit_f16, NULL },
	{ "fp32 to bf16, all 2^32", N_UNITS, false, unit_bf16, NULL },
	{ "E8M0 of every positive amax is the smallest that holds it", N_UNITS, false, unit_e8m0,
	  NULL },
	{ NULL, 0, false, NULL, NULL },
};
