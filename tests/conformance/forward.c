/* SPDX-License-Identifier: Apache-2.0
 *
 * forward MODEL bf16|f32 IDS OUT [RECIPE [SCALE_FMT]]: the logits of one sequence, for the
 * comparison with transformers; with a recipe, in FP8, blocks ragged.  IDS: uint32 in a file; OUT:
 * float32 (tokens, vocabulary).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "forward/workspace.h"
#include "sweep/embed.h"

static uint32_t tokens[1 << 16];

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "forward: %s\n", err->message);
	exit(1);
}

static struct fp8_selection choice;

/* One step: scales that come from a history are 1. */
static struct fp8_forward *fp8_ready(struct forward *forward, const struct backend *backend,
				     const char *recipe, const char *scale_fmt)
{
	const struct fp8_params params = {
		.forward = true, .recipe = recipe, .scale_fmt = scale_fmt, .select.ragged = true
	};
	struct err err = { 0 };
	struct fp8_forward *fp8;

	check(fp8_select_make(&choice, &params, forward->model->checkpoint, forward->model, &err),
	      &err);
	fp8 = fp8_forward_new(&choice, backend);
	forward->casts = true;
	return fp8;
}

static void *memory_new(struct executor *executor, size_t size)
{
	struct err err = { 0 };
	void *memory;

	check(executor->ops->memory_new(executor, &memory, size, "a sequence", &err), &err);
	return memory;
}

static void embed(struct weights *weights, struct workspace *workspace,
		  const struct sequence *sequence)
{
	struct embed_workspace arrays = { 0 };
	struct err err = { 0 };

	check(embed_init(&arrays, weights->forward->model, sequence->n_tokens, &err), &err);
	check(embed_run(&arrays, weights, workspace, sequence, &err), &err);
	embed_release(&arrays);
}

/* Returns the loss. */
static double run(struct weights *weights, struct workspace *workspace, struct sequence *sequence,
		  float *logits)
{
	const struct forward *forward = weights->forward;
	const struct model *model = forward->model;
	struct executor_stream *stream = workspace->stream;
	struct err err = { 0 };
	struct weights_load load;
	struct linear head;
	float *vectors[1][N_LAST_VECTORS] = { { 0 } };
	double *losses = calloc(sequence->n_tokens, sizeof *losses), nll = 0;
	struct head_pass last = { { forward, workspace, NULL, sequence }, .losses = losses };

	embed(weights, workspace, sequence);
	for (size_t i = 0; i < model->n_layers; i++) {
		struct layer layer;
		const struct pass pass = { forward, workspace, &layer, sequence };
		int rc = weights_begin_layer(&load, weights, &stream, &model->layers[i], &layer,
					     &err);

		check(rc || weights_load_pieces(&load, &err), &err);
		weights_load_end(&load);
		check(forward_layer(&pass, &err), &err);
		layer_release(&layer, forward->executor);
	}
	check(weights_load_last(weights, &stream, vectors, &err), &err);
	check(weights_begin_linear(&load, weights, &stream, &model->head, &head, &err) ||
		      weights_load_pieces(&load, &err),
	      &err);
	weights_load_end(&load);
	last.head = (struct head){ vectors[0], &head };
	check(forward_head(&last, logits, &err), &err);
	for (size_t t = 0; t + 1 < sequence->n_tokens; t++)
		nll += losses[t];
	free(losses);
	linear_release(&head);
	weights_release_last(vectors[0], forward->executor);
	return nll;
}

/* The rows that large sequences are taken by, as far as the short ones here go. */
static size_t few_rows(enum executor_portion what, size_t n)
{
	return what == PORTION_ROWS
		       ? 64
		       : backend_select("cpu", &(struct err){ 0 })->executor->portion(what, n);
}

int main(int argc, char **argv)
{
	struct executor_ops ops;
	struct err err = { 0 };
	struct checkpoint checkpoint;
	struct model model;
	struct forward forward;
	struct weights_params params;
	struct weights weights;
	struct workspace *workspace;
	const struct backend *backend;
	struct sequence sequence = { .tokens = tokens };
	float *logits;
	FILE *file;

	if (argc < 5 || argc > 7)
		return 2;
	file = fopen(argv[3], "rb");
	sequence.n_tokens = fread(tokens, sizeof *tokens, sizeof tokens / sizeof *tokens, file);
	fclose(file);
	check(checkpoint_open(&checkpoint, &io_system, argv[1], 1, &err), &err);
	check(model_open(&model, &checkpoint, "", &err), &err);
	backend = backend_select("auto", &err);
	check(forward_init(&forward, backend->executor, &model, !strcmp(argv[2], "f32"), &err),
	      &err);
	ops = *forward.executor->ops;
	ops.portion = few_rows;
	forward.executor->ops = &ops;
	params = (struct weights_params){ &forward, &io_system, 2, NULL };
	check(weights_open(&weights, &params, &err), &err);
	if (argc > 5)
		weights.fp8 = fp8_ready(&forward, backend, argv[5], argv[6]);
	check(workspace_new(&workspace, &forward, (struct workspace_shape){ sequence.n_tokens, 1 },
			    0, &err),
	      &err);
	sequence.residual =
		memory_new(forward.executor,
			   sequence.n_tokens * forward_stream_width(&model, sequence.n_tokens) *
				   sizeof(float));
	sequence.stats =
		memory_new(forward.executor, forward_slots(&model) * sizeof *sequence.stats);
	logits = malloc(sequence.n_tokens * model.head.n * sizeof(float));
	printf("%.6f\n", run(&weights, workspace, &sequence, logits));
	file = fopen(argv[4], "wb");
	fwrite(logits, sizeof *logits, sequence.n_tokens * model.head.n, file);
	fclose(file);
	free(logits);
	forward.executor->ops->memory_free(forward.executor, sequence.residual);
	forward.executor->ops->memory_free(forward.executor, sequence.stats);
	workspace_free(workspace);
	fp8_forward_free(weights.fp8);
	fp8_select_release(&choice);
	weights_release(&weights);
	forward_release(&forward);
	model_release(&model);
	checkpoint_release(&checkpoint);
	return 0;
}
