/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that write nothing: their numbers are put into a file, so that they can be compared.  One of
 * them also with a file that it continues from.
 */
#ifndef FP8CONV_TESTS_FAULT_EVALUATIONS_H
#define FP8CONV_TESTS_FAULT_EVALUATIONS_H

#include "backend/backend.h"
#include "diff/diff.h"
#include "eval/eval.h"
#include "tests/fault/histories.h"

static inline void numbers_write(const char *path, const struct eval_result *result)
{
	const struct quality *quality = &result->quality;
	struct buf text = { 0 };

	buf_printf(&text, "%s %a %a %a %a\n", result->data_sha256,
		   quality->of[QUALITY_PERPLEXITY].value,
		   quality->of[QUALITY_SOURCE_PERPLEXITY].value, quality->of[QUALITY_KLD].value,
		   quality->of[QUALITY_DELTA_P_RMS].value);
	for (size_t i = 0; i < result->n_layers; i++) {
		const struct layer_quality *layer = &result->layers[i];

		buf_printf(&text, "%a\n", layer->residual.noise);
		for (size_t m = 0; m < layer->n_modules; m++)
			buf_printf(&text, "%s %a %a\n", layer->modules[m].ref->module,
				   layer->modules[m].local.noise,
				   layer->modules[m].accumulated.noise);
	}
	tree_write(path, text.data, text.len);
	buf_release(&text);
}

/* Two short sequences: what is read does not depend on their length. */
static inline void make_short_ids(void)
{
	static const char text[] = "{\"input_ids\": [1, 2, 3, 4, 5, 6, 7, 8]}\n"
				   "{\"input_ids\": [8, 7, 6, 5]}\n";

	tree_write("short.jsonl", text, sizeof text - 1);
}

/* Of fp8, against llama, of which it was made.  resume: where it continues; NULL: its numbers are
 * written. */
static int evaluate(const struct io *io, const struct place *place, const char *resume,
		    const struct eval_params *options, struct err *err)
{
	static const char *const data[] = { "short.jsonl" };
	struct eval_params params = *options;
	struct sweep_progress progress = { 0 };
	struct eval_result result;
	struct eval_plan plan;
	int rc;

	params.io = io;
	params.input = "fp8";
	params.source = "llama";
	params.data = data;
	params.n_data = 1;
	params.by_layer = true;
	params.resume = resume;
	params.backend = backends[0];
	params.n_threads = place->n_threads;
	if (eval_plan_make(&plan, &params, err))
		return -1;
	rc = eval_run(&plan, &params, &progress, &result, err);
	if (!rc && !resume)
		numbers_write(place->output, &result);
	if (!rc)
		eval_result_release(&result);
	eval_plan_release(&plan);
	return rc;
}

static int run_eval(const struct io *io, const struct place *place, bool other, bool half,
		    const atomic_int *stop, struct err *err)
{
	const struct eval_params options = { .stop = stop };

	(void)other, (void)half;
	return evaluate(io, place, NULL, &options, err);
}

/* half: of the first sequence alone.  restart: the file is removed, as a message says. */
static int run_kept_eval(const struct io *io, const struct place *place, bool other, bool half,
			 const atomic_int *stop, struct err *err)
{
	static const char file[] = "out/s.eval";
	const struct eval_params options = { .stop = stop,
					     .passes = half,
					     .precision = other ? "f32" : "bf16" };

	if (place->restart && !other)
		unlink(file);
	return evaluate(io, place, file, &options, err);
}

/* Of fp8, against llama. */
static int run_diff(const struct io *io, const struct place *place, bool other, bool half,
		    const atomic_int *stop, struct err *err)
{
	const struct diff_params params = { .io = io,
					    .paths = { "llama", "fp8" },
					    .backend = backends[0],
					    .n_threads = place->n_threads };
	struct progress progress = { .stop = stop };
	struct difference difference;
	struct buf text = { 0 };
	int rc = diff_run(&difference, &params, &progress, err);

	(void)other, (void)half;
	for (size_t i = 0; !rc && i < difference.n_tensors; i++)
		buf_printf(&text, "%s %s %a %zu\n", difference.tensors[i].name,
			   diff_kind_name(difference.tensors[i].kind),
			   difference.tensors[i].found.noise, difference.n_keys);
	if (!rc)
		tree_write(place->output, text.data, text.len);
	buf_release(&text);
	diff_release(&difference);
	return rc;
}

#endif
