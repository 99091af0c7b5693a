/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's executor: opening, memory, weights and their products.
 */
#include "tests/simt/executor_setup.h"

#include <sys/wait.h>
#include <unistd.h>

/* --- opening --- */

/* In a process of its own, for the library is looked for once. */
static void a_missing_library_is_told(void **state)
{
	pid_t child = fork();
	struct executor *executor;
	struct err err;
	int status;

	(void)state;
	assert_true(child >= 0);
	if (child == 0) {
		simt_lt_version = 111103;
		_exit(ops->open(&executor, 0, &err) == -1 && err.kind == ERR_SYSTEM &&
				      !strcmp(err.message, "cuBLASLt is version 11.11: install "
							   "version 12.0 or later")
			      ? 0
			      : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_missing_device_is_told(void **state)
{
	struct executor *executor;
	struct err err;

	(void)state;
	simt_missing = "CUDA 13.0: no CUDA-capable device is detected";
	assert_int_equal(ops->open(&executor, 0, &err), -1);
	simt_missing = NULL;
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_string_equal(
		err.message,
		"no usable GPU (CUDA 13.0: no CUDA-capable device is detected): use --backend cpu");
}

static void an_executor_opens_with_its_stream(void **state)
{
	struct bench b;

	(void)state;
	bench_init(&b);
	assert_string_equal(ops->name, "cuda");
	assert_ptr_equal(b.executor->ops, ops);
	assert_ptr_equal(b.stream->executor, b.executor);
	assert_int_equal(ops->bf16_type(), DT_BF16);
	assert_int_equal(ops->portion(PORTION_WEIGHT, 1), 1);
	assert_int_equal(ops->portion(PORTION_WEIGHT, 1024), 1024);
	assert_int_equal(ops->portion(PORTION_WEIGHT, 1025), 1024);
	assert_int_equal(ops->portion(PORTION_WEIGHT, 16384), 1024);
	assert_int_equal(ops->portion(PORTION_WEIGHT, 16385), 8192);
	bench_release(&b);
	ops->stream_free(NULL);
	ops->close(NULL);
}

/* --- memory --- */

static void bytes_go_there_and_back(void **state)
{
	static const char text[] = "0123456789";
	char back[sizeof text] = { 0 }, *there;
	struct bench b;

	(void)state;
	bench_init(&b);
	there = memory_new(&b, sizeof text);
	ops->put(b.stream, there, text, sizeof text);
	ops->zero(b.stream, there + 2, 3);
	ops->put(b.stream, there + 8, "ab", 2);
	ops->put(b.stream, there, "zz", 0);
	ops->fetch(b.stream, back, there, sizeof back);
	check(&b, ops->wait(b.stream, &b.err));
	assert_memory_equal(back,
			    "01\0\0\0"
			    "567ab",
			    sizeof text);
	ops->memory_free(b.executor, there);
	there = memory_new(&b, 0);
	ops->memory_free(b.executor, there);
	ops->memory_free(b.executor, NULL);
	bench_release(&b);
}

static void a_size_above_the_memory_is_refused(void **state)
{
	struct executor_weight weight = { .dtype = DT_F32, .n = (size_t)1 << 30, .k = 1 << 20 };
	struct bench b;
	void *there = &b;

	(void)state;
	bench_init(&b);
	assert_int_equal(
		ops->memory_new(b.executor, &there, (uint64_t)1 << 50, "the hidden states", &b.err),
		-1);
	assert_null(there);
	assert_int_equal(b.err.kind, ERR_SYSTEM);
	assert_string_equal(
		b.err.message,
		"the hidden states on GPU 0: 1073741824 MiB needed, 0 of 80 MiB free: reduce "
		"--max-memory or --threads");
	weight.executor = b.executor;
	assert_int_equal(ops->weight_init(&weight, &b.err), -1);
	assert_int_equal(strncmp(b.err.message, "a weight on GPU 0: 4294967296 MiB needed", 40), 0);
	ops->weight_release(&weight);
	bench_release(&b);
}

/* --- products --- */

static void parts_check(struct bench *b, struct product *p)
{
	for (size_t part = 0; part < executor_weight_panels(&p->weight); part++) {
		size_t n = executor_weight_panel_rows(&p->weight, part),
		       size = p->m * n * sizeof *p->y;
		float *y_there = memory_new(b, size);

		ops->multiply(b->stream,
			      &(const struct multiply_args){ &p->weight, p->x_there, p->m, y_there,
							     &part, false });
		ops->fetch(b->stream, p->y, y_there, size);
		check(b, ops->wait(b->stream, &b->err));
		product_check(p, p->y, part * p->weight.panel_rows, n);
		ops->memory_free(b->executor, y_there);
	}
}

static void products_are_exact_on_small_integers(void **state)
{
	static const struct product_shape rows[] = {
		{ DT_BF16, 1, 1, 1, 1 },      { DT_F32, 1, 1, 1, 1 },
		{ DT_BF16, 1, 17, 33, 17 },   { DT_F32, 1, 17, 33, 5 },
		{ DT_BF16, 5, 23, 9, 7 },     { DT_F32, 5, 21, 9, 7 },
		{ DT_BF16, 32, 64, 96, 64 },  { DT_F32, 33, 65, 127, 64 },
		{ DT_BF16, 31, 130, 64, 64 }, { DT_BF16, 3, 129, 255, 128 },
	};
	struct product p;
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		product_init(&b, &p, rows[i]);
		assert_int_equal(p.weight.panel_rows, rows[i].panel_rows);
		whole_check(&b, &p);
		parts_check(&b, &p);
		product_release(&b, &p);
	}
	bench_release(&b);
}

/* As many rows as lie in parts. */
static void rows_in_parts_give_the_same_product(void **state)
{
	static const struct {
		size_t n, n_panels;
	} rows[] = { { 2050, 3 }, { 16389, 3 } };
	struct product p;
	struct bench b;

	(void)state;
	bench_init(&b);
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		product_init(&b, &p, (struct product_shape){ DT_BF16, 2, rows[i].n, 3, 0 });
		assert_int_equal(executor_weight_panels(&p.weight), rows[i].n_panels);
		whole_check(&b, &p);
		parts_check(&b, &p);
		product_release(&b, &p);
	}
	bench_release(&b);
}

/* That of a weight serves the next one of its size, and where one of another size comes, it is
 * freed. */
static void memory_of_a_weight_serves_the_next(void **state)
{
	struct product p[3];
	struct bench b;
	void *data;
	long held;

	(void)state;
	bench_init(&b);
	product_init(&b, &p[0], (struct product_shape){ DT_BF16, 1, 8, 6, 0 });
	product_init(&b, &p[1], (struct product_shape){ DT_BF16, 1, 8, 4, 0 });
	data = p[0].weight.data;
	product_release(&b, &p[0]);
	product_release(&b, &p[1]);
	held = simt_held;
	product_init(&b, &p[0],
		     (struct product_shape){ DT_F32, 2, 3, 8, 0 }); /* 96 bytes, as the first */
	assert_ptr_equal(p[0].weight.data, data);
	assert_int_equal(simt_held, held + 2); /* x and y */
	whole_check(&b, &p[0]);
	product_init(&b, &p[2], (struct product_shape){ DT_F32, 1, 5, 5, 0 });
	assert_int_equal(simt_held, held + 4); /* x, y, and one for the other */
	whole_check(&b, &p[2]);
	product_release(&b, &p[0]);
	product_release(&b, &p[2]);
	bench_release(&b);
}

static void no_rows_call_nothing(void **state)
{
	long products_before = simt_lt_products;
	struct product p;
	struct bench b;

	(void)state;
	bench_init(&b);
	product_init(&b, &p, (struct product_shape){ DT_F32, 1, 3, 5, 3 });
	ops->multiply(b.stream, &(const struct multiply_args){ &p.weight, p.x_there, 0, p.y_there,
							       NULL, false });
	check(&b, ops->wait(b.stream, &b.err));
	assert_int_equal(simt_lt_products, products_before);
	product_release(&b, &p);
	bench_release(&b);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_missing_library_is_told), /* before any other looks for it */
		cmocka_unit_test(a_missing_device_is_told),
		cmocka_unit_test(an_executor_opens_with_its_stream),
		cmocka_unit_test(bytes_go_there_and_back),
		cmocka_unit_test(a_size_above_the_memory_is_refused),
		cmocka_unit_test(products_are_exact_on_small_integers),
		cmocka_unit_test(rows_in_parts_give_the_same_product),
		cmocka_unit_test(memory_of_a_weight_serves_the_next),
		cmocka_unit_test(no_rows_call_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
