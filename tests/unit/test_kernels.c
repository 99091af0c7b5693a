/* SPDX-License-Identifier: Apache-2.0
 *
 * Parity of every backend with the scalar reference over shapes, tiles, types, formats and
 * contents.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backends_are_selected_by_name),
		cmocka_unit_test(parity_of_shapes),
		cmocka_unit_test(parity_of_recipes),
		cmocka_unit_test(parity_of_rows),
		cmocka_unit_test(parity_of_fused_rows),
		cmocka_unit_test(parity_of_random_cases),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
