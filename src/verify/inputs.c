/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/inputs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "format/scale_names.h"
#include "num/scale.h"
#include "verify/tensors.h"
#include "verify/values/diagnose.h"

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

int verify_inputs(struct verify *verify, struct err *err)
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
