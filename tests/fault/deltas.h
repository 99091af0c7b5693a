/* SPDX-License-Identifier: Apache-2.0
 *
 * Deltas from what `quantize` makes of the sample to the next step of its training: of two outputs,
 * and of an output and the next model; and what applies the first of them.
 */
#ifndef FP8CONV_TESTS_FAULT_DELTAS_H
#define FP8CONV_TESTS_FAULT_DELTAS_H

#include "delta/since.h"
#include "plan/quantize.h"
#include "tests/fault/histories.h"

static struct delta_params delta_params(const struct io *io, const struct place *place, bool other)
{
	return (struct delta_params){ .io = io,
				      .base = "fp8",
				      .result = other ? "fp8" : "next8",
				      .delta = place->output,
				      .n_threads = place->n_threads };
}

static int run_delta(const struct io *io, const struct place *place, bool other, bool half,
		     const atomic_int *stop, struct err *err)
{
	const struct delta_params params = delta_params(io, place, other);
	struct progress progress = { .stop = stop };
	struct delta_counts counts;

	(void)half;
	return delta_make(&params, &counts, &progress, err);
}

static int run_since(const struct io *io, const struct place *place, bool other, bool half,
		     const atomic_int *stop, struct err *err)
{
	struct quantize_params quantize = { .convert = { .io = io,
							 .input = other ? "llama" : "next",
							 .backend = backends[0],
							 .n_threads = place->n_threads,
							 .max_memory = 64 << 20 },
					    .recipe = "blockwise" };
	struct plan plan = { 0 };
	const struct since_params params = { delta_params(io, place, other), &plan,
					     &quantize.convert };
	struct progress progress = { .stop = stop };
	struct since_result result;
	int rc = quantize_plan_make(&plan, &quantize, &progress, err);

	(void)half;
	rc = rc ? rc : since_make(&params, &result, &progress, err);
	plan_release(&plan);
	return rc;
}

/* In place where the place has no input; D.safetensors is of fp8 and next8. */
static int run_apply(const struct io *io, const struct place *place, bool other, bool half,
		     const atomic_int *stop, struct err *err)
{
	const struct delta_params params = { .io = io,
					     .base = place->input ? place->input : place->output,
					     .delta = "D.safetensors",
					     .output = place->input ? place->output : NULL,
					     .n_threads = place->n_threads };
	struct progress progress = { .stop = stop };
	struct delta_counts counts;

	(void)other, (void)half;
	return delta_apply(&params, &counts, &progress, err);
}

/* Makes of `from` the folder `to`, of which some bytes of weights and a file are others. */
static inline void make_next(const char *from, const char *to)
{
	char *path = xasprintf("%s/model.safetensors", to);
	char *text = xasprintf("%s/generation_config.json", to);
	struct buf data;

	tree_remove(to);
	tree_copy(from, to);
	if (!tree_read(path, &data))
		tree_die("cannot read", path);
	for (size_t i = data.len / 2; i < data.len; i += 1000)
		data.data[i - i % 2] ^= 1;
	tree_write(path, data.data, data.len);
	tree_write(text, "{}\n", 3);
	buf_release(&data);
	free(path);
	free(text);
}

static inline void make_delta(void)
{
	struct err err = { 0 };

	if (run_delta(&io_system, &(struct place){ .output = "D.safetensors", .n_threads = 1 },
		      false, false, NULL, &err)) {
		fprintf(stderr, "delta: %s\n", err.message);
		exit(2);
	}
}

#endif
