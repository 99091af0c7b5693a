/* SPDX-License-Identifier: Apache-2.0
 *
 * How many passes a sweep takes: a minute of them, by a clock that the test sets; of a model that
 * loads slowly so many that loading is a quarter.  How much of its work is shown as done, by
 * multiply-adds that the test counts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "sweep/sweep.h"

static double clock_now;

static double now(void)
{
	return clock_now;
}

/* A sweep of n passes: seconds that n_loading threads loaded, and of everything. */
static size_t sweep_loading(struct sweep_length *length, size_t n, double loading, int n_loading,
			    double taken, int n_threads)
{
	double began = sweep_length_now(length), end = clock_now + taken;

	clock_now += loading;
	sweep_length_loaded(length, began, n_loading);
	clock_now = end;
	return sweep_length_next(length, n, n_threads);
}

static size_t sweep(struct sweep_length *length, size_t n, double loading, double taken,
		    int n_threads)
{
	return sweep_loading(length, n, loading, 1, taken, n_threads);
}

static void a_sweep_takes_a_minute(void **state)
{
	struct sweep_length length = { .now = now, .first = 2 };

	(void)state;
	clock_now = 1000;
	assert_int_equal(sweep_length_begin(&length, 100), 2);
	/* 8 seconds for 2 passes, and 2 to load: (60 - 2) / 4. */
	assert_int_equal(sweep(&length, 2, 2, 10, 1), 14);
	/* 8 seconds of 2 threads' time are 4. (60 - 4) / (56 / 14). */
	assert_int_equal(sweep(&length, 14, 8, 60, 2), 14);
	assert_int_equal(sweep_loading(&length, 14, 4, 2, 60, 2), 14);
	/* What took longer than the rest before: (60 - 2) / 58. */
	assert_int_equal(sweep(&length, 1, 2, 60, 1), 1);
}

static void loading_is_a_quarter_of_the_passes(void **state)
{
	struct sweep_length length = { .now = now, .first = 1 };

	(void)state;
	sweep_length_begin(&length, 100);
	/* 40 seconds to load, 20 a pass: 120 seconds of passes, so that 40 are a quarter. */
	assert_int_equal(sweep(&length, 1, 40, 60, 1), 6);
	assert_int_equal(sweep(&length, 6, 40, 160, 1), 6);
}

static void the_length_keeps_its_bounds(void **state)
{
	struct sweep_length length = { .now = now, .first = 4 }, still = { .first = 3 };

	(void)state;
	assert_int_equal(sweep_length_begin(&length, 2), 2);
	assert_int_equal(sweep(&length, 2, 0, 0, 1), 2);
	assert_int_equal(sweep(&length, 2, 1, 1.5, 1), 2);
	assert_int_equal(sweep(&length, 2, 1, 10000, 1), 1);
	assert_int_equal(sweep_length_begin(&still, 100), 3);
	assert_int_equal(sweep_length_next(&still, 3, 1), 3);
	assert_int_equal(sweep_length_begin(&still, 2), 2);
}

/* Three sequences take two threads as long as four. */
static void a_sweep_gives_all_threads_as_much(void **state)
{
	struct sweep_length length = { .now = now, .first = 3, .step = 2 };

	(void)state;
	assert_int_equal(sweep_length_begin(&length, 15), 4);
	/* (60 - 2) / 4 is 14.5, / 4.3 is 13.5, / 5.5 is 10.5; never above the most. */
	assert_int_equal(sweep(&length, 2, 2, 10, 1), 14);
	assert_int_equal(sweep(&length, 2, 2, 10.6, 1), 14);
	assert_int_equal(sweep(&length, 2, 2, 13, 1), 10);
	assert_int_equal(sweep(&length, 2, 0, 0.1, 1), 15);
	assert_int_equal(sweep(&length, 2, 1, 10000, 1), 2);
}

#define N_TOKENS    16
#define N_SEQUENCES 6

/* The multiply-adds of a run, of matrices alone. */
struct counted {
	double done, total;
	bool later; /* than the first tenth, at some time */
};

/* Returns those of a sequence in a stage, by the shapes of tensors. */
static double counted_work(const struct model *model, size_t stage)
{
	const struct layer_ref *layer = &model->layers[stage];
	double sum = 0;

	if (stage == model->n_layers)
		return (double)N_TOKENS * (double)(model->vocab_size * model->hidden);
	for (size_t i = 0; i < N_LINEARS; i++) {
		const struct tensor_ref *weight = layer->linear[i].weight;

		if (weight)
			sum += (double)(weight->tensor->shape[0] * weight->tensor->shape[1]);
	}
	return N_TOKENS * sum;
}

