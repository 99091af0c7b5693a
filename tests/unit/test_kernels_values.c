/* SPDX-License-Identifier: Apache-2.0
 *
 * Parity of every backend with the scalar reference on all values of a kind: scales around what is
 * special, all numbers of 16 bits, all codes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "support/kernel_parity.h"

/* The scales of amaxes around all that is special about one: 1x1 tiles of zeros, whose amax is said
 * to be that. */
static void parity_of_scales(void **state)
{
	enum { REACH = 64, N = 2 * REACH };
	static const float centers[] = { 0x1p-142f,  0x1.cp-120f, 0x1.cp-119f, 0x1.cp-118f,
					 0x1p-126f,  1e-4f,	  1e-12f,      1,
					 448,	     0x1p127f,	  0x1.cp-113f, 0x1.cp-112f,
					 0x1.cp-111f };
	static const uint8_t zeros[4 * N];

	(void)state;
	for (size_t n = 0; n < sizeof centers / sizeof *centers * 2 * N_KINDS * 3; n++) {
		struct qspec spec = spec_of(n % N_KINDS, (struct tile){ 1, 1 }, n / N_KINDS % 2);
		struct matrix x = { zeros, sample_dtypes[n / N_KINDS / 2 % 3], 1, N, N };
		float amax[N];
		struct output want, got;

		for (int i = 0; i < N; i++)
			amax[i] = f32_from_bits(f32_bits(centers[n / N_KINDS / 6]) - REACH +
						(uint32_t)i);
		output_init(&want, &x, &spec, layout_plain);
		backend_cast(backend_select("reference", &(struct err){ 0 }), &x, &spec, amax, N,
			     &want.out);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable())
				continue;
			output_init(&got, &x, &spec, layout_plain);
			backend_cast(*b, &x, &spec, amax, N, &got.out);
			outputs_check("cast", *b, &want, &got);
			output_release(&got);
		}
		output_release(&want);
	}
}

/* All 65,536 patterns of bf16 and fp16 as one matrix, under given scales: 256 to a row, and each on
 * a row of its own, where no neighbor sends it to the slow path. */
static void parity_of_all_halves(void **state)
{
	static const float amaxes[] = { 1.0f,	  448.0f,	0x1.8p-100f, 0x1p-126f,
					0x1p-14f, 0x1.23456p3f, 1e30f,	     57344.0f };
	static uint16_t patterns[65536];

	(void)state;
	for (size_t i = 0; i < 65536; i++)
		patterns[i] = (uint16_t)i;
	for (size_t n = 0; n < 2 * 2 * 2 * 8 * N_KINDS; n++) {
		size_t cols = n % 2 ? 256 : 1;
		struct matrix x = { patterns, n / 2 % 2 ? DT_BF16 : DT_F16, 65536 / cols, cols,
				    cols };
		struct qspec spec = spec_of(n / 64, (struct tile){ WHOLE, WHOLE }, n / 4 % 2);
		float amax = amaxes[n / 8 % 8];
		struct output want, got;

		output_init(&want, &x, &spec, layout_plain);
		backend_cast(backend_select("reference", &(struct err){ 0 }), &x, &spec, &amax, 1,
			     &want.out);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable() || !strcmp((*b)->name, "reference"))
				continue;
			output_init(&got, &x, &spec, layout_plain);
			backend_cast(*b, &x, &spec, &amax, 1, &got.out);
			outputs_check("cast", *b, &want, &got);
			output_release(&got);
		}
		output_release(&want);
	}
}

/* Every code times scale_inv of every kind, to every type. */
static void parity_of_all_codes(void **state)
{
	static const float scales[] = { 1.0f, 0x1p-127f, 0x1p-149f, 0x1.234567p-5f, 0x1.fffffep127f,
					0,    INFINITY,	 NAN,	    0x1p-126f,	    3e-8f };
	uint8_t codes[256], e8m0[] = { 0, 1, 127, 253, 254, 255 };
	uint32_t want[256], got[256];

	(void)state;
	for (int i = 0; i < 256; i++)
		codes[i] = (uint8_t)i;
	for (size_t n = 0; n < 2 * 3 * 16; n++) {
		struct quant_in q = { codes,	      1, 256, 256, n % 2, { 1, WHOLE }, SCALE_F32,
				      scales + n / 6, 1 };
		enum dtype dtype = sample_dtypes[n / 2 % 3];

		if (n / 6 >= 10) {
			q.scale_type = SCALE_E8M0;
			q.scale_inv = e8m0 + (n / 6 - 10);
		}
		memset(want, 0, sizeof want);
		memset(got, 0, sizeof got);
		backend_dequantize(backend_select("reference", &(struct err){ 0 }), &q, dtype, want,
				   256);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable())
				continue;
			backend_dequantize(*b, &q, dtype, got, 256);
			assert_memory_equal(want, got, sizeof got);
		}
	}
}

#define ROWS 128
#define COLS 128

/* Finite codes of a whole region times scale_inv of every kind, one for each row: a group of rows
 * has finite scales and others. */
static void parity_of_finite_codes(void **state)
{
	static const float some[] = {
		1.0f, NAN, -NAN, 0x1.fffffep127f, INFINITY, 0x1p-149f, 3e-8f
	};
	static const uint8_t some_e8m0[] = { 0, 255, 127, 254, 1 };
	static uint8_t codes[ROWS * COLS] __attribute__((aligned(256)));
	static uint32_t want[ROWS * COLS], got[ROWS * COLS];
	float scales[ROWS];
	uint8_t e8m0[ROWS];

	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		scales[i] = some[i % (sizeof some / sizeof *some)];
		e8m0[i] = some_e8m0[i % (sizeof some_e8m0)];
	}
	for (size_t n = 0; n < 2 * 3 * 2; n++) {
		enum fp8_format format = n % 2 ? FP8_E5M2 : FP8_E4M3;
		enum dtype dtype = sample_dtypes[n / 2 % 3];
		struct quant_in q = { codes,	    ROWS,      COLS,   COLS, format,
				      { 1, WHOLE }, SCALE_F32, scales, 1 };
		size_t n_finite = format == FP8_E4M3 ? 0x7F : 0x7C; /* of one sign */

		for (size_t i = 0; i < ROWS * COLS; i++)
			codes[i] = (uint8_t)(i % n_finite | i % 3 / 2 << 7);
		if (n >= 6) {
			q.scale_type = SCALE_E8M0;
			q.scale_inv = e8m0;
		}
		memset(want, 0, sizeof want);
		memset(got, 0, sizeof got);
		backend_dequantize(backend_select("reference", &(struct err){ 0 }), &q, dtype, want,
				   COLS);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable())
				continue;
			backend_dequantize(*b, &q, dtype, got, COLS);
			assert_memory_equal(want, got, sizeof got);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parity_of_scales),
		cmocka_unit_test(parity_of_all_halves),
		cmocka_unit_test(parity_of_all_codes),
		cmocka_unit_test(parity_of_finite_codes),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
