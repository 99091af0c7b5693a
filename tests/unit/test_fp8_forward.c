/* SPDX-License-Identifier: Apache-2.0
 *
 * What a product in FP8 is given: the values of weights and inputs as each recipe rounds them, told
 * again here in plain floating point.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "forward/pass.h"
#include "sweep/fp8_forward.h"
#include "support/fp8_values.h"
#include "support/memory_checkpoint.h"

#define K 256
#define N 128
#define M 5

#define MODEL                                                  \
	"model.layers.0.self_attn.q_proj.weight F32 128 256\n" \
	"model.layers.0.self_attn.k_proj.weight F32 128 256\n" \
	"model.layers.0.self_attn.v_proj.weight F32 128 256\n" \
	"model.layers.0.mlp.gate.weight F32 8 256\n"           \
	"lm_head.weight F32 16 256\n"

static void same(const float *found, const float *wanted, size_t n, const struct fp8_recipe *row,
		 const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (found[i] != wanted[i])
			fail_msg("%s: %s %zu is %.9g, not %.9g", row->recipe, what, i,
				 (double)found[i], (double)wanted[i]);
}

/* A layer of three matrices that engines merge, and a router. */
struct fixture {
	struct checkpoint checkpoint;
	struct layer_ref ref;
	struct model model;
	struct fp8_selection choice;
	struct fp8_forward *fp8;
	struct layer layer;
	struct executor *executor;
	struct workspace workspace; /* what casts have of it, on the CPU */
	struct value_stats stats[N_LINEARS], fetched[N_LINEARS], scratch;
	size_t places[N_LINEARS];
	float *x, *wanted, *found;
};

static void place(struct fixture *f, enum linear_role role, const char *name)
{
	const struct tensor_ref *tensor = checkpoint_find(&f->checkpoint, name);

	f->ref.linear[role] = (struct linear_ref){ .module = tensor->tensor->name,
						   .weight = tensor,
						   .n = tensor->tensor->shape[0],
						   .k = K,
						   .slice = { 0, K, 1 } };
	f->layer.linear[role] = (struct linear){ .ref = &f->ref.linear[role], .input = DT_BF16 };
}

static void workspace_open(struct fixture *f)
{
	struct workspace *w = &f->workspace;
	struct err err = { 0 };

	if (backend_select("cpu", &err)->executor->open(&f->executor, 0, &err) ||
	    f->executor->ops->stream_new(&w->stream, f->executor, &err))
		fail_msg("%s", err.message);
	w->ops = f->executor->ops;
	w->cast.values = f->found;
	w->cast.scratch = &f->scratch;
	w->cast.n_stats = N_LINEARS;
	w->cast.stats = f->stats;
	w->host.cast_stats = f->fetched;
	w->host.cast_places = f->places;
	for (size_t i = 0; i < N_LINEARS; i++)
		f->places[i] = i;
}

static void setup(struct fixture *f, const struct fp8_recipe *row)
{
	const struct fp8_params params = { .forward = true,
					   .recipe = row->recipe,
					   .scale_fmt = row->scale_fmt };
	struct err err = { 0 };

	*f = (struct fixture){ .x = calloc(N * K, 4),
			       .wanted = calloc(N * K, 4),
			       .found = calloc(N * K, 4) };
	memory_checkpoint_init(&f->checkpoint, NULL, MODEL);
	place(f, LINEAR_Q, "model.layers.0.self_attn.q_proj.weight");
	place(f, LINEAR_K, "model.layers.0.self_attn.k_proj.weight");
	place(f, LINEAR_V, "model.layers.0.self_attn.v_proj.weight");
	place(f, LINEAR_ROUTER, "model.layers.0.mlp.gate.weight");
	f->layer.ref = &f->ref;
	f->model = (struct model){ .checkpoint = &f->checkpoint, .n_layers = 1, .layers = &f->ref };
	if (fp8_select_make(&f->choice, &params, f->model.checkpoint, &f->model, &err))
		fail_msg("%s", err.message);
	f->fp8 = fp8_forward_new(&f->choice, backend_select("auto", &err));
	workspace_open(f);
}

static void teardown(struct fixture *f)
{
	f->workspace.ops->stream_free(f->workspace.stream);
	f->workspace.ops->close(f->executor);
	fp8_forward_free(f->fp8);
	fp8_select_release(&f->choice);
	memory_checkpoint_release(&f->checkpoint);
	free(f->x);
	free(f->wanted);
	free(f->found);
}

/* Quantizes a matrix of n rows, which is FP8 or not, to f->found. */
static void load(struct fixture *f, enum linear_role role, size_t n)
{
	struct linear *linear = &f->layer.linear[role];
	const struct matrix x = { f->x, DT_F32, n, K, K };
	struct matrix y = x;
	struct err err = { 0 };

	linear->cast = fp8_forward_cast(f->fp8, linear->ref);
	if (linear->cast)
		assert_int_equal(fp8_forward_quantize(f->fp8, linear->ref, &x, f->found, &y, &err),
				 0);
	assert_ptr_equal(y.data, linear->cast ? f->found : f->x);
}

