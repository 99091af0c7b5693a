/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantizers of every recipe and slot, in every usage: tests/golden/quantizer.txt.  And the places
 * of scales in memory: tests/golden/swizzle.txt.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "quantizer/state.h"
#include "support/golden.h"
#include "support/kernel_parity.h"

static void run_quantize(const void *args, const struct backend *backend, const struct quantizer *q,
			 struct quantized_tensor *t, struct quant_stats *stats)
{
	quantizer_quantize(q, backend, args, t, stats);
}

static void check_slot(const struct text *g, const struct input *in, void *context)
{
	struct matrix x = input_matrix(in);
	struct operation op = { run_quantize, &x, x.rows, x.cols };

	(void)context;
	golden_slot_check(g, &op);
}

static void quantizers_equal_the_golden_sums(void **state)
{
	(void)state;
	golden_slots_each(check_slot, NULL);
}

static void swizzled_scales_lie_where_the_golden_ones_do(void **state)
{
	static const struct qspec mx = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 };
	size_t n_lines = 0;
	struct text g;

	(void)state;
	text_open(&g, GOLDEN_DIR "swizzle.txt");
	for (; text_next(&g); n_lines++) {
		size_t rows = text_number(g.fields[0]), cols = text_number(g.fields[1]);
		uint64_t seed = text_number(g.fields[2]);
		struct scale_grid to = scale_grid_of(&mx, rows, cols, false, SCALES_GEMM);
		struct scale_grid from = scale_grid_of(&mx, rows, cols, false, SCALES_COMPACT);
		uint8_t *compact = calloc(from.rows, from.cols);
		uint8_t *swizzled = calloc(to.rows, to.cols);

		assert_true(compact && swizzled);
		assert_int_equal(to.rows * to.cols, text_number(g.fields[3]));
		for (size_t i = 0; i < from.rows; i++) {
			for (size_t j = 0; j < from.cols; j++) {
				uint8_t byte = (uint8_t)splitmix64(seed, i * from.cols + j);

				compact[scale_index(&from, i, j)] = byte;
				swizzled[scale_index(&to, i, j)] = byte;
			}
		}
		assert_true(hash_is(g.fields[4], compact, from.rows * from.cols));
		if (!hash_is(g.fields[5], swizzled, to.rows * to.cols))
			fail_msg("%s:%d: swizzled otherwise", g.name, g.line_no);
		free(compact);
		free(swizzled);
	}
	assert_int_equal(n_lines, 42);
}

/* The shapes that TransformerEngine's get_scale_shape() gives, by hand. */
static void scales_have_the_shapes_of_transformer_engine(void **state)
{
	static const struct qspec block_1d = { .tile = { 1, 128 } },
				  block_2d = { .tile = { 128, 128 } },
				  tensor = { .tile = { WHOLE, WHOLE } },
				  mx = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 };
	static const struct {
		const struct qspec *spec;
		bool columnwise;
		size_t rows, cols;
	} cases[] = { /* of x (300, 640) */
		      { &tensor, false, 1, 1 },	    { &tensor, true, 1, 1 },
		      { &block_1d, false, 5, 300 }, { &block_1d, true, 3, 640 },
		      { &block_2d, false, 3, 8 },   { &block_2d, true, 5, 4 },
		      { &mx, false, 384, 20 },	    { &mx, true, 12, 640 }
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		bool columnwise = cases[i].columnwise;
		struct scale_grid grid =
			scale_grid_of(cases[i].spec, columnwise ? 640 : 300, columnwise ? 300 : 640,
				      columnwise, SCALES_PADDED);

		assert_int_equal(grid.rows, cases[i].rows);
		assert_int_equal(grid.cols, cases[i].cols);
	}
}

static void assert_spec(const struct qspec *got, const struct qspec *want)
{
	assert_int_equal(got->format, want->format);
	assert_int_equal(got->tile.rows, want->tile.rows);
	assert_int_equal(got->tile.cols, want->tile.cols);
	assert_int_equal(got->scale_type, want->scale_type);
	assert_int_equal(got->pow2, want->pow2);
}

