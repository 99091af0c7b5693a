/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of products in FP8, as they are loaded: in bands and panels, by rows and by columns, with
 * the rows of two matrices in turn, to two devices at once.  An executor that only keeps what it is
 * given stands for the devices.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "num/float16.h"
#include "support/fp8_values.h"
#include "support/folders.h"
#include "sweep/weights.h"

#define HIDDEN	  1024
#define WIDTH	  992 /* of experts: neither it nor its double is a multiple of 128 */
#define Q_ROWS	  1500
#define N_DEVICES 2

static const char config[] =
	"{\"architectures\": [\"GptOssForCausalLM\"], \"model_type\": \"gpt_oss\", "
	"\"hidden_size\": 1024, \"intermediate_size\": 992, "
	"\"num_local_experts\": 2}";

/* The tensors, all F32, one after the other. */
static const struct {
	const char *name;
	size_t shape[3]; /* the first 0: two dimensions */
} tensors[] = {
	{ "model.layers.0.self_attn.q_proj.weight", { 0, Q_ROWS, HIDDEN } },
	{ "model.layers.0.mlp.router.weight", { 0, 8, HIDDEN } },
	{ "model.layers.0.mlp.experts.gate_up_proj", { 2, HIDDEN, 2 * WIDTH } },
	{ "model.layers.0.mlp.experts.down_proj", { 2, WIDTH, HIDDEN } },
	/* their presence says that the rows of gate and up alternate */
	{ "model.layers.0.mlp.experts.gate_up_proj_bias", { 0, 2, 2 * WIDTH } },
	{ "model.layers.0.mlp.experts.down_proj_bias", { 0, 2, HIDDEN } },
};

#define N_TENSORS (sizeof tensors / sizeof *tensors)

enum which { Q, ROUTER, GATE_UP, DOWN, N_MATRICES };

/* The matrices as products see them, and where they are in their tensors: expert 1 of two, by
 * columns; the rows of gate and up alternate. */
static const struct {
	const char *what;
	size_t n, k;
	struct slice slice;
	size_t n_alternating;
} matrices[N_MATRICES] = {
	[Q] = { "q", Q_ROWS, HIDDEN, { 0, HIDDEN, 1 }, 1 },
	[ROUTER] = { "router", 8, HIDDEN, { 0, HIDDEN, 1 }, 1 },
	[GATE_UP] = { "gate_up", 2 * WIDTH, HIDDEN, { HIDDEN * 2 * WIDTH, 1, 2 * WIDTH }, 2 },
	[DOWN] = { "down", HIDDEN, WIDTH, { WIDTH * HIDDEN, 1, HIDDEN }, 1 },
};

static size_t tensor_size(size_t t)
{
	const size_t *shape = tensors[t].shape;

	return (shape[0] ? shape[0] : 1) * shape[1] * shape[2];
}

/* A folder with the model, and the tensors' values. */
struct files {
	char *folder, *weights, *config;
	float *values[N_TENSORS];
};

/* Makes the last rows of q so small that the scale_inv of each tile is 2^-125: codes below 2^-8
 * then have values that bf16 has not. */
static void make_tiny(float *q)
{
	for (size_t i = 1408 * HIDDEN; i < Q_ROWS * HIDDEN; i++)
		q[i] = i % 32 ? ldexpf(q[i], i % 2 ? -126 : -117) : 0x1p-117f;
}

static void header_write(FILE *file)
{
	char header[1024] = "{";
	uint64_t at = 0, n;

	for (size_t t = 0; t < N_TENSORS; t++) {
		const size_t *shape = tensors[t].shape;
		uint64_t end = at + tensor_size(t) * sizeof(float);
		char first[32] = "";

		if (shape[0])
			snprintf(first, sizeof first, "%zu,", shape[0]);
		n = strlen(header);
		snprintf(header + n, sizeof header - n,
			 "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%s%zu,%zu],"
			 "\"data_offsets\":[%llu,%llu]}",
			 t ? "," : "", tensors[t].name, first, shape[1], shape[2],
			 (unsigned long long)at, (unsigned long long)end);
		at = end;
	}
	n = strlen(strcat(header, "}"));
	assert_int_equal(fwrite(&n, 8, 1, file) + fwrite(header, n, 1, file), 2);
}

static int files_make(void **state)
{
	struct files *files = xcalloc(1, sizeof *files);
	FILE *file;

	files->folder = scratch_new();
	files->weights = xasprintf("%s/model.safetensors", files->folder);
	files->config = xasprintf("%s/config.json", files->folder);
	file = fopen(files->config, "w");
	assert_true(file && fputs(config, file) >= 0 && !fclose(file));
	file = fopen(files->weights, "wb");
	assert_non_null(file);
	header_write(file);
	for (size_t t = 0; t < N_TENSORS; t++) {
		files->values[t] = malloc(tensor_size(t) * sizeof(float));
		fp8_values_fill(files->values[t], tensor_size(t), (uint32_t)t);
		if (t == Q)
			make_tiny(files->values[t]);
		assert_int_equal(fwrite(files->values[t], tensor_size(t) * sizeof(float), 1, file),
				 1);
	}
	assert_int_equal(fclose(file), 0);
	*state = files;
	return 0;
}

