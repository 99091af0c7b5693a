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
#include "sweep/fp8_forward.h"
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

enum scales { FLOATS, POWERS, EXPONENTS };

static const struct row {
	const char *recipe, *scale_fmt;
	enum scales scales;
	size_t w_rows, w_cols, x_rows, x_cols; /* of tiles */
} rows[] = {
	{ "blockwise", NULL, POWERS, 128, 128, 1, 128 },
	{ "blockwise", "float", FLOATS, 128, 128, 1, 128 },
	{ "mxfp8", NULL, EXPONENTS, 1, 32, 1, 32 },
	{ "channelwise", NULL, FLOATS, 1, K, 1, K },
	{ "current", NULL, FLOATS, N, K, M, K },
	{ "current", "ue8m0", POWERS, N, K, M, K },
};

/* Four significant bits, the last one at 2^-9 or above; at most 448. */
static float e4m3(float v)
{
	int exponent;
	float step;

	frexpf(v, &exponent);
	step = ldexpf(1, exponent - 4 < -9 ? -9 : exponent - 4);
	return fmaxf(fminf(rintf(v / step) * step, 448), -448);
}

static float scale_of(float amax, enum scales scales)
{
	if (scales == EXPONENTS)
		return ldexpf(1, -(int)ceilf(log2f(amax / 448)));
	return scales == POWERS ? ldexpf(1, (int)floorf(log2f(448 / amax))) : 448 / amax;
}

/* least: an amax that the tiles share with others. */
static void expect(const float *x, size_t n_rows, struct tile tile, enum scales scales, float least,
		   float *values)
{
	for (size_t i = 0; i < n_rows * K; i++) {
		size_t r0 = i / K / tile.rows * tile.rows, c0 = i % K / tile.cols * tile.cols;
		float amax = least, scale;

		for (size_t r = r0; r < r0 + tile.rows && r < n_rows; r++)
			for (size_t c = c0; c < c0 + tile.cols; c++)
				amax = fmaxf(amax, fabsf(x[r * K + c]));
		scale = scale_of(amax, scales);
		values[i] = e4m3(x[i] * scale) * (1 / scale);
	}
}

/* Of many sizes; none is so near the middle of two codes that another order of operations would
 * matter. */
static void fill(float *x, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		x[i] = ldexpf((float)(int32_t)seed, -31 - (int)(seed >> 3 & 7));
	}
}

static void same(const float *found, const float *wanted, size_t n, const struct row *row,
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
	struct value_stats stats[N_LINEARS], fetched[N_LINEARS];
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

	w->ops = backend_select("cpu", &err)->executor;
	if (w->ops->open(&f->executor, 0, &err) ||
	    w->ops->stream_new(&w->stream, f->executor, &err))
		fail_msg("%s", err.message);
	w->cast.n_stats = N_LINEARS;
	w->cast.stats = f->stats;
	w->host.cast_stats = f->fetched;
}

static void setup(struct fixture *f, const struct row *row)
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
	if (fp8_select_make(&f->choice, &params, &f->model, &err))
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

/* The amax of the matrix is 1 or less; that of another one that shares its scale is 3. */
static void load(struct fixture *f, enum linear_role role, size_t n, float amax)
{
	struct linear *linear = &f->layer.linear[role];
	const struct matrix x = { f->x, DT_F32, n, K, K };
	struct err err = { 0 };

	linear->amax = amax;
	memcpy(f->found, f->x, n * K * sizeof *f->found);
	assert_int_equal(fp8_forward_weight(f->fp8, linear, &x, f->found, &err), 0);
}

