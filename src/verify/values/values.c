/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/values.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "format/scale_names.h"
#include "num/scale.h"
#include "verify/tensors.h"
#include "verify/values/compare.h"
#include "verify/values/diagnose.h"
#include "verify/values/identify.h"
#include "verify/values/kept_values.h"
#include "verify/values/origin.h"
#include "verify/values/worker.h"

#define CHUNK	     256     /* elements read at once */
#define MANY	     4	     /* input scales of which something is usual */
#define LARGE_MEDIAN 16.0f   /* of inputs of 16 * 448 */
#define FAR_ABOVE    1024.0f /* the largest inputs of a model are some hundred times as large */

/* The input scale of a weight, one value or one for each expert. */
struct input {
	const struct verify_weight *weight;
	const struct tensor_ref *ref;
	uint64_t n;
	float value;	    /* the first */
	struct finding bad; /* values that no input has */
};

struct input_scales {
	struct verify *verify;
	size_t n;
	struct input *list;
};

static void list_inputs(struct input_scales *inputs)
{
	const struct verify *verify = inputs->verify;

	for (size_t w = 0; w < verify->weights.n; w += verify_weight_run(verify, w)) {
		const struct verify_weight *weight = &verify->weights.list[w];
		const struct tensor_ref *ref =
			input_scale_beside(verify->opened.checkpoint, weight->unit.name);

		if (!ref || !dtype_is_float(ref->tensor->dtype))
			continue;
		ARRAY_GROW(inputs->list, inputs->n);
		inputs->list[inputs->n++] = (struct input){
			.weight = weight,
			.ref = ref,
			.n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims),
		};
	}
}

static int read_input(void *context, int worker, size_t item, struct err *err)
{
	const struct input_scales *inputs = context;
	struct input *input = &inputs->list[item];
	float values[CHUNK];

	(void)worker;
	for (uint64_t at = 0; at < input->n; at += CHUNK) {
		size_t n = input->n - at < CHUNK ? (size_t)(input->n - at) : CHUNK;

		if (source_read_floats(
			    &inputs->verify->run.files,
			    &(struct floats_request){ .ref = input->ref, .first = at, .n = n },
			    values, err))
			return -1;
		for (size_t i = 0; i < n; i++)
			if (scale_fault_of(values[i], FP8_E4M3) != SCALE_SOUND)
				finding_add(&input->bad, at + i, values[i]);
		if (!at)
			input->value = values[0];
	}
	return 0;
}

/* Compares it with that of the first member of its fused set, which it becomes where the set has
 * none yet. */
static void compare_expert(struct verify *verify, const struct input *input,
			   const struct input **first)
{
	const char *name = input->ref->tensor->name;

	if (!*first)
		*first = input;
	else if (engine_refuses_input_scales((*first)->value, input->value))
		verify_report(verify, PROBLEM_GROUP_INPUTS_DIFFER, input->ref,
			      "'%s' is %.9g, but '%s' is %.9g", name, (double)input->value,
			      (*first)->ref->tensor->name, (double)(*first)->value);
}

static bool is_judged(const struct verify *verify, const struct input *input)
{
	return input->n && !input->bad.n && !sums_are_right(&verify->run.sums, input->ref->shard);
}

/* Judges together the input scales that no manifest proves.  Inputs of modules are of the size of
 * 10; few are in the thousands, and they differ. */