/* Before a sequence goes through a stage: is the time that is left, by the rate so far, within a
 * quarter of the true one? */
static int check_left(void *context, struct sweep *sweep, int worker, struct span sequences,
		      struct err *err)
{
	const struct sweep_progress *progress = sweep->progress;
	const struct model *model = sweep->runners[0].from->model;
	struct counted *counted = context;
	double done = (double)atomic_load(&progress->done), left = counted->total - counted->done;
	double total = (double)(N_SEQUENCES * N_TOKENS * atomic_load(&progress->token));

	assert_int_equal(sequences.n, 1);
	if (counted->done >= 0.1 * counted->total) {
		assert_true(fabs(counted->done * (total - done) / done - left) <= left / 4);
		counted->later = true;
	}
	counted->done += counted_work(model, atomic_load(&progress->layer) - 1);
	return runner_run(&sweep->runners[0], worker, sequences, err);
}

static int no_stage_begins(void *context, struct sweep *sweep, struct err *err)
{
	(void)context, (void)sweep, (void)err;
	return 0;
}

static int nothing_ends(void *context, const struct sweep *sweep, struct err *err)
{
	(void)context, (void)sweep, (void)err;
	return 0;
}

static void observe_nothing(void *context, const struct observation *observation)
{
	(void)context, (void)observation;
}

static void run_counted(const struct model *model, const struct dataset *data)
{
	const struct backend *backend = backend_select("cpu", &(struct err){ 0 });
	const struct sweep_params params = { .io = &io_system,
					     .models = { { .model = model } },
					     .n_models = 1,
					     .data = data,
					     .executor = backend->executor,
					     .batch = 1,
					     .n_threads = 1 };
	struct counted counted = { 0 };
	const struct sweep_events events = { .context = &counted,
					     .observers = { { .context = &counted,
							      .observe = observe_nothing } },
					     .stage_begins = no_stage_begins,
					     .run = check_left,
					     .stage_ends = nothing_ends,
					     .sweep_ends = nothing_ends };
	struct sweep_progress progress = { 0 };
	struct sweep_plan plan;
	struct sweep sweep;
	struct err err;

	for (size_t i = 0; i <= model->n_layers; i++)
		counted.total += N_SEQUENCES * counted_work(model, i);
	assert_int_equal(sweep_plan_make(&plan, &params, &err), 0);
	assert_int_equal(sweep_open(&sweep, &plan, backend, NULL, &progress, &err), 0);
	assert_int_equal(sweep_run(&sweep, 0, &events, &err), 0);
	assert_true(counted.later);
	assert_int_equal(atomic_load(&progress.done),
			 N_SEQUENCES * N_TOKENS * atomic_load(&progress.token));
	sweep_release(&sweep);
}

/* The head has 131072 weights and a layer 196608. */
static void a_large_head_is_shown_as_its_part_of_the_work(void **state)
{
	uint32_t tokens[N_SEQUENCES * N_TOKENS];
	struct dataset_sequence sequences[N_SEQUENCES];
	const struct dataset data = { .ids = { .ids = tokens, .n = N_SEQUENCES * N_TOKENS },
				      .sequences = sequences,
				      .n = N_SEQUENCES };
	struct checkpoint checkpoint;
	struct model model;
	size_t n_layers;
	struct err err;

	(void)state;
	for (size_t i = 0; i < N_SEQUENCES; i++)
		sequences[i] = (struct dataset_sequence){ i * N_TOKENS, N_TOKENS };
	for (uint32_t i = 0; i < N_SEQUENCES * N_TOKENS; i++)
		tokens[i] = i * i % 251;
	assert_int_equal(
		checkpoint_open(&checkpoint, &io_system, "sample_checkpoints/tiny-llama", 1, &err),
		0);
	assert_int_equal(model_open(&model, &checkpoint, "", &err), 0);
	n_layers = model.n_layers;
	for (model.n_layers = 1; model.n_layers <= n_layers; model.n_layers++)
		run_counted(&model, &data);
	model.n_layers = n_layers;
	model_release(&model);
	checkpoint_release(&checkpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sweep_takes_a_minute),
		cmocka_unit_test(loading_is_a_quarter_of_the_passes),
		cmocka_unit_test(the_length_keeps_its_bounds),
		cmocka_unit_test(a_sweep_gives_all_threads_as_much),
		cmocka_unit_test(a_large_head_is_shown_as_its_part_of_the_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