/* The largest value is 1 or less; that of another matrix that shares the scale is 3. */
static void weights_are_those_of_their_codes(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_FP8_RECIPES; i++) {
		const struct fp8_recipe *row = &fp8_recipes[i];
		bool shared = row->w.rows == WHOLE;
		const struct fp8_values wanted = { N, K, K, row->w, row->scales, shared ? 3 : 0 };
		struct fixture f;

		setup(&f, row);
		fp8_values_fill(f.x, N * K, 1);
		for (int role = LINEAR_Q; role <= LINEAR_V; role++)
			assert_int_equal(fp8_forward_wants_amax(f.fp8, &f.ref.linear[role]),
					 shared);
		for (int role = LINEAR_Q; role <= LINEAR_V && shared; role++)
			fp8_forward_raise_amax(f.fp8, &f.ref.linear[role],
					       role == LINEAR_V ? 3 : 1);
		assert_false(fp8_forward_wants_amax(f.fp8, &f.ref.linear[LINEAR_K]));
		assert_int_equal(fp8_forward_is_bf16(f.fp8), row->scales != FLOATS);
		load(&f, LINEAR_Q, N);
		assert_non_null(f.layer.linear[LINEAR_Q].cast);
		fp8_values(&wanted, f.x, f.wanted);
		same(f.found, f.wanted, N * K, row, "weight");

		load(&f, LINEAR_ROUTER, 8);
		assert_null(f.layer.linear[LINEAR_ROUTER].cast);
		teardown(&f);
	}
}

/* Casts f->x for the product with a matrix; the values go to f->found. */
static void cast(struct fixture *f, enum linear_role role)
{
	struct linear *linear = &f->layer.linear[role];
	const struct pass pass = { .workspace = &f->workspace };
	const struct input_rows x = { .values = f->x, .n_rows = M, .n_cols = K };
	const struct workspace *w = &f->workspace;
	struct err err = { 0 };

	linear->input = DT_F32;
	assert_ptr_equal(pass_prepare(&pass, linear, &x), f->found);
	assert_int_equal(w->ops->wait(w->stream, &err), 0);
}

static void inputs_are_those_of_their_codes(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_FP8_RECIPES; i++) {
		const struct fp8_recipe *row = &fp8_recipes[i];
		const struct fp8_values wanted = { M, K, K, row->x, row->scales, 0 };
		struct fixture f;

		setup(&f, row);
		fp8_values_fill(f.x, N * K, 1);
		load(&f, LINEAR_Q, N);
		fp8_values_fill(f.x, M * K, 2);
		fp8_values(&wanted, f.x, f.wanted);
		cast(&f, LINEAR_Q);
		same(f.found, f.wanted, M * K, row, "input");
		teardown(&f);
	}
}

/* A step: x goes into two matrices, of which the first adds its amax for both. */
static void step_run(struct fixture *f, float amax, float scale)
{
	static const struct fp8_recipe row = { .recipe = "delayed" };
	struct err err = { 0 };

	f->x[7] = amax;
	for (size_t i = 0; i < M * K; i++)
		f->wanted[i] = e4m3(f->x[i] * scale) * (1 / scale);
	f->workspace.cast.from = NULL;
	for (int role = LINEAR_Q; role <= LINEAR_K; role++) {
		cast(f, role);
		same(f->found, f->wanted, M * K, &row, "input");
		assert_true(f->layer.linear[role].cast->scale == scale);
	}
	assert_true(f->stats[LINEAR_Q].amax == amax);
	assert_true(f->stats[LINEAR_K].amax == 0);
	assert_int_equal(fp8_forward_take_amaxes(f->fp8, &f->layer, &f->workspace, &err), 0);
	assert_true(f->stats[LINEAR_Q].amax == 0);
}

/* The scale of a step is that of the largest amax of the steps before, and 1 in the first. */
static void a_delayed_scale_is_of_the_steps_before(void **state)
{
	static const struct fp8_recipe row = { .recipe = "delayed" };
	static const float sizes[] = { 700, 20, 3000, 1, 3000 },
			   scales[] = { 1, 448, 448, 448, 448 },
			   before[] = { 1, 700, 700, 3000, 3000 };
	struct context_stack contexts = { 0 };
	struct fixture f;

	(void)state;
	setup(&f, &row);
	fp8_values_fill(f.x, N * K, 1);
	load(&f, LINEAR_Q, N);
	load(&f, LINEAR_K, N);
	for (size_t step = 0; step < sizeof sizes / sizeof *sizes; step++) {
		const struct context wanted = { .enabled = true,
						.calibrating = true,
						.recipe = &f.choice.recipe };
		struct context outer;
		struct err err = { 0 };

		contexts.backend = backend_select("auto", &err);
		assert_int_equal(context_enter(&contexts, &wanted, &outer, &err), 0);
		fp8_forward_touch(f.fp8, &contexts, &f.layer);
		fp8_values_fill(f.x, M * K, (uint32_t)step);
		step_run(&f, sizes[step], scales[step] / before[step]);
		assert_int_equal(context_exit(&contexts, &outer, &err), 0);
	}
	context_stack_release(&contexts);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_are_those_of_their_codes),
		cmocka_unit_test(inputs_are_those_of_their_codes),
		cmocka_unit_test(a_delayed_scale_is_of_the_steps_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
