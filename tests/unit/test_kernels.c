/* SPDX-License-Identifier: Apache-2.0
 *
 * Parity of every backend with the scalar reference over shapes, tiles, types, formats and
 * contents.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "support/kernel_parity.h"

#define N_RANDOM_CASES 2000

static const struct tile tiles[] = {
	{ WHOLE, WHOLE }, { 1, WHOLE }, { 128, 128 },	{ 1, 128 },	{ 1, 32 },
	{ 1, 16 },	  { 3, 5 },	{ WHOLE, 128 }, { 128, WHOLE }, { 2, 32 },
	{ 64, 33 },	  { 1, 64 },	{ 1, 5000 },	{ 1, 1 },
};

#define N_TILES (sizeof tiles / sizeof *tiles)

/* Shapes of edge tiles, and those where panels and vectors end. */
static const struct {
	size_t rows, cols;
} shapes[] = {
	{ 128, 128 }, { 256, 272 }, { 303, 300 }, { 305, 256 }, { 993, 512 }, { 65, 96 },
	{ 1, 16 },    { 1024, 1 },  { 512, 512 }, { 1, 4097 },	{ 3, 8200 },  { 2, 63 },
	{ 129, 64 },  { 0, 7 },	    { 7, 0 },	  { 2, 1055 },
};

#define N_SHAPES (sizeof shapes / sizeof *shapes)

static void parity_of_shapes(void **state)
{
	(void)state;
	for (size_t shape = 0; shape < N_SHAPES; shape++) {
		for (size_t type = 0; type < 3; type++) {
			struct sample s =
				sample_new(sample_dtypes[type], shapes[shape].rows,
					   shapes[shape].cols, shape % 2 ? BLOCKS : NORMAL);

			for (size_t i = 0; i < N_TILES; i++) {
				struct qspec spec = spec_of((shape + i) % N_KINDS, tiles[i], i % 2);

				parity_check(&s, &spec, layout_plain, 1.0f);
			}
			guarded_free(s.data, s.size);
		}
	}
}

