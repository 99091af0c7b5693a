/* SPDX-License-Identifier: Apache-2.0
 *
 * Variants of a model in a sweep: one whose halved weights get doubled inputs is the same model to
 * the last bit, one whose blocks put out nothing leaves its stream as it is.
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
#include "sweep/sweep.h"
#include "sweep/variant.h"
#include "sweep/weight_matrix.h"

#define N_TOKENS    20
#define N_SEQUENCES 3
#define FIRST_STAGE 1 /* in which the variants begin */

static const char *const models[] = { "sample_checkpoints/tiny-llama",
				      "sample_checkpoints/tiny-moe/per-expert" };

enum { HALVED, SILENT, N_VARIANTS };

/* The sequences of each variant. */
static const size_t chosen[N_VARIANTS][2] = { { 0, 2 }, { 1, 2 } };

struct test {
	struct sweep_plan plan;
	struct sweep sweep;
	struct variants variants;
	struct model_variant variant[N_VARIANTS];
	struct variant_stage stage[N_VARIANTS];
	float *before; /* a stream */
	double kl[N_VARIANTS], reverse_kl[N_VARIANTS];
};

/* The casts of the inputs of the model, and of its variant, whose values are twice as
 * large. */
static const struct input_cast once = { .spec = { .format = FP8_E4M3, .arith = ARITH_GIVEN },
					.scale = 8,
					.scale_inv = 0.125f,
					.stats = SIZE_MAX },
			       twice = { .spec = { .format = FP8_E4M3, .arith = ARITH_GIVEN },
					 .scale = 8,
					 .scale_inv = 0.25f,
					 .stats = SIZE_MAX };

/* Replaces a matrix by itself times a factor. */
static void replace(struct test *test, int which, const struct linear_ref *ref, float factor)
{
	struct runner *runner = &test->sweep.runners[0];
	const struct weight_reader reader = { &runner->weights.source, &runner->weights.detection,
					      host_ops_select(), false, NULL };
	float *values = calloc(ref->n * ref->k, sizeof *values);
	struct weight_matrix matrix = {
		.ref = ref, .n = ref->n, .dtype = DT_F32, .values = values
	};
	struct err err;

	assert_int_equal(weight_matrix_read(&reader, &matrix, &err), 0);
	for (size_t i = 0; i < ref->n * ref->k; i++)
		values[i] *= factor;
	assert_int_equal(variant_stage_replace(&test->stage[which], &test->variants, ref, values,
					       which == HALVED ? &twice : NULL, &err),
			 0);
	free(values);
}

static void replace_layer(struct test *test, const struct layer_ref *layer)
{
	for (int i = 0; i < N_LINEARS; i++)
		if (layer->linear[i].weight)
			replace(test, HALVED, &layer->linear[i], 0.5F);
	replace(test, SILENT, &layer->linear[LINEAR_O], 0);
	if (!layer->n_experts)
		replace(test, SILENT, &layer->linear[LINEAR_DOWN], 0);
	for (size_t e = 0; e < layer->n_experts; e++) {
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			if (layer->experts[e][i].weight)
				replace(test, HALVED, &layer->experts[e][i], 0.5F);
		replace(test, SILENT, &layer->experts[e][EXPERT_ROLE_DOWN], 0);
	}
}

/* What a variant has of a sequence after FIRST_STAGE. */
static void check_stream(struct test *test, int which, size_t sequence)
{
	const struct runner *runner = &test->sweep.runners[0];
	const struct model_variant *variant = &test->variant[which];
	const float *found = variant->sequences[variant->places[sequence]].residual;
	const float *wanted =
		which == SILENT ? test->before : runner->memory.sequences[sequence].residual;

	assert_memory_equal(found, wanted, N_TOKENS * runner->from->model->hidden * sizeof *found);
}

static void run_layer(struct test *test, size_t stage, int worker, size_t sequence)
{
	struct runner *runner = &test->sweep.runners[0];
	size_t size = N_TOKENS * runner->from->model->hidden * sizeof *test->before;
	struct err err;

	memcpy(test->before, runner->memory.sequences[sequence].residual, size);
	for (int i = 0; i < N_VARIANTS; i++) {
		struct model_variant *variant = &test->variant[i];

		if (stage < FIRST_STAGE || !variant_has(variant, sequence))
			continue;
		if (stage == FIRST_STAGE)
			assert_int_equal(variant_begin(variant, worker, sequence, &err), 0);
		assert_int_equal(variant_run(variant, &test->stage[i], worker, sequence, &err), 0);
	}
	assert_int_equal(runner_run(runner, worker, (struct span){ sequence, 1 }, &err), 0);
	for (int i = 0; i < N_VARIANTS; i++)
		if (stage == FIRST_STAGE && variant_has(&test->variant[i], sequence))
			check_stream(test, i, sequence);
}

static void run_heads(struct test *test, int worker, size_t sequence)
{
	const struct head_pass p = runner_head_pass(&test->sweep.runners[0], worker, sequence);
	struct divergence divergences[N_TOKENS];
	struct err err;

	for (int i = 0; i < N_VARIANTS; i++) {
		struct head_pass q;

		if (!variant_has(&test->variant[i], sequence))
			continue;
		q = variant_head(&test->variant[i], &test->stage[i], worker, sequence);
		assert_int_equal(forward_heads(&p, &q, divergences, &err), 0);
		for (size_t t = 0; t < N_TOKENS; t++) {
			test->kl[i] += divergences[t].kl;
			test->reverse_kl[i] += divergences[t].reverse_kl;
		}
		for (size_t t = 0; t + 1 < N_TOKENS && i == HALVED; t++)
			assert_true(p.losses[t] == q.losses[t]);
	}
}