static int files_remove(void **state)
{
	struct files *files = *state;

	unlink(files->weights);
	unlink(files->config);
	rmdir(files->folder);
	for (size_t t = 0; t < N_TENSORS; t++)
		free(files->values[t]);
	free(files->weights);
	free(files->config);
	free(files->folder);
	free(files);
	return 0;
}

/* --- the executor --- */

static size_t panel_rows_now;

static size_t panel_rows(size_t n)
{
	return n < panel_rows_now ? n : panel_rows_now;
}

static size_t row_size(const struct executor_weight *weight)
{
	return weight->k * dtype_bits(weight->dtype) / 8;
}

static int weight_init(struct executor_weight *weight, struct err *err)
{
	(void)err;
	weight->data = calloc(weight->n, row_size(weight));
	return 0;
}

static void weight_release(struct executor_weight *weight)
{
	free(weight->data);
	weight->data = NULL;
}

static int weight_set(const struct executor_weight *weight, size_t panel, const void *rows,
		      struct err *err)
{
	(void)err;
	memcpy((char *)weight->data + panel * weight->panel_rows * row_size(weight), rows,
	       executor_weight_panel_rows(weight, panel) * row_size(weight));
	return 0;
}

/* The layer has no vectors. */
static void memory_free(struct executor *executor, void *memory)
{
	(void)executor;
	assert_null(memory);
}

/* Weights alone are asked for. */
static size_t portion(enum executor_portion what, size_t n)
{
	assert_int_equal(what, PORTION_WEIGHT);
	return panel_rows(n);
}

static const struct executor_ops ops = { .portion = portion,
					 .memory_free = memory_free,
					 .weight_init = weight_init,
					 .weight_release = weight_release,
					 .weight_set = weight_set };

/* --- a model, and what is expected of it --- */

struct fixture {
	const struct files *files;
	const struct fp8_recipe *recipe;
	struct checkpoint checkpoint;
	struct model model;
	struct layer_ref layer;
	struct linear_ref experts[1][N_EXPERT_ROLES];
	struct fp8_selection choice;
	struct executor executor[N_DEVICES], *executors[N_DEVICES];
	struct forward forward;
	struct weights weights;
};

/* The place of a matrix in the layer.  The router comes first. */
static struct linear_ref *ref_of(struct fixture *f, enum which which)
{
	if (which < GATE_UP)
		return &f->layer.linear[which == Q ? LINEAR_V : LINEAR_K];
	return &f->experts[0][which == GATE_UP ? EXPERT_ROLE_GATE_UP : EXPERT_ROLE_DOWN];
}

static const struct linear *linear_of(const struct layer *layer, enum which which)
{
	if (which < GATE_UP)
		return &layer->linear[which == Q ? LINEAR_V : LINEAR_K];
	return &layer->experts[0][which == GATE_UP ? EXPERT_ROLE_GATE_UP : EXPERT_ROLE_DOWN];
}

static void setup(struct fixture *f, const struct files *files, const struct fp8_recipe *recipe)
{
	const struct fp8_params params = { .forward = true,
					   .recipe = recipe->recipe,
					   .scale_fmt = recipe->scale_fmt,
					   .select.ragged = !strcmp(recipe->recipe, "blockwise") };
	const struct weights_params load = { &f->forward, &io_system, 2, NULL };
	struct err err = { 0 };

	*f = (struct fixture){ .files = files, .recipe = recipe };
	if (checkpoint_open(&f->checkpoint, &io_system, files->folder, 1, &err))
		fail_msg("%s", err.message);
	f->layer.experts = f->experts;
	f->layer.n_experts = 1;
	for (enum which which = Q; which < N_MATRICES; which++) {
		const struct tensor_ref *tensor =
			checkpoint_find(&f->checkpoint, tensors[which].name);

		*ref_of(f, which) = (struct linear_ref){ .module = tensor->tensor->name,
							 .weight = tensor,
							 .n = matrices[which].n,
							 .k = matrices[which].k,
							 .slice = matrices[which].slice };
	}
	f->model =
		(struct model){ .checkpoint = &f->checkpoint, .n_layers = 1, .layers = &f->layer };
	if (fp8_select_make(&f->choice, &params, f->model.checkpoint, &f->model, &err))
		fail_msg("%s", err.message);
	for (size_t d = 0; d < N_DEVICES; d++) {
		f->executor[d].ops = &ops;
		f->executors[d] = &f->executor[d];
	}
	f->forward = (struct forward){ .model = &f->model,
				       .executor = f->executors[0],
				       .n_devices = N_DEVICES,
				       .executors = f->executors,
				       .round = true,
				       .input = DT_BF16,
				       .casts = true };
	assert_int_equal(weights_open(&f->weights, &load, &err), 0);
	f->weights.fp8 = fp8_forward_new(&f->choice, f->weights.source.backend);
}

