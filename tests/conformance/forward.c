/* SPDX-License-Identifier: Apache-2.0
 *
 * forward: the logits of one sequence for each line of standard input, for the comparison with
 * transformers.  A line: MODEL, bf16 or f32, IDS, OUT [, RECIPE [, SCALE_FMT]], with a tab between
 * two; with a recipe, in FP8, blocks ragged.  IDS: uint32 in a file; OUT: float32 (tokens,
 * vocabulary).  The answer is a line too: the loss, or "refused: " and the message; after
 * "failed: " and the message the program ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "forward/workspace.h"
#include "sweep/embed.h"

enum { MODEL, PRECISION, IDS, OUT, RECIPE, SCALE_FMT, N_WORDS };

static uint32_t tokens[1 << 16];

/* After a model was opened. */
static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	printf("failed: %s\n", err->message);
	exit(1);
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

/* The logits of one sequence go to a file. */
static void write_logits(struct weights *weights, struct sequence *sequence, const char *out)
{
	const struct forward *forward = weights->forward;
	const struct model *model = forward->model;
	const struct workspace_shape shape = { sequence->n_tokens, 1 };
	const size_t n = sequence->n_tokens * model->head.n;
	float *logits = malloc(n * sizeof *logits);
	struct workspace *workspace;
	struct err err = { 0 };
	FILE *file;

	check(workspace_new(&workspace, forward, shape, 0, &err), &err);
	sequence->residual =
		memory_new(forward->executor,
			   sequence->n_tokens * forward_stream_width(model, sequence->n_tokens) *
				   sizeof(float));
	sequence->stats =
		memory_new(forward->executor, forward_slots(model) * sizeof *sequence->stats);
	printf("%.6f\n", run(weights, workspace, sequence, logits));
	file = fopen(out, "wb");
	fwrite(logits, sizeof *logits, n, file);
	fclose(file);
	free(logits);
	forward->executor->ops->memory_free(forward->executor, sequence->residual);
	forward->executor->ops->memory_free(forward->executor, sequence->stats);
	workspace_free(workspace);
}

/* One step: scales that come from a history are 1. */
static int run_fp8(struct forward *forward, struct weights *weights, const struct backend *backend,
		   struct sequence *sequence, char *const *words, struct err *err)
{
	const struct fp8_params params = { .forward = true,
					   .recipe = words[RECIPE],
					   .scale_fmt = words[SCALE_FMT],
					   .select.ragged = true };
	struct fp8_selection choice = { 0 };
	int rc = fp8_select_make(&choice, &params, forward->model->checkpoint, forward->model, err);

	if (rc)
		return rc;
	weights->fp8 = fp8_forward_new(&choice, backend);
	forward->casts = true;
	write_logits(weights, sequence, words[OUT]);
	fp8_forward_free(weights->fp8);
	fp8_select_release(&choice);
	return 0;
}

static int run_model(const struct model *model, char *const *words, struct err *err)
{
	const struct backend *backend = backend_select("auto", err);
	struct sequence sequence = { .tokens = tokens };
	FILE *file = fopen(words[IDS], "rb");
	struct executor_ops ops;
	struct forward forward;
	struct weights weights;
	int rc;

	sequence.n_tokens = fread(tokens, sizeof *tokens, sizeof tokens / sizeof *tokens, file);
	fclose(file);
	rc = forward_init(&forward, backend->executor, model, !strcmp(words[PRECISION], "f32"),
			  err);
	if (rc)
		return rc;
	ops = *forward.executor->ops;
	ops.portion = few_rows;
	forward.executor->ops = &ops;
	rc = weights_open(&weights, &(struct weights_params){ &forward, &io_system, 2, NULL }, err);
	if (!rc) {
		if (words[RECIPE])
			rc = run_fp8(&forward, &weights, backend, &sequence, words, err);
		else
			write_logits(&weights, &sequence, words[OUT]);
		weights_release(&weights);
	}
	forward_release(&forward);
	return rc;
}

static int answer(char *const *words, struct err *err)
{
	struct checkpoint checkpoint;
	struct model model;
	int rc = checkpoint_open(&checkpoint, &io_system, words[MODEL], 1, err);

	if (rc)
		return rc;
	rc = model_open(&model, &checkpoint, "", err);
	if (!rc) {
		rc = run_model(&model, words, err);
		model_release(&model);
	}
	checkpoint_release(&checkpoint);
	return rc;
}

int main(void)
{
	char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, stdin) > 0) {
		char *words[N_WORDS + 1] = { NULL }, *rest = line;
		struct err err = { 0 };

		line[strcspn(line, "\n")] = '\0';
		for (size_t i = 0; rest && i < N_WORDS; i++)
			words[i] = strsep(&rest, "\t");
		if (!words[OUT])
			return 2;
		if (answer(words, &err))
			printf("refused: %s\n", err.message);
		fflush(stdout);
	}
	free(line);
	return 0;
}