static size_t stage_number(const struct sweep *sweep)
{
	return atomic_load(&sweep->progress->layer) - 1;
}

/* Casts the inputs of all matrices of the current stage. */
static void cast_inputs(struct stage *stage)
{
	struct layer *layer = stage->layers;

	if (!layer->ref) {
		stage->heads->cast = &once;
		return;
	}
	for (int i = 0; i < N_LINEARS; i++)
		layer->linear[i].cast = &once;
	for (size_t e = 0; e < layer->ref->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			layer->experts[e][i].cast = &once;
}

static int stage_begins(void *context, struct sweep *sweep, struct err *err)
{
	const struct layer *layer = runner_layer(&sweep->runners[0]);
	struct test *test = context;

	if (stage_number(sweep) == 0)
		for (int i = 0; i < N_VARIANTS; i++)
			assert_int_equal(
				variant_open(&test->variant[i], &test->variants, chosen[i], 2, err),
				0);
	cast_inputs(sweep->runners[0].stage);
	for (int i = 0; i < N_VARIANTS; i++)
		variant_stage_begin(&test->stage[i], &test->variants);
	if (stage_number(sweep) == FIRST_STAGE)
		replace_layer(test, layer->ref);
	if (!layer)
		replace(test, HALVED, &sweep->runners[0].from->model->head, 0.5F);
	return 0;
}

static int run_sequences(void *context, struct sweep *sweep, int worker, struct span sequences,
			 struct err *err)
{
	(void)err;
	for (size_t i = 0; i < sequences.n; i++)
		if (runner_layer(&sweep->runners[0]))
			run_layer(context, stage_number(sweep), worker, sequences.first + i);
		else
			run_heads(context, worker, sequences.first + i);
	return 0;
}

static int stage_ends(void *context, const struct sweep *sweep, struct err *err)
{
	struct test *test = context;

	(void)sweep;
	(void)err;
	for (int i = 0; i < N_VARIANTS; i++)
		variant_stage_end(&test->stage[i]);
	return 0;
}

static void observe(void *context, const struct observation *observation)
{
	(void)context;
	(void)observation;
}

static int sweep_ends(void *context, const struct sweep *sweep, struct err *err)
{
	(void)context;
	(void)sweep;
	(void)err;
	return 0;
}

static void run(struct test *test, const struct model *model, const struct dataset *data, bool f32)
{
	const struct backend *backend = backend_select("cpu", &(struct err){ 0 });
	const struct sweep_params params = { .io = &io_system,
					     .models = { { .model = model, .casts = true } },
					     .n_models = 1,
					     .data = data,
					     .executor = backend->executor,
					     .is_f32 = f32,
					     .batch = 1,
					     .n_threads = 1 };
	const struct sweep_events events = { .context = test,
					     .observers = { { .context = test,
							      .observe = observe } },
					     .stage_begins = stage_begins,
					     .run = run_sequences,
					     .stage_ends = stage_ends,
					     .sweep_ends = sweep_ends };
	struct sweep_progress progress = { 0 };
	struct err err;

	assert_int_equal(sweep_plan_make(&test->plan, &params, &err), 0);
	assert_int_equal(sweep_open(&test->sweep, &test->plan, backend, NULL, &progress, &err), 0);
	test->before = calloc(N_TOKENS * model->hidden, sizeof *test->before);
	assert_int_equal(variants_open(&test->variants, &test->sweep.runners[0], &err), 0);
	assert_int_equal(sweep_run(&test->sweep, 0, &events, &err), 0);
	for (int i = 0; i < N_VARIANTS; i++)
		variant_release(&test->variant[i]);
	variants_release(&test->variants);
	sweep_release(&test->sweep);
	free(test->before);
}

static void variants_differ_by_their_matrices_alone(void **state)
{
	uint32_t tokens[N_SEQUENCES * N_TOKENS];
	struct dataset_sequence sequences[N_SEQUENCES];
	const struct dataset data = { .ids = { .ids = tokens, .n = N_SEQUENCES * N_TOKENS },
				      .sequences = sequences,
				      .n = N_SEQUENCES };

	(void)state;
	for (size_t i = 0; i < N_SEQUENCES; i++)
		sequences[i] = (struct dataset_sequence){ i * N_TOKENS, N_TOKENS };
	for (uint32_t i = 0; i < N_SEQUENCES * N_TOKENS; i++)
		tokens[i] = i * i % 251;
	for (size_t m = 0; m < 2 * sizeof models / sizeof *models; m++) {
		struct checkpoint checkpoint;
		struct test test = { 0 };
		struct model model;
		struct err err;

		assert_int_equal(checkpoint_open(&checkpoint, &io_system, models[m / 2], 1, &err),
				 0);
		assert_int_equal(model_open(&model, &checkpoint, "", &err), 0);
		run(&test, &model, &data, m % 2);
		assert_true(test.kl[HALVED] == 0 && test.reverse_kl[HALVED] == 0);
		assert_true(test.kl[SILENT] > 0 && isfinite(test.kl[SILENT]));
		model_release(&model);
		checkpoint_release(&checkpoint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variants_differ_by_their_matrices_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
