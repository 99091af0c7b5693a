/* SPDX-License-Identifier: Apache-2.0
 *
 * A forward pass whose matrices take a few rows at a time gives what one gives that takes all: the
 * stream, and the value stats.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "forward/workspace.h"
#include "sweep/embed.h"
#include "sweep/weights.h"

#define N_TOKENS 50
#define MOST	 (1 << 16)

static const char *const models[] = { "sample_checkpoints/tiny-llama",
				      "sample_checkpoints/tiny-moe/per-expert" };

static size_t seven(enum executor_portion what, size_t n)
{
	return what == PORTION_ROWS ? 7 : n;
}

static size_t all(enum executor_portion what, size_t n)
{
	return what == PORTION_ROWS ? SIZE_MAX : n;
}

/* What is left of a pass through all layers. */
struct outcome {
	size_t n_values, n_slots; /* of a layer */
	float residual[MOST];
	struct value_stats stats[MOST];
};

static void run_layers(struct weights *weights, struct workspace *workspace,
		       struct sequence *sequence, struct outcome *outcome)
{
	const struct forward *forward = weights->forward;
	const struct model *model = forward->model;
	struct embed_workspace embed = { 0 };
	struct err err;

	assert_int_equal(embed_init(&embed, model, N_TOKENS, &err), 0);
	assert_int_equal(embed_run(&embed, weights, workspace, sequence, &err), 0);
	embed_release(&embed);
	for (size_t i = 0; i < model->n_layers; i++) {
		struct weights_load load;
		struct layer layer;
		const struct pass pass = { forward, workspace, &layer, sequence };
		int rc = weights_begin_layer(&load, weights, &workspace->stream, &model->layers[i],
					     &layer, &err);

		sequence->stats = outcome->stats + i * outcome->n_slots;
		assert_int_equal(rc || weights_load_pieces(&load, &err), 0);
		weights_load_end(&load);
		assert_int_equal(forward_layer(&pass, &err), 0);
		layer_release(&layer, forward->executor);
	}
}

static struct outcome *run(const char *path,
			   size_t (*portion)(enum executor_portion what, size_t n))
{
	const struct backend *backend = backend_select("cpu", &(struct err){ 0 });
	struct executor_ops ops;
	struct outcome *outcome = calloc(1, sizeof *outcome);
	struct sequence sequence = { .n_tokens = N_TOKENS, .residual = outcome->residual };
	uint32_t tokens[N_TOKENS];
	struct checkpoint checkpoint;
	struct workspace *workspace;
	struct forward forward;
	const struct workspace_shape shape = { N_TOKENS, 1 };
	const struct weights_params params = { &forward, &io_system, 1, NULL };
	struct weights weights;
	struct model model;
	struct err err;

	for (uint32_t i = 0; i < N_TOKENS; i++)
		tokens[i] = i * i % 251;
	sequence.tokens = tokens;
	assert_int_equal(checkpoint_open(&checkpoint, &io_system, path, 1, &err), 0);
	assert_int_equal(model_open(&model, &checkpoint, "", &err), 0);
	assert_int_equal(forward_init(&forward, backend->executor, &model, true, &err), 0);
	ops = *forward.executor->ops;
	ops.portion = portion;
	forward.executor->ops = &ops;
	assert_int_equal(weights_open(&weights, &params, &err), 0);
	assert_int_equal(workspace_new(&workspace, &forward, shape, 0, &err), 0);
	outcome->n_values = N_TOKENS * model.hidden;
	outcome->n_slots = forward_slots(&model);
	assert_true(outcome->n_values <= MOST && outcome->n_slots * model.n_layers <= MOST);
	run_layers(&weights, workspace, &sequence, outcome);
	outcome->n_slots *= model.n_layers;
	workspace_free(workspace);
	weights_release(&weights);
	forward_release(&forward);
	model_release(&model);
	checkpoint_release(&checkpoint);
	return outcome;
}

/* Sums may be added up in another order. */
static void assert_close(float a, float b)
{
	assert_true(fabsf(a - b) <= 1e-5f * (1 + fabsf(b)));
}

static void a_few_rows_at_once_give_the_same_values(void **state)
{
	size_t n_observed = 0;

	(void)state;
	for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
		struct outcome *few = run(models[m], seven), *whole = run(models[m], all);

		for (size_t i = 0; i < whole->n_values; i++)
			assert_close(few->residual[i], whole->residual[i]);
		for (size_t i = 0; i < whole->n_slots; i++) {
			assert_close(few->stats[i].amax, whole->stats[i].amax);
			assert_int_equal(few->stats[i].n_nonfinite, 0);
			n_observed += whole->stats[i].amax > 0;
		}
		free(few);
		free(whole);
	}
	/* two models of two layers at least: x and y of seven matrices, q, k and v */
	assert_true(n_observed > 2 * 2 * 17);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_few_rows_at_once_give_the_same_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