/* Each recipe's tile and arithmetic on a matrix of several panels a row. */
static void parity_of_recipes(void **state)
{
	static const struct qspec recipes[] = {
		{ .tile = { WHOLE, WHOLE } },
		{ .tile = { 1, WHOLE } },
		{ .tile = { 128, 128 }, .pow2 = true },
		{ .tile = { 128, 128 }, .arith = ARITH_DEEPSEEK },
		{ .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
		{ .tile = { WHOLE, WHOLE }, .format = FP8_E5M2 },
	};

	(void)state;
	for (size_t type = 0; type < 3; type++) {
		struct sample s = sample_new(sample_dtypes[type], type ? 300 : 2000, 1024, NORMAL);

		for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
			parity_check(&s, &recipes[i], (struct layout){ .streaming = true }, 1.0f);
		guarded_free(s.data, s.size);
	}
}

/* An operation whose output is FP8: a cast of x, or a norm or an activation of it. */
struct fused {
	enum { TO_CAST, TO_NORM, TO_ACTIVATE, N_FUSED } operation;
	struct norm_args norm;
	struct activation_args activation;
};

/* Writes the rowwise copy alone. */
static void run_fused(const struct fused *f, const struct backend *backend, struct output *o,
		      float *amax)
{
	const struct matrix *x = o->x;
	const struct qspec *spec = o->spec;
	struct scale_grid grid = scale_row_major(tile_count(x->rows, spec->tile.rows),
						 tile_count(x->cols, spec->tile.cols));
	struct fp8_out out = { .rowwise = { o->codes, x->cols, 1, o->scales, grid },
			       .amax = amax,
			       .stats = &o->stats };

	if (f->operation == TO_CAST)
		backend_cast_transpose(backend, x, spec, &out);
	else if (f->operation == TO_NORM)
		backend_norm(backend, &f->norm, spec, &out);
	else
		backend_activate(backend, &f->activation, spec, &out);
}

static void check_fused(const struct fused *f, const struct matrix *x, const struct qspec *spec)
{
	static const char *const names[] = { "cast_transpose", "norm", "activate" };
	const struct backend *reference = backend_select("reference", &(struct err){ 0 });
	struct output want, got;
	float want_amax = 0x1p-20f;

	output_init(&want, x, spec, layout_plain);
	run_fused(f, reference, &want, &want_amax);
	for (const struct backend *const *b = backends; *b; b++) {
		float amax = 0x1p-20f;

		if ((*b)->unusable())
			continue;
		output_init(&got, x, spec, layout_plain);
		run_fused(f, *b, &got, &amax);
		outputs_check(names[f->operation], *b, &want, &got);
		assert_int_equal(f32_bits(amax), f32_bits(want_amax));
		output_release(&got);
	}
	output_release(&want);
}

/* All operations; gamma is the first row of x, and `up` is x. */
static void check_all_fused(const struct matrix *x, const struct qspec *spec)
{
	float *rsigma = calloc(x->rows, sizeof *rsigma);
	struct fused f = { .norm = { .x = *x, .gamma = *x, .epsilon = 1e-5f, .rsigma = rsigma },
			   .activation = { ACT_SILU, *x, *x } };

	assert_non_null(rsigma);
	f.norm.gamma.rows = 1;
	for (int operation = 0; operation < N_FUSED; operation++) {
		f.operation = operation;
		check_fused(&f, x, spec);
	}
	free(rsigma);
}

/* Rows that a GPU's threads fill, and one that they do not, of all types of x and the other input
 * of a norm or an activation. */
static void parity_of_fused_rows(void **state)
{
	static const struct {
		size_t rows, cols;
	} cases[] = { { 5, 128 }, { 3, 1024 }, { 2, 1032 }, { 3, 3072 }, { 2, 32768 } };
	enum { N_CASES = sizeof cases / sizeof *cases, N_TYPES = 3, N_WAYS = 8 };
	const struct qspec spec = { .tile = { 1, WHOLE } };

	(void)state;
	for (size_t i = 0; i < N_CASES * N_TYPES * N_TYPES; i++) {
		size_t rows = cases[i % N_CASES].rows, cols = cases[i % N_CASES].cols;
		struct sample x =
			sample_new(sample_dtypes[i / N_CASES % N_TYPES], rows, cols, NORMAL);
		struct sample other =
			sample_new(sample_dtypes[i / N_CASES / N_TYPES], rows, cols, NORMAL);
		float mu[5], rsigma[5];
		struct fused f = { .norm = { .x = x.x, .gamma = other.x, .epsilon = 1e-5f } };

		f.norm.gamma.rows = 1;
		f.norm.rsigma = rsigma;
		for (int way = 0; way < N_WAYS; way++) {
			f.operation = TO_NORM;
			f.norm.kind = way & 1 ? NORM_LAYER : NORM_RMS;
			f.norm.mu = way & 1 ? mu : NULL;
			f.norm.zero_centered_gamma = way & 2;
			f.norm.beta = (struct matrix){ 0 };
			if (way & 1 && way & 4) {
				f.norm.beta = f.norm.gamma;
				f.norm.beta.data = other.data + other.x.stride * other.element_size;
			}
			check_fused(&f, &x.x, &spec);
		}
		f.operation = TO_ACTIVATE;
		for (int gated = 0; gated < 2; gated++) {
			f.activation = (struct activation_args){ ACT_SILU, x.x, { 0 } };
			if (gated)
				f.activation.up = other.x;
			check_fused(&f, &x.x, &spec);
		}
		guarded_free(other.data, other.size);
		guarded_free(x.data, x.size);
	}
}

/* Tiles of one row, at the widths from which on another number of a GPU's threads has one. */
static void parity_of_rows(void **state)
{
	static const struct {
		size_t rows, cols, tile_cols;
	} cases[] = {
		{ 300, 127, WHOLE }, { 300, 128, WHOLE }, { 257, 129, WHOLE }, { 70, 256, WHOLE },
		{ 70, 257, WHOLE },  { 33, 2048, WHOLE }, { 9, 2049, WHOLE },  { 5, 4096, WHOLE },
		{ 5, 4097, WHOLE },  { 3, 8193, WHOLE },  { 3, 16384, WHOLE }, { 3, 16385, WHOLE },
		{ 2, 32768, WHOLE }, { 2, 32769, WHOLE }, { 70, 300, 16 },     { 70, 300, 64 },
		{ 33, 1000, 200 },   { 9, 5000, 2056 },	  { 9, 5000, 2057 },   { 2, 33000, 32768 },
		{ 1, 66000, 32776 }, { 3, 2000, 1999 },	  { 3, 3072, WHOLE },  { 3, 7168, WHOLE },
		{ 2, 11008, WHOLE }, { 70, 88, WHOLE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tile tile = { 1, cases[i].tile_cols };

		for (size_t kind = 0; kind < 2; kind++) {
			struct sample s = sample_new(sample_dtypes[(i + kind) % 3], cases[i].rows,
						     cases[i].cols, kind ? BLOCKS : NORMAL);
			struct qspec spec =
				spec_of((i + kind) % N_KINDS, tile, (enum fp8_format)kind);

			parity_check(&s, &spec, layout_plain, 1.0f);
			check_all_fused(&s.x, &spec);
			guarded_free(s.data, s.size);
		}
	}
}

static void parity_of_random_cases(void **state)
{
	static const float epsilons[] = { 0, 0, 0, 1e-12f, 1.0f };
	static const float factors[] = { 1, 1, 1, 0.75f, 0.25f, 0, 3, 0x1p-120f };

	(void)state;
	for (int n = 0; n < N_RANDOM_CASES; n++) {
		size_t rows = 1 + random_below(n % 10 ? 20 : 300),
		       cols = 1 + random_below(n % 7 ? 300 : 5000 / rows);
		struct sample s = sample_new(sample_dtypes[random_below(3)], rows, cols,
					     (enum content)random_below(N_CONTENTS + 1));
		struct tile tile = random_below(4)
					   ? tiles[random_below(N_TILES)]
					   : (struct tile){ random_below(9), random_below(200) };
		struct qspec spec =
			spec_of(random_below(N_KINDS), tile, (enum fp8_format)random_below(2));
		struct layout l = { random_below(2) ? random_below(64) : 0,
				    random_below(2) ? random_below(9) : 0, random_below(4),
				    random_below(4), random_below(2) };

		spec.margin = random_below(4) ? 0 : (int)random_below(65) - 32;
		spec.amax_epsilon = epsilons[random_below(5)];
		parity_check(&s, &spec, l, factors[random_below(8)]);
		guarded_free(s.data, s.size);
	}
}

static void backends_are_selected_by_name(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_non_null(backend_select("auto", &err));
	assert_false(backend_select("cpu", &err)->on_device);
	assert_ptr_equal(backend_select(NULL, &err), backend_select("auto", &err));
	assert_null(backend_select("refrence", &err));
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "unknown backend 'refrence' (did you mean 'reference'?)");
	assert_null(backend_select("quantum", &err));
	assert_string_equal(err.message, "unknown backend 'quantum' (see 'fp8conv version')");
}

/* --- kernels values --- */

/* Parity of every backend with the scalar reference on all values of a kind: scales around what is
 * special, all numbers of 16 bits, all codes. */

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
		bool f32 = n / 6 < 10;
		const void *scale_inv = f32 ? (const void *)&scales[n / 6] : &e8m0[n / 6 - 10];
		struct quant_in q = {
			codes,	   1, 256, 256, n % 2, { 1, WHOLE }, f32 ? SCALE_F32 : SCALE_E8M0,
			scale_inv, 1
		};
		enum dtype dtype = sample_dtypes[n / 2 % 3];

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
		cmocka_unit_test(backends_are_selected_by_name),
		cmocka_unit_test(parity_of_shapes),
		cmocka_unit_test(parity_of_recipes),
		cmocka_unit_test(parity_of_rows),
		cmocka_unit_test(parity_of_fused_rows),
		cmocka_unit_test(parity_of_random_cases),
		cmocka_unit_test(parity_of_scales),
		cmocka_unit_test(parity_of_all_halves),
		cmocka_unit_test(parity_of_all_codes),
		cmocka_unit_test(parity_of_finite_codes),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
