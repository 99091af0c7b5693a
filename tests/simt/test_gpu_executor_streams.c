/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's executor: operations in the order in which a stream was given them, calls that fail,
 * streams in several threads.
 */
#include "tests/simt/executor_setup.h"

#include <pthread.h>

/* --- one stream --- */

#define M 5
#define N 24
#define K 40

static const uint32_t picked_rows[] = { 4, 1 };

/* A product, and what is done to it; what was fetched in between is as it was then. */
struct chain {
	struct product p;
	float *row, *more; /* (N) and (M, N), added */
	void *y, *row_there, *rounded_there, *picked_there, *stats_there, *rows_there;
	float multiplied[M * N], added[M * N], picked[2 * N];
	uint16_t rounded[M * N];
	struct value_stats stats;
};

static int chain_try(struct bench *b, struct chain *c)
{
	const struct {
		void **memory;
		size_t size;
	} pieces[] = { { &c->y, sizeof c->added },
		       { &c->row_there, N * sizeof *c->row },
		       { &c->rounded_there, sizeof c->rounded },
		       { &c->picked_there, sizeof c->picked },
		       { &c->stats_there, sizeof c->stats },
		       { &c->rows_there, sizeof picked_rows } };

	memset(c, 0, sizeof *c);
	c->row = values_new(N, DT_F32);
	c->more = values_new(M * N, DT_F32);
	if (product_try(b, &c->p, (struct product_shape){ DT_BF16, M, N, K, N }))
		return -1;
	for (size_t i = 0; i < N_ROWS(pieces); i++) {
		if (ops->memory_new(b->executor, pieces[i].memory, pieces[i].size, "values",
				    &b->err))
			return -1;
	}
	return 0;
}

static void chain_release(struct bench *b, struct chain *c)
{
	void *const pieces[] = { c->y,		 c->row_there, c->rounded_there, c->picked_there,
				 c->stats_there, c->rows_there };

	for (size_t i = 0; i < N_ROWS(pieces); i++)
		ops->memory_free(b->executor, pieces[i]);
	product_release(b, &c->p);
	free(c->row);
	free(c->more);
}

static int chain_run(struct bench *b, struct chain *c)
{
	struct executor_stream *stream = b->stream;

	ops->multiply(stream, &(const struct multiply_args){ &c->p.weight, c->p.x_there, M, c->y,
							     NULL, false });
	ops->fetch(stream, c->multiplied, c->y, sizeof c->multiplied);
	ops->put(stream, c->row_there, c->row, N * sizeof *c->row);
	ops->add(stream, &(const struct add_args){ c->y, c->row_there, M, N, NULL });
	ops->put(stream, c->p.y_there, c->more, sizeof c->added);
	ops->add(stream, &(const struct add_args){ c->y, c->p.y_there, 1, M * N, NULL });
	ops->fetch(stream, c->added, c->y, sizeof c->added);
	ops->round(stream, &(const struct round_args){ .x = c->y,
						       .n = M * N,
						       .rounded = { .codes = c->rounded_there } });
	ops->fetch(stream, c->rounded, c->rounded_there, sizeof c->rounded);
	ops->put(stream, c->rows_there, picked_rows, sizeof picked_rows);
	ops->copy(stream, &(const struct copy_args){ .y = { c->picked_there, N },
						     .x = { c->y, N },
						     .n_rows = 2,
						     .n_cols = N,
						     .rows = c->rows_there });
	ops->fetch(stream, c->picked, c->picked_there, sizeof c->picked);
	ops->zero(stream, c->stats_there, sizeof c->stats);
	ops->measure(stream, &(const struct measure_args){ c->y, M * N, c->stats_there, NULL });
	ops->fetch(stream, &c->stats, c->stats_there, sizeof c->stats);
	return ops->wait(stream, &b->err);
}

static void chain_check(const struct chain *c)
{
	float amax = 0;

	product_check(&c->p, c->multiplied, 0, N);
	for (size_t i = 0; i < M * N; i++) {
		float sum = c->multiplied[i] + c->row[i % N];

		sum += c->more[i];
		assert_true(c->added[i] == sum);
		assert_int_equal(c->rounded[i], bf16_from_f32(sum));
		amax = fmaxf(amax, fabsf(sum));
	}
	for (size_t i = 0; i < 2; i++)
		assert_memory_equal(c->picked + i * N, c->added + picked_rows[i] * N,
				    N * sizeof *c->picked);
	assert_true(c->stats.amax == amax);
	assert_int_equal(c->stats.n_nonfinite, 0);
}

static void a_chain_gives_its_known_result(void **state)
{
	struct chain c;
	struct bench b;

	(void)state;
	bench_init(&b);
	check(&b, chain_try(&b, &c));
	for (int i = 0; i < 2; i++) {
		check(&b, chain_run(&b, &c));
		chain_check(&c);
	}
	chain_release(&b, &c);
	bench_release(&b);
}

/* --- what fails --- */

