/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_layer_size(): what a plan tells of the memory of weights, of shapes whose sizes are
 * plain.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "sweep/weights.h"

#define MIB ((uint64_t)1 << 20)

/* 64 MiB in fp32, in 128 parts of 1024 rows. */
static const struct model tall = { .head = { .n = 131072, .k = 128 } };

static void parts_are_bounded_by_the_threads_that_find_one(void **state)
{
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	assert_int_equal(weights_layer_size(&tall, &kind, 1, false), 64 * MIB + MIB / 2);
	assert_int_equal(weights_layer_size(&tall, &kind, 16, false), 72 * MIB);
	/* There are no more parts than threads that find one. */
	assert_int_equal(weights_layer_size(&tall, &kind, 1000, false), 128 * MIB);
}

/* A layer is larger than a small head: 6 matrices of 1 MiB and one of 4, and a piece of 4 for each
 * of them at most. */
static void a_layer_counts_its_pieces(void **state)
{
	struct layer_ref layer = { .n_experts = 0 };
	const struct model model = { .head = { .n = 16, .k = 16 },
				     .n_layers = 1,
				     .layers = &layer };
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	for (int i = LINEAR_Q; i < LINEAR_Q + 7; i++)
		layer.linear[i] = (struct linear_ref){ .n = 512, .k = 512 };
	layer.linear[LINEAR_Q].k = 2048;
	assert_int_equal(weights_layer_size(&model, &kind, 2, false), 10 * MIB + 2 * 4 * MIB);
	assert_int_equal(weights_layer_size(&model, &kind, 7, false), 10 * MIB + 7 * 4 * MIB);
	assert_int_equal(weights_layer_size(&model, &kind, 64, false), 10 * MIB + 7 * 4 * MIB);
}

/* Loaded ahead, a stage lies beside the one before it, and the head beside the first layer when the
 * next sweep begins.  The memory for the largest piece is kept. */
static void a_layer_loaded_ahead_counts_beside_the_one_before(void **state)
{
	struct layer_ref layers[3] = { { .n_experts = 0 } };
	struct model model = { .head = { .n = 1024, .k = 512 }, .n_layers = 2, .layers = layers };
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	layers[0].linear[LINEAR_Q] = layers[2].linear[LINEAR_Q] =
		(struct linear_ref){ .n = 512, .k = 512 };
	layers[1].linear[LINEAR_Q] = (struct linear_ref){ .n = 512, .k = 2048 };
	assert_int_equal(weights_layer_size(&model, &kind, 2, false), (4 + 4) * MIB);
	assert_int_equal(weights_layer_size(&model, &kind, 2, true), (4 + 2 + 4) * MIB);
	model.n_layers = 1;
	assert_int_equal(weights_layer_size(&model, &kind, 2, true), (1 + 2 + 2) * MIB);
	model.layers = &layers[1];
	model.n_layers = 2;
	assert_int_equal(weights_layer_size(&model, &kind, 2, true), (2 + 4 + 4) * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_bounded_by_the_threads_that_find_one),
		cmocka_unit_test(a_layer_counts_its_pieces),
		cmocka_unit_test(a_layer_loaded_ahead_counts_beside_the_one_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