static void judge_all(struct verify *verify, const struct input_scales *inputs)
{
	float *values = xcalloc(inputs->n + 1, sizeof *values);
	struct problems *problems = &verify->result->problems;
	size_t n = 0;
	float median;

	for (size_t i = 0; i < inputs->n; i++)
		if (is_judged(verify, &inputs->list[i]))
			values[n++] = inputs->list[i].value;
	median = diagnose_median(values, n);
	if (n >= MANY && values[0] == values[n - 1])
		problem_add(problems, PROBLEM_INPUT_SCALE_OUTLIER, NULL, NULL,
			    "all %zu input scales are %g", n, (double)median);
	else if (n && median > LARGE_MEDIAN)
		problem_add(problems, PROBLEM_INPUT_SCALES_INVERTED, NULL, NULL,
			    "half of %zu input scales are above %g", n, (double)median);
	for (size_t i = 0; i < inputs->n; i++) {
		const struct input *input = &inputs->list[i];

		if (n >= MANY && is_judged(verify, input) && input->value > FAR_ABOVE * median)
			verify_report(verify, PROBLEM_INPUT_SCALE_OUTLIER, input->ref,
				      "'%s' is %g, but others are %g", input->ref->tensor->name,
				      (double)input->value, (double)median);
	}
	free(values);
}

static void judge(struct input_scales *inputs)
{
	struct verify *verify = inputs->verify;
	const struct input **first = xcalloc(verify->weights.fused_sets.n, sizeof *first);

	for (size_t i = 0; i < inputs->n; i++) {
		const struct input *input = &inputs->list[i];

		verify_report_values(verify, PROBLEM_INPUT_SCALE_VALUE, input->ref, &input->bad,
				     input->n, "are no scale of an input");
		if (input->n == 1 && input->weight->fused_set != SIZE_MAX &&
		    role_cache_find(&verify->roles, input->weight->unit.name).expert)
			compare_expert(verify, input, &first[input->weight->fused_set]);
	}
	judge_all(verify, inputs);
	free(first);
}

/* Reads the static input scales, judges each, and compares the first and third matrix's of each
 * expert.  ERR_INPUT where a file is truncated or changed. */
static int verify_inputs(struct verify *verify, struct err *err)
{
	struct input_scales inputs = { .verify = verify };
	int rc;

	list_inputs(&inputs);
	rc = pool_run(verify->params->n_threads, inputs.n, read_input, &inputs,
		      verify->progress->stop, err);
	if (!rc)
		judge(&inputs);
	free(inputs.list);
	return rc;
}

/* One reading of all weights, or another one of the weights of one granularity. */
struct reading {
	struct verify *verify;
	const struct cuts *cuts;
	bool again;
	enum granularity granularity;
};

static int read_cut(void *context, int worker, size_t item, struct err *err)
{
	const struct reading *reading = context;
	struct verify *verify = reading->verify;
	const struct cut *cut = &reading->cuts->list[item];
	struct verify_weight *weight = &verify->weights.list[cut->weight];
	struct verify_worker *memory = &verify->run.workers[worker];
	struct scan found = { 0 };
	void *scales;
	int rc = 0;

	if (reading->again && weight->granularity != reading->granularity)
		return 0;
	if (source_codes(&verify->run.files, &weight->unit, &cut->rect, memory->codes, err) ||
	    source_scales(&verify->run.files, &weight->unit, &cut->rect, &scales, err))
		return -1;
	if (!reading->again && cut->rect.n_cols == weight->unit.cols)
		sums_add(&verify->run.sums, verify, weight->unit.source,
			 weight->unit.slice.first + cut->rect.row * weight->unit.cols,
			 memory->codes, cut->rect.n_rows * cut->rect.n_cols);
	scan_cut(verify, cut, memory->codes, scales, &found);
	if (weight->origin)
		rc = compare_cut(verify, memory, cut, scales, &found, err);
	free(scales);
	if (rc)
		return -1;
	atomic_fetch_add(&verify->progress->done, cut->rect.n_rows * cut->rect.n_cols);
	pthread_mutex_lock(&verify->run.lock);
	scan_merge(&weight->scan, &found);
	pthread_mutex_unlock(&verify->run.lock);
	return 0;
}

static int read_all(struct reading *reading, struct err *err)
{
	const struct verify *verify = reading->verify;

	return pool_run(verify->params->n_threads, reading->cuts->n, read_cut, reading,
			verify->progress->stop, err);
}

static uint64_t mismatches_of(const struct verify *verify, enum granularity granularity)
{
	uint64_t n = 0;

	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];

		if (weight->granularity == granularity)
			n += weight->scan.codes_off.n + weight->scan.scales_off.n;
	}
	return n;
}

