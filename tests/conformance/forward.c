/* SPDX-License-Identifier: Apache-2.0
 *
 * forward MODEL bf16|f32 IDS OUT [RECIPE [SCALE_FMT]]: the logits of one sequence, for the comparison with transformers; with
 * a recipe, in FP8, blocks ragged.  IDS: uint32 in a file; OUT: float32 (tokens, vocabulary).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "job/weights.h"

static uint32_t tokens[1 << 16];

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "forward: %s\n", err->message);
	exit(1);
}

static struct fp8_choice choice;

/* One step: scales that come from a history are 1. */
static struct fp8_forward *fp8_ready(struct forward *forward, const struct backend *backend, const char *recipe,
				     const char *scale_fmt)
{
	const struct fp8_params params = { .forward = true, .recipe = recipe, .scale_fmt = scale_fmt, .select.ragged = true };
	struct err err = { 0 };
	struct fp8_forward *fp8;

	check(fp8_choice_make(&choice, &params, forward->model, &err), &err);
	fp8 = fp8_forward_new(&choice, backend, 1);
	forward->filter = fp8_forward_filter(fp8);
	return fp8;
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	struct checkpoint checkpoint;
	struct model model;
	struct forward forward;
	struct weights weights;
	struct forward_lane *lane;
	const struct backend *backend;
	struct sequence sequence = { .tokens = tokens };
	struct linear head;
	float *logits, *norm;
	double nll;
	FILE *file;

	if (argc < 5 || argc > 7)
		return 2;
	file = fopen(argv[3], "rb");
	sequence.n_tokens = fread(tokens, sizeof *tokens, sizeof tokens / sizeof *tokens, file);
	fclose(file);
	check(checkpoint_open(&checkpoint, &io_system, argv[1], 1, &err), &err);
	check(model_open(&model, &checkpoint, &err), &err);
	check(forward_init(&forward, &model, !strcmp(argv[2], "f32"), &err), &err);
	backend = backend_select("auto", &err);
	check(weights_open(&weights, &forward, &io_system, backend, 2, NULL, &err), &err);
	if (argc > 5)
		weights.fp8 = fp8_ready(&forward, backend, argv[5], argv[6]);
	check(forward_lane_new(&lane, &forward, sequence.n_tokens, 0, &err), &err);
	sequence.residual = malloc(sequence.n_tokens * model.hidden * sizeof(float));
	logits = malloc(sequence.n_tokens * model.vocab_size * sizeof(float));
	check(weights_embed(&weights, tokens, sequence.n_tokens, sequence.residual, &err), &err);
	for (size_t i = 0; i < model.n_layers; i++) {
		struct layer layer;

		check(weights_load_layer(&weights, &model.layers[i], &layer, &err), &err);
		check(forward_layer(&forward, lane, &layer, &sequence, &err), &err);
		layer_release(&layer);
	}
	check(weights_load_vector(&weights, model.norm, &norm, &err), &err);
	check(weights_load_linear(&weights, &model.head, &head, &err), &err);
	check(forward_head(&forward, lane, norm, &head, &sequence, &nll, logits, &err), &err);
	file = fopen(argv[4], "wb");
	fwrite(logits, sizeof *logits, sequence.n_tokens * model.vocab_size, file);
	fclose(file);
	printf("%.6f\n", nll);
	linear_release(&head);
	free(norm);
	free(logits);
	free(sequence.residual);
	forward_lane_free(lane, &forward);
	fp8_forward_free(weights.fp8);
	fp8_choice_release(&choice);
	weights_release(&weights);
	forward_release(&forward);
	model_release(&model);
	checkpoint_release(&checkpoint);
	return 0;
}