/* TransformerEngine's order of slots, and what each quantizer sees of the state. */
static void slots_have_the_order_of_transformer_engine(void **state)
{
	struct quantizer forward[2 * N_FORWARD_SLOTS], backward[2 * N_BACKWARD_SLOTS];
	struct recipe_state f, b;
	struct err err = { 0 };

	(void)state;
	for (const struct recipe *const *r = recipes; *r; r++) {
		recipe_state_init(&f, *r, MODE_FORWARD, 2);
		recipe_state_init(&b, *r, MODE_BACKWARD, 2);
		assert_int_equal(f.n_slots, 6);
		assert_int_equal(b.n_slots, 4);
		recipe_state_make_quantizers(&f, forward);
		recipe_state_make_quantizers(&b, backward);
		for (size_t i = 0; i < 6; i++) {
			assert_spec(&forward[i].spec, i % 3 == 1 ? &(*r)->weight : &(*r)->input);
			assert_true(forward[i].rowwise && forward[i].columnwise);
			assert_ptr_equal(forward[i].amax,
					 (*r)->needs_history ? &f.history.amax[i] : NULL);
			assert_ptr_equal(forward[i].scale,
					 (*r)->needs_history ? &f.history.scale[i] : NULL);
		}
		for (size_t i = 0; i < 4; i++)
			assert_spec(&backward[i].spec, &(*r)->grad);
		assert_int_equal(f.history.n_slots, (*r)->needs_history ? 6 : 0);
		recipe_state_release(&f);
		recipe_state_release(&b);
	}
	assert_int_equal(recipe_find("delayed", &err)->amax_history_len, 1024);
}

/* What is dequantized is what the codes and scales say; calibrating only looks. */
static void calibration_looks_and_quantization_comes_back(void **state)
{
	static const float x[2][4] = { { 1, -2, 0.5f, 0 }, { 3, 0.25f, -7, 4 } };
	struct matrix m = { x, DT_F32, 2, 4, 4 };
	const struct backend *backend;
	struct quantizer q[N_FORWARD_SLOTS];
	struct quantized_tensor t;
	struct quant_stats stats = { 0 };
	uint64_t n_nonfinite = 0;
	struct recipe_state s;
	struct err err = { 0 };
	float y[2][4];

	(void)state;
	backend = backend_select("auto", &err);
	recipe_state_init(&s, recipe_find("delayed", &err), MODE_FORWARD, 1);
	recipe_state_make_quantizers(&s, q);
	quantizer_calibrate(&q[SLOT_WEIGHT], backend, &m, &n_nonfinite);
	assert_true(s.history.amax[SLOT_WEIGHT] == 7 && s.history.amax[SLOT_INPUT] == 0);
	assert_true(s.history.scale[SLOT_WEIGHT] == 1);
	q[0].columnwise = false;
	assert_int_equal(quantizer_make_empty(&q[0], 2, 4, &t, &err), 0);
	quantizer_quantize(&q[0], backend, &m, &t, &stats);
	quantized_tensor_dequantize(&t, backend, DT_F32, y, 4);
	assert_memory_equal(x, y, sizeof x); /* E4M3 has them all, at scale 1 */
	quantized_tensor_release(&t);
	recipe_state_release(&s);

	recipe_state_init(&s, recipe_find("current", &err), MODE_FORWARD, 1);
	recipe_state_make_quantizers(&s, q);
	quantizer_calibrate(&q[0], backend, &m, &n_nonfinite); /* nothing to keep */
	recipe_state_release(&s);
}

/* The scale of a block fits the type of x: where that is bf16, 0x1.FEp127, and not fp32's FLT_MAX.
 */
static void the_scale_of_a_block_fits_its_type(void **state)
{
	static const uint16_t x[2] = { 0x0001, 0x0002 }; /* so small that 448 / amax is inf */
	struct quantizer q = { .spec = { .tile = { 1, 128 } },
			       .rowwise = true,
			       .columnwise = true };
	struct matrix m = { x, DT_BF16, 1, 2, 2 };
	struct quant_stats stats = { 0 };
	struct quantized_tensor t;
	struct err err = { 0 };

	(void)state;
	for (int order = SCALES_COMPACT; order <= SCALES_GEMM; order++) {
		q.order = (enum scale_order)order;
		assert_int_equal(quantizer_make_empty(&q, 1, 2, &t, &err), 0);
		quantizer_quantize(&q, backend_select("auto", &err), &m, &t, &stats);
		assert_true(*(float *)t.rowwise.scale_inv == 1.0f / 0x1.fep127f);
		assert_true(*(float *)t.columnwise.scale_inv == 1.0f / 0x1.fep127f);
		quantized_tensor_release(&t);
	}
}

static void a_size_that_overflows_is_refused(void **state)
{
	struct quantizer q = { .rowwise = true, .columnwise = true };
	struct quantized_tensor t;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(quantizer_make_empty(&q, SIZE_MAX / 2, 4, &t, &err), -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_null(t.rowwise.codes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantizers_equal_the_golden_sums),
		cmocka_unit_test(swizzled_scales_lie_where_the_golden_ones_do),
		cmocka_unit_test(scales_have_the_shapes_of_transformer_engine),
		cmocka_unit_test(slots_have_the_order_of_transformer_engine),
		cmocka_unit_test(calibration_looks_and_quantization_comes_back),
		cmocka_unit_test(the_scale_of_a_block_fits_its_type),
		cmocka_unit_test(a_size_that_overflows_is_refused),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
