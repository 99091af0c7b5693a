/* SPDX-License-Identifier: Apache-2.0
 *
 * MXFP4 straight to FP8 in every backend that does it, against what the reference makes of the same
 * values in fp32: bytes, scales, statistics and the number of values that changed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "num/e8m0.h"
#include "num/fp4.h"
#include "support/kernel_parity.h"

/* What the groups of a matrix have. */
enum groups {
	ANY_SCALE, /* 0 to 252 */
	NEAR,	   /* eight binades: mostly exact */
	FAR,	   /* near ones, some of them 2^-12 to 2^-20 of it */
	SMALLEST,  /* scales 0 to 12 */
	SPARSE,	   /* near ones, most codes 0 or -0 */
	N_GROUPS
};

/* A matrix and its values. */
struct packed {
	struct fp4_matrix x;
	uint8_t *codes, *scales;
	size_t codes_size, scales_size;
	struct matrix values;
	float *floats;
};

static uint8_t scale_of(enum groups groups)
{
	switch (groups) {
	case ANY_SCALE:
		return (uint8_t)random_below(253);
	case FAR:
		return (uint8_t)(random_below(8) ? 120 + random_below(3) : 100 + random_below(9));
	case SMALLEST:
		return (uint8_t)random_below(13);
	default:
		return (uint8_t)(118 + random_below(8));
	}
}

static void packed_decode(struct packed *packed)
{
	const struct fp4_matrix *x = &packed->x;

	for (size_t row = 0; row < x->rows; row++) {
		for (size_t col = 0; col < x->cols; col++) {
			size_t at = row * x->stride + col;
			uint8_t code = (uint8_t)(x->codes[at / 2] >> (at % 2 ? 4 : 0));

			packed->floats[row * x->cols + col] =
				fp4_to_f32(code) * e8m0_to_f32(x->scales[at / MXFP4_GROUP]);
		}
	}
}

/* The last byte of codes and scales is the last one that may be read. */
static struct packed packed_new(size_t rows, size_t n_groups, enum groups groups)
{
	size_t stride = MXFP4_GROUP * (n_groups + random_below(3));
	size_t n = matrix_extent(rows, MXFP4_GROUP * n_groups, stride);
	struct packed packed = { .codes_size = n / 2, .scales_size = n / MXFP4_GROUP };

	packed.codes = guarded_new(packed.codes_size, 0);
	packed.scales = guarded_new(packed.scales_size, 0);
	packed.floats = calloc(rows * MXFP4_GROUP * n_groups, sizeof *packed.floats);
	assert_non_null(packed.floats);
	for (size_t i = 0; i < packed.codes_size; i++)
		packed.codes[i] = (uint8_t)(random_bits() &
					    (groups == SPARSE && random_below(64) ? 0x88 : 0xFF));
	for (size_t i = 0; i < packed.scales_size; i++)
		packed.scales[i] = scale_of(groups);
	packed.x = (struct fp4_matrix){ packed.codes, packed.scales, rows, MXFP4_GROUP * n_groups,
					stride };
	packed.values =
		(struct matrix){ packed.floats, DT_F32, rows, packed.x.cols, packed.x.cols };
	packed_decode(&packed);
	return packed;
}

static void packed_free(struct packed *packed)
{
	guarded_free(packed->codes, packed->codes_size);
	guarded_free(packed->scales, packed->scales_size);
	free(packed->floats);
}

/* Returns how many of the values differ from codes and scales, by the reference. */
static uint64_t count_changed(const struct packed *packed, const struct output *o)
{
	const struct matrix *values = &packed->values;
	struct quant_in q = { o->out.codes,	   values->rows,     values->cols,
			      o->out.stride,	   o->spec->format,  o->spec->tile,
			      o->spec->scale_type, o->out.scale_inv, o->out.scale_stride };
	size_t n = values->rows * values->cols;
	float *decoded = calloc(n, sizeof *decoded);
	uint64_t n_changed;

	assert_non_null(decoded);
	backend_dequantize(backends[0], &q, DT_F32, decoded, values->cols);
	n_changed = values_changed(packed->floats, decoded, n);
	free(decoded);
	return n_changed;
}

/* Returns whether a value changed. */
static bool check_backends(const struct packed *packed, const struct qspec *spec)
{
	const struct layout spaced = { 1, 5, 0, 2, false };
	struct output want, got;
	uint64_t changed;

	output_init(&want, &packed->values, spec, spaced);
	backend_cast(backends[0], &packed->values, spec, NULL, 0, &want.out);
	changed = count_changed(packed, &want);
	for (const struct backend *const *b = backends; *b; b++) {
		uint64_t n_changed = 7;

		if (!(*b)->quantize_fp4 || (*b)->unusable())
			continue;
		output_init(&got, &packed->values, spec, spaced);
		assert_true(backend_quantize_fp4(*b, &packed->x, spec, &got.out, &n_changed));
		outputs_check("quantize_fp4", *b, &want, &got);
		assert_int_equal(n_changed, 7 + changed);
		output_release(&got);
	}
	output_release(&want);
	return changed != 0;
}