static uint64_t codes_of(const struct reading *reading)
{
	uint64_t n = 0;

	for (size_t i = 0; i < reading->cuts->n; i++) {
		const struct cut *cut = &reading->cuts->list[i];

		if (reading->verify->weights.list[cut->weight].granularity == reading->granularity)
			n += cut->rect.n_rows * cut->rect.n_cols;
	}
	return n;
}

/* Reads the weights again with the next candidate and keeps the better one: some candidates differ
 * in one code of thousands. */
static int read_again(struct reading *reading, uint64_t *n_off, struct err *err)
{
	struct verify *verify = reading->verify;
	struct scan *before = xcalloc(verify->weights.n, sizeof *before);
	uint64_t n_again;
	int rc = -1;

	for (size_t w = 0; w < verify->weights.n; w++) {
		before[w] = verify->weights.list[w].scan;
		if (verify->weights.list[w].granularity == reading->granularity)
			verify->weights.list[w].scan = (struct scan){ 0 };
	}
	atomic_fetch_add(&verify->progress->total, codes_of(reading));
	if (read_all(reading, err))
		goto out;
	n_again = mismatches_of(verify, reading->granularity);
	candidates_end(verify, reading->granularity, n_again < *n_off);
	for (size_t w = 0; n_again >= *n_off && w < verify->weights.n; w++)
		verify->weights.list[w].scan = before[w];
	*n_off = n_again < *n_off ? n_again : *n_off;
	rc = 0;
out:
	free(before);
	return rc;
}

static int read_values(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct reading reading = { .verify = verify, .cuts = cuts };

	if (read_all(&reading, err))
		return -1;
	reading.again = true;
	for (reading.granularity = 0; reading.granularity < N_GRANULARITIES;
	     reading.granularity++) {
		uint64_t n_off = mismatches_of(verify, reading.granularity);

		while (n_off && candidates_next(verify, reading.granularity))
			if (read_again(&reading, &n_off, err))
				return -1;
	}
	return 0;
}

static int read_kept(void *context, int worker, size_t item, struct err *err)
{
	struct kept_values *kept = context;
	struct verify *verify = kept->verify;
	uint64_t n;

	if (kept_values_read(kept, item, &verify->run.workers[worker], &n, err))
		return -1;
	atomic_fetch_add(&verify->progress->done, n);
	return 0;
}

static uint64_t count_codes(const struct cuts *cuts)
{
	uint64_t n = 0;

	for (size_t i = 0; i < cuts->n; i++)
		n += cuts->list[i].rect.n_rows * cuts->list[i].rect.n_cols;
	return n;
}

int verify_values(struct verify *verify, struct err *err)
{
	struct kept_values kept;
	struct cuts cuts = { 0 };
	int rc = -1;

	sums_init(&verify->run.sums, verify);
	zero_scales_list(&verify->run.zero_scales, &verify->opened.recorded);
	verify_cut(verify, &cuts);
	kept_values_list(&kept, verify, verify_worker_bytes(verify));
	progress_begin(verify->progress, PROGRESS_WORK,
		       count_codes(&cuts) + kept_values_bytes(&kept));
	if (verify_workers_new(&verify->run.workers, verify, err) ||
	    (verify->params->source && origin_find(verify, &cuts, err)) ||
	    read_values(verify, &cuts, err) ||
	    pool_run(verify->params->n_threads, kept.n_pieces, read_kept, &kept,
		     verify->progress->stop, err) ||
	    sums_finish(&verify->run.sums, verify, err) || verify_inputs(verify, err) ||
	    source_close(&verify->run.files, 0, err) || origin_close(verify, err))
		goto out;
	diagnose(verify);
	kept_values_report(&kept);
	sums_report(&verify->run.sums, verify);
	rc = 0;
out:
	verify_workers_free(verify->run.workers, verify->params->n_threads);
	kept_values_release(&kept);
	free(cuts.list);
	return rc;
}