/* Whatever fails is told by the call, or by the first wait(); nothing is left behind. */
static void a_failed_call_is_told_and_leaves_nothing(void **state)
{
	long n = 0;
	int rc;

	(void)state;
	do {
		struct chain c = { 0 };
		struct bench b;

		simt_calls_left = n++;
		rc = bench_try(&b) || chain_try(&b, &c) || chain_run(&b, &c);
		simt_calls_left = -1;
		if (rc) {
			assert_int_equal(b.err.kind, ERR_SYSTEM);
			assert_non_null(strstr(b.err.message, " on GPU 0: "));
		} else {
			chain_check(&c);
		}
		if (b.stream)
			assert_int_equal(ops->wait(b.stream, &b.err), 0);
		chain_release(&b, &c);
		bench_release(&b);
		assert_true(n < 200);
	} while (rc);
	assert_true(n > 30);
}

/* A weight is set when the call returns: it needs a stream, a copy, a wait. */
static void a_weight_that_cannot_be_set_is_told(void **state)
{
	const float row[] = { 1, 2, 3 };
	long n = 0;
	int rc;

	(void)state;
	do {
		struct executor_weight weight = {
			.dtype = DT_F32, .n = 1, .k = 3, .panel_rows = 1
		};
		struct bench b;

		bench_init(&b);
		weight.executor = b.executor;
		check(&b, ops->weight_init(&weight, &b.err));
		simt_calls_left = n++;
		rc = ops->weight_set(&weight, 0, row, &b.err);
		simt_calls_left = -1;
		check(&b, ops->weight_set(&weight, 0, row, &b.err));
		ops->weight_release(&weight);
		bench_release(&b);
	} while (rc);
	assert_int_equal(n - 1, 3);
}

/* The stream that failed goes on when it has told. */
static void a_failed_product_leaves_the_stream_usable(void **state)
{
	struct chain c;
	struct bench b;

	(void)state;
	bench_init(&b);
	check(&b, chain_try(&b, &c));
	simt_lt_fails = "Matmul";
	assert_int_equal(chain_run(&b, &c), -1);
	simt_lt_fails = NULL;
	assert_string_equal(b.err.message,
			    "cublasLtMatmul on GPU 0: the GPU program failed to execute");
	check(&b, chain_run(&b, &c));
	chain_check(&c);
	chain_release(&b, &c);
	bench_release(&b);
}

/* --- threads --- */

#define N_THREADS 3

/* A thread's, for one round: it sets its part of the weight and multiplies all of another, in the
 * stream that it is given. */
struct task {
	struct bench b;
	const struct product *set, *multiplied;
	size_t part;
	void *y_there;
	float *y;
	int rc;
};

static void *task_run(void *shared)
{
	struct task *t = shared;
	const struct product *p = t->multiplied;
	const struct executor_weight *weight = &t->set->weight;

	ops->multiply(t->b.stream, &(const struct multiply_args){ &p->weight, p->x_there, p->m,
								  t->y_there, NULL, false });
	ops->fetch(t->b.stream, t->y, t->y_there, p->m * p->weight.n * sizeof *t->y);
	t->rc = ops->weight_set(weight, t->part,
				t->set->w + t->part * weight->panel_rows * weight->k, &t->b.err) ||
		ops->wait(t->b.stream, &t->b.err);
	return NULL;
}

static void round_run(struct task *tasks)
{
	pthread_t threads[N_THREADS];

	for (size_t i = 0; i < N_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, task_run, &tasks[i]), 0);
	for (size_t i = 0; i < N_THREADS; i++) {
		assert_int_equal(pthread_join(threads[i], NULL), 0);
		check(&tasks[i].b, tasks[i].rc);
	}
}

/* Lanes go from thread to thread, and the same comes of each. */
static void streams_move_between_threads(void **state)
{
	struct task tasks[N_THREADS] = { 0 };
	struct product p, set;
	struct bench b;
	size_t size;

	(void)state;
	bench_init(&b);
	product_init(&b, &p, (struct product_shape){ DT_BF16, 9, 31, 65, 31 });
	product_init(&b, &set, (struct product_shape){ DT_F32, 2, 32, 7, 11 });
	size = p.m * p.weight.n * sizeof(float);
	for (size_t i = 0; i < N_THREADS; i++) {
		tasks[i] = (struct task){
			b, &set, &p, i, memory_new(&b, size), values_new(p.m * p.weight.n, DT_F32),
			0
		};
		check(&b, ops->stream_new(&tasks[i].b.stream, b.executor, &b.err));
	}
	for (int round = 0; round < 3; round++) {
		struct executor_stream *first = tasks[0].b.stream;

		round_run(tasks);
		for (size_t i = 0; i < N_THREADS; i++) {
			product_check(&p, tasks[i].y, 0, p.weight.n);
			assert_memory_equal(tasks[i].y, tasks[0].y, size);
			tasks[i].b.stream = i + 1 < N_THREADS ? tasks[i + 1].b.stream : first;
		}
	}
	whole_check(&b, &set);
	for (size_t i = 0; i < N_THREADS; i++) {
		ops->stream_free(tasks[i].b.stream);
		ops->memory_free(b.executor, tasks[i].y_there);
		free(tasks[i].y);
	}
	product_release(&b, &p);
	product_release(&b, &set);
	bench_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chain_gives_its_known_result),
		cmocka_unit_test(a_failed_call_is_told_and_leaves_nothing),
		cmocka_unit_test(a_weight_that_cannot_be_set_is_told),
		cmocka_unit_test(a_failed_product_leaves_the_stream_usable),
		cmocka_unit_test(streams_move_between_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