static void codes_are_those_of_the_values(void **state)
{
	static const struct tile tiles[] = {
		{ 128, 128 }, { 1, 32 }, { 1, 128 }, { 64, 96 }, { 1, WHOLE }
	};
	size_t n_exact = 0, n_changed = 0;

	(void)state;
	for (size_t n = 0; n < 5 * N_KINDS * 2 * 3 * N_GROUPS; n++) {
		struct qspec spec = spec_of(n / 5 % N_KINDS, tiles[n % 5],
					    n / 5 / N_KINDS % 2 ? FP8_E5M2 : FP8_E4M3);
		struct packed packed =
			packed_new(1 + random_below(n % 7 ? 9 : 300), 1 + random_below(14),
				   (enum groups)(n / 5 / N_KINDS / 6));

		spec.margin = (int)(n / 5 / N_KINDS / 2 % 3) - 1; /* 1 below: values saturate */
		if (n % 11 == 0)
			spec.amax_epsilon = 1e-12f;
		if (check_backends(&packed, &spec))
			n_changed++;
		else
			n_exact++;
		packed_free(&packed);
	}
	assert_true(n_exact > 100 && n_changed > 100);
}

/* Rows and tiles of as many groups as a kernel takes at once, of fewer and of more. */
static void long_rows_are_as_short_ones(void **state)
{
	static const size_t n_groups[] = { 15, 16, 63, 64, 65, 1023, 1024, 1025, 2100 };
	static const size_t tile_groups[] = { 1, 3, 4, 17, 511, 512, 513, 1024 };
	const size_t n_tiles = sizeof tile_groups / sizeof *tile_groups;

	(void)state;
	for (size_t n = 0; n < sizeof n_groups / sizeof *n_groups * n_tiles; n++) {
		struct packed packed = packed_new(3, n_groups[n / n_tiles], n % N_GROUPS);
		size_t cols = tile_groups[n % n_tiles] * MXFP4_GROUP;

		for (size_t kind = 0; kind < N_KINDS; kind++) {
			struct qspec one = spec_of(kind, (struct tile){ 1, cols }, FP8_E4M3);
			struct qspec two = spec_of(kind, (struct tile){ 2, cols }, FP8_E5M2);

			check_backends(&packed, &one);
			check_backends(&packed, &two);
		}
		packed_free(&packed);
	}
}

/* Every scale with every code, each group a tile of its own. */
static void every_code_has_every_scale(void **state)
{
	struct packed packed = packed_new(253, 1, NEAR);

	(void)state;
	for (size_t row = 0; row < 253; row++) {
		packed.scales[row * packed.x.stride / MXFP4_GROUP] = (uint8_t)row;
		for (size_t i = 0; i < MXFP4_GROUP / 2; i++)
			packed.codes[row * packed.x.stride / 2 + i] =
				(uint8_t)(i * 0x11 & (row % 3 ? 0xFF : 0xBB));
	}
	packed_decode(&packed);
	for (size_t kind = 0; kind < N_KINDS; kind++) {
		struct qspec mx = spec_of(kind, (struct tile){ 1, 32 }, FP8_E4M3);
		struct qspec block = spec_of(kind, (struct tile){ 128, 128 }, FP8_E4M3);

		check_backends(&packed, &mx);
		check_backends(&packed, &block);
	}
	packed_free(&packed);
}

/* Says of each backend whether it takes the matrix; nothing is counted where it does not. */
static void check_refused(const struct packed *packed, struct tile tile)
{
	struct qspec spec = spec_of(6, tile, FP8_E4M3);
	struct output got;

	for (const struct backend *const *b = backends; *b; b++) {
		uint64_t n_changed = 7;

		if ((*b)->unusable())
			continue;
		output_init(&got, &packed->values, &spec, layout_plain);
		assert_false(backend_quantize_fp4(*b, &packed->x, &spec, &got.out, &n_changed));
		assert_int_equal(n_changed, 7);
		assert_int_equal(got.stats.saturated + got.stats.nonfinite, 0);
		output_release(&got);
	}
}

static void what_fp32_may_not_hold_is_not_taken(void **state)
{
	(void)state;
	for (int scale = 253; scale < 256; scale++) {
		struct packed packed = packed_new(130, 5, FAR);

		packed.scales[129 * packed.x.stride / MXFP4_GROUP + 4] = (uint8_t)scale;
		check_refused(&packed, (struct tile){ 128, 128 });
		check_refused(&packed, (struct tile){ 1, 32 });
		packed_free(&packed);
	}
}

static void tiles_of_parts_of_groups_are_not_taken(void **state)
{
	struct packed packed = packed_new(3, 2, NEAR);

	(void)state;
	check_refused(&packed, (struct tile){ 1, 16 });
	packed_free(&packed);
}

static void tiles_too_wide_are_not_taken(void **state)
{
	struct packed packed = packed_new(3, 1025, NEAR);

	(void)state;
	check_refused(&packed, (struct tile){ 1, WHOLE });
	check_refused(&packed, (struct tile){ 1, 1025 * MXFP4_GROUP });
	packed_free(&packed);
}

/* NEON has the casts of floats alone: there the values are made first. */
static void avx_does_not_go_through_values(void **state)
{
	(void)state;
	for (size_t i = 0; backends[i]; i++)
		assert_true(strncmp(backends[i]->name, "avx", 3) != 0 || backends[i]->quantize_fp4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_are_those_of_the_values),
		cmocka_unit_test(long_rows_are_as_short_ones),
		cmocka_unit_test(every_code_has_every_scale),
		cmocka_unit_test(what_fp32_may_not_hold_is_not_taken),
		cmocka_unit_test(tiles_of_parts_of_groups_are_not_taken),
		cmocka_unit_test(tiles_too_wide_are_not_taken),
		cmocka_unit_test(avx_does_not_go_through_values),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