static void weights_are_those_of_their_codes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct row *row = &rows[i];
		bool shared = row->w_rows == N && row->w_cols == K;
		struct fixture f;

		setup(&f, row);
		fill(f.x, N * K, 1);
		for (int role = LINEAR_Q; role <= LINEAR_V; role++) {
			assert_int_equal(fp8_forward_wants_amax(f.fp8, &f.ref.linear[role]),
					 shared);
			if (shared)
				fp8_forward_set_amax(f.fp8, &f.ref.linear[role],
						     role == LINEAR_V ? 3 : 1);
		}
		load(&f, LINEAR_Q, N, 1);
		assert_non_null(f.layer.linear[LINEAR_Q].cast);
		assert_int_equal(f.layer.linear[LINEAR_Q].input,
				 row->scales == FLOATS ? DT_F32 : DT_BF16);
		expect(f.x, N, (struct tile){ row->w_rows, row->w_cols }, row->scales,
		       shared ? 3 : 0, f.wanted);
		same(f.found, f.wanted, N * K, row, "weight");

		load(&f, LINEAR_ROUTER, 8, 1);
		assert_null(f.layer.linear[LINEAR_ROUTER].cast);
		assert_int_equal(f.layer.linear[LINEAR_ROUTER].input, DT_BF16);
		same(f.found, f.x, 8 * K, row, "router");
		teardown(&f);
	}
}

/* What the cast makes of f->x goes to f->found. */
static void cast(struct fixture *f)
{
	const struct input_cast *by = f->layer.linear[LINEAR_Q].cast;
	const struct round_fp8_args args = { .x = f->x,
					     .n_rows = M,
					     .n_cols = K,
					     .spec = by->spec,
					     .scale = by->scale,
					     .scale_inv = by->scale_inv,
					     .y = f->found,
					     .dtype = DT_F32 };
	const struct workspace *w = &f->workspace;
	struct err err = { 0 };

	if (by->stats != SIZE_MAX)
		w->ops->amax(w->stream, f->x, M * K, &w->cast.stats[by->stats]);
	w->ops->round_fp8(w->stream, &args);
	assert_int_equal(w->ops->wait(w->stream, &err), 0);
}

static void inputs_are_those_of_their_codes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct row *row = &rows[i];
		struct fixture f;

		setup(&f, row);
		fill(f.x, N * K, 1);
		load(&f, LINEAR_Q, N, 1);
		fill(f.x, M * K, 2);
		expect(f.x, M, (struct tile){ row->x_rows, row->x_cols }, row->scales, 0, f.wanted);
		cast(&f);
		same(f.found, f.wanted, M * K, row, "input");
		teardown(&f);
	}
}

/* The scale of a step is that of the largest amax of the steps before, and 1 in the first. */
static void a_delayed_scale_is_of_the_steps_before(void **state)
{
	static const struct row row = { .recipe = "delayed" };
	static const float sizes[] = { 700, 20, 3000, 1, 3000 },
			   scales[] = { 1, 448, 448, 448, 448 },
			   before[] = { 1, 700, 700, 3000, 3000 };
	struct context_stack contexts = { 0 };
	struct fixture f;

	(void)state;
	setup(&f, &row);
	fill(f.x, N * K, 1);
	load(&f, LINEAR_Q, N, 1);
	for (size_t step = 0; step < sizeof sizes / sizeof *sizes; step++) {
		const struct context wanted = { .enabled = true,
						.calibrating = true,
						.recipe = &f.choice.recipe };
		float scale = scales[step] / before[step];
		struct context outer;
		struct err err = { 0 };

		contexts.backend = backend_select("auto", &err);
		assert_int_equal(context_enter(&contexts, &wanted, &outer, &err), 0);
		fp8_forward_touch(f.fp8, &contexts, &f.layer);
		fill(f.x, M * K, (uint32_t)step);
		f.x[7] = sizes[step];
		for (size_t i = 0; i < M * K; i++)
			f.wanted[i] = e4m3(f.x[i] * scale) * (1 / scale);
		cast(&f);
		same(f.found, f.wanted, M * K, &row, "input");
		assert_true(f.stats[LINEAR_Q].amax == sizes[step]);
		assert_int_equal(fp8_forward_take_amaxes(f.fp8, &f.layer, &f.workspace, &err), 0);
		assert_true(f.stats[LINEAR_Q].amax == 0);
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
