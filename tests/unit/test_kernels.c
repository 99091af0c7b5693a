/* SPDX-License-Identifier: Apache-2.0
 *
 * Parity of every backend with the scalar reference over shapes, tiles, types, formats and contents.
 */
#include "tests/unit/kernel_parity.h"

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
				sample_new(dtypes[type], shapes[shape].rows, shapes[shape].cols,
					   shape % 2 ? BLOCKS : NORMAL);

			for (size_t i = 0; i < N_TILES; i++) {
				struct qspec spec = spec_of((shape + i) % N_KINDS, tiles[i], i % 2);

				check_case(&s, &spec, plain, 1.0f);
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
		struct sample s = sample_new(dtypes[type], type ? 300 : 2000, 1024, NORMAL);

		for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
			check_case(&s, &recipes[i], (struct layout){ .streaming = true }, 1.0f);
		guarded_free(s.data, s.size);
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
		struct sample s = sample_new(dtypes[random_below(3)], rows, cols,
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
		check_case(&s, &spec, l, factors[random_below(8)]);
		guarded_free(s.data, s.size);
	}
}

static void names(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_non_null(backend_select("auto", &err));
	assert_ptr_equal(backend_select("cpu", &err), backend_select("auto", &err));
	assert_null(backend_select("refrence", &err));
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "no backend 'refrence': did you mean 'reference'?");
	assert_null(backend_select("quantum", &err));
	assert_string_equal(err.message, "no backend 'quantum' in this build");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(parity_of_shapes),
		cmocka_unit_test(parity_of_recipes),
		cmocka_unit_test(parity_of_random_cases),
	};

	tell_skipped();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