static void teardown(struct fixture *f)
{
	struct err err = { 0 };

	assert_int_equal(weights_close(&f->weights, &err), 0);
	weights_release(&f->weights);
	fp8_forward_free(f->weights.fp8);
	fp8_select_release(&f->choice);
	checkpoint_release(&f->checkpoint);
}

/* Returns the values in the file, with their amax. */
static float *matrix_values(const struct files *files, enum which which, float *amax)
{
	const struct slice *slice = &matrices[which].slice;
	size_t n = matrices[which].n, k = matrices[which].k;
	float *x = malloc(n * k * sizeof *x);

	*amax = 0;
	for (size_t i = 0; i < n * k; i++) {
		x[i] = files->values[which][slice->first + i / k * slice->row_stride +
					    i % k * slice->col_stride];
		*amax = fmaxf(*amax, fabsf(x[i]));
	}
	return x;
}

/* Returns the values that products are given: of codes, or rounded to bf16 in a router. */
static float *expected_values(const struct fixture *f, enum which which, const float *x, float amax)
{
	size_t n = matrices[which].n, k = matrices[which].k, step = matrices[which].n_alternating;
	bool whole = f->recipe->w.rows == WHOLE;
	const struct fp8_values of = { n / step,	  k,
				       step * k,	  f->recipe->w,
				       f->recipe->scales, whole ? amax : 0 };
	float *values = malloc(n * k * sizeof *values);

	for (size_t i = 0; i < step && which != ROUTER; i++)
		fp8_values(&of, x + i * k, values + i * k);
	for (size_t i = 0; i < n * k && which == ROUTER; i++)
		values[i] = bf16_to_f32(bf16_from_f32(x[i]));
	return values;
}

static bool all_bf16(const float *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bf16_to_f32(bf16_from_f32(values[i])) != values[i])
			return false;
	return true;
}

static void check_linear(const struct linear *linear, enum which which, const struct fixture *f,
			 const float *wanted, float amax)
{
	size_t n = matrices[which].n * matrices[which].k;
	bool halves = all_bf16(wanted, n) && (which == ROUTER || f->recipe->scales != FLOATS);

	assert_int_equal(linear->input, halves ? DT_BF16 : DT_F32);
	assert_int_equal(linear->weight.dtype, linear->input);
	assert_int_equal(linear->cast != NULL, which != ROUTER);
	assert_true(linear->amax == amax);
	for (size_t i = 0; i < n; i++) {
		float found = halves ? bf16_to_f32(((uint16_t *)linear->weight.data)[i])
				     : ((float *)linear->weight.data)[i];

		if (found != wanted[i])
			fail_msg("%s, panels of %zu, %s [%zu, %zu]: %a, not %a", f->recipe->recipe,
				 panel_rows_now, matrices[which].what, i / matrices[which].k,
				 i % matrices[which].k, (double)found, (double)wanted[i]);
	}
}

/* A tile is whole where its scale is known. */
static void check_tile(struct fixture *f, enum which which)
{
	struct tile tile = fp8_forward_tile(f->weights.fp8, ref_of(f, which));
	bool free = which == ROUTER || f->recipe->w.rows == WHOLE;

	assert_int_equal(tile.rows, free ? 1 : matrices[which].n_alternating * f->recipe->w.rows);
	assert_int_equal(tile.cols, free ? 1 : f->recipe->w.cols);
}

static void check_layers(struct fixture *f, const struct layer *layers)
{
	for (enum which which = Q; which < N_MATRICES; which++) {
		float amax, *x = matrix_values(f->files, which, &amax);
		float *wanted = expected_values(f, which, x, amax);

		check_tile(f, which);
		for (size_t d = 0; d < N_DEVICES; d++)
			check_linear(linear_of(&layers[d], which), which, f, wanted, amax);
		free(x);
		free(wanted);
	}
}

static void check_layer(struct fixture *f)
{
	struct layer layers[N_DEVICES];
	struct weights_load load;
	size_t n = 0;
	struct err err = { 0 };

	if (weights_begin_layer(&load, &f->weights, NULL, &f->layer, layers, &err) ||
	    weights_load_pieces(&load, &err))
		fail_msg("%s", err.message);
	for (enum which which = Q; which < N_MATRICES; which++)
		n += (matrices[which].n + panel_rows(matrices[which].n) - 1) /
		     panel_rows(matrices[which].n);
	assert_int_equal(load.n, n);
	weights_load_end(&load);
	check_layers(f, layers);
	for (size_t d = 0; d < N_DEVICES; d++)
		layer_release(&layers[d], f->executors[d]);
}

static void every_panel_has_the_values_of_its_codes(void **state)
{
	static const size_t panels[] = { 256, 1024, SIZE_MAX };

	for (size_t r = 0; r < N_FP8_RECIPES; r++)
		for (size_t p = 0; p < sizeof panels / sizeof *panels; p++) {
			struct fixture f;

			panel_rows_now = panels[p];
			setup(&f, *state, &fp8_recipes[r]);
			check_layer(&f);
			teardown(&f);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_panel_has_the_values_of_its_codes),
	};

	return cmocka_run_group_tests(tests, files_make, files_remove);
}
