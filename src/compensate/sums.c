/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "compensate/inputs.h"
#include "compensate/ranks.h"

/* Runs a sequence through the layer on a copy of its residual stream. */
static int run_copy(const struct inputs *inputs, int worker, size_t i, struct err *err)
{
	const struct runner *runner = &inputs->job->runner;
	struct pass pass = runner_pass(runner, worker, i);
	struct sequence sequence = *pass.sequence;
	struct executor_stream *stream = runner->memory.workspaces[worker]->stream;
	size_t width = forward_stream_width(runner->from->model, sequence.n_tokens);
	const struct copy_args copy = { .y = { inputs->streams[worker], width },
					.x = { sequence.residual, width },
					.repeat = 1,
					.n_rows = sequence.n_tokens,
					.n_cols = width };

	stream->executor->ops->copy(stream, &copy);
	sequence.residual = inputs->streams[worker];
	pass.sequence = &sequence;
	return forward_layer(&pass, err);
}

static int run_sequence(const struct inputs *inputs, int worker, size_t i, struct err *err)
{
	struct compensation *job = inputs->job;
	int rc;

	if (inputs->turn->last || !runner_layer(&job->runner))
		rc = runner_run(&job->runner, worker, (struct span){ i, 1 }, err);
	else
		rc = run_copy(inputs, worker, i, err);
	atomic_fetch_add(&job->progress->done, job->work);
	return rc;
}

/* Returns the panels of a group's sum. */
static size_t n_panels(const struct inputs *inputs, size_t group)
{
	size_t k = inputs_group(inputs, group)->input.k;
	size_t n = inputs_executor(inputs)->ops->portion(PORTION_GRAM, k);

	return (k + n - 1) / n;
}

/* Adds a chunk's inputs of a group to a panel of its sum. */
static int add_panel(const struct inputs *inputs, int worker, size_t group, size_t panel,
		     struct err *err)
{
	const struct runner *runner = &inputs->job->runner;
	struct executor_stream *stream = runner->memory.workspaces[worker]->stream;
	const struct executor_ops *ops = stream->executor->ops;
	const struct input_group *input = &inputs_group(inputs, group)->input;
	size_t n = ops->portion(PORTION_GRAM, input->k), first = panel * n;
	struct gram_args args = { .dtype = inputs->dtype,
				  .k = input->k,
				  .first = first,
				  .n = input->k - first < n ? input->k - first : n,
				  .h = inputs->sums[group] };

	for (size_t i = 0; i < inputs->adding.n; i++) {
		args.x = inputs_rows(inputs, &inputs->adding, i, group, &args.m);
		ops->gram(stream, &args);
	}
	return ops->wait(stream, err);
}

/* Runs a sequence, or adds a panel: of all, this rank has every n_ranks-th.  Panels are short, so
 * they come last: threads end together. */
static int step_item(void *context, int worker, size_t item, struct err *err)
{
	const struct inputs *inputs = context;
	const struct group *ranks = inputs->job->plan->params.group;
	size_t group = 0;

	if (item < inputs->n_own)
		return run_sequence(inputs, worker, inputs->own[item], err);
	item = group_rank(ranks) + (item - inputs->n_own) * group_size(ranks);
	for (; item >= n_panels(inputs, group); group++)
		item -= n_panels(inputs, group);
	return add_panel(inputs, worker, group, item, err);
}

/* Runs one chunk while the previous one is added to the Hessians. */
static int step(struct inputs *inputs, struct err *err)
{
	const struct compensate_params *params = &inputs->job->plan->params;
	size_t n_ranks = group_size(params->group), n = 0;
	int rc;

	for (size_t g = 0; g < inputs->n && inputs->adding.n; g++)
		n += n_panels(inputs, g);
	n = (n + n_ranks - 1 - group_rank(params->group)) / n_ranks;
	rc = pool_run(params->n_threads, inputs->n_own + n, step_item, inputs, params->stop, err);
	return ranks_settle(inputs->job, rc, err);
}

/* Runs sequences and keeps their inputs, and adds the inputs of the chunk before. */
static int run_chunk(struct inputs *inputs, const size_t *sequences, size_t n, struct err *err)
{
	int rc;

	inputs_begin(inputs, sequences, n);
	rc = runner_stats_clear(&inputs->job->runner, inputs->job->plan->own.n, err);
	if (ranks_settle(inputs->job, rc, err) || step(inputs, err) || inputs_end(inputs, err))
		return -1;
	inputs->adding = inputs->running;
	return 0;
}

/* Adds the last chunk, while sequences run whose inputs are not kept. */
static int end_chunks(struct inputs *inputs, const size_t *sequences, size_t n, struct err *err)
{
	inputs_skip(inputs, sequences, n);
	if (step(inputs, err))
		return -1;
	inputs->adding = (struct sequence_chunk){ 0 };
	return 0;
}

/* ERR_INPUT where the squares of a group's inputs, which are finite, are not. */
static int check_diagonal(const struct input_group *input, const float *h, struct err *err)
{
	for (size_t i = 0; i < input->k; i++)
		if (!isfinite(h[i * input->k + i]))
			return err_set(err, ERR_INPUT,
				       "the inputs of '%s' are so large that the sum of their "
				       "squares overflows: use --exclude to keep such weights",
				       input->linears[0]->module);
	return 0;
}

/* Adds a domain's sum, divided by its trace if there are several domains, and clears it. */
static int add_domain(struct inputs *inputs, size_t group, float *domain, struct err *err)
{
	const struct input_group *input = &inputs_group(inputs, group)->input;
	struct executor_stream *stream = runner_stream(&inputs->job->runner);
	const struct executor_ops *ops = stream->executor->ops;
	size_t n = input->k * input->k;
	float *to = inputs->turn->sums[group].hessian;
	bool one = inputs->job->plan->n_domains == 1;
	double trace = 0;
	int rc;

	ops->fetch(stream, one ? to : domain, inputs->sums[group], n * sizeof *to);
	ops->zero(stream, inputs->sums[group], n * sizeof *to);
	rc = ranks_unite(inputs->job, ops->wait(stream, err), one ? to : domain, n * sizeof *to,
			 err);
	if (rc || check_diagonal(input, one ? to : domain, err))
		return -1;
	for (size_t i = 0; !one && i < input->k; i++)
		trace += domain[i * input->k + i];
	for (size_t i = 0; trace > 0 && i < n; i++)
		to[i] += domain[i] / (float)trace;
	return 0;
}

static int add_domains(struct inputs *inputs, struct err *err)
{
	uint64_t largest = 0;
	void *domain;
	int rc;

	for (size_t g = 0; g < inputs->n; g++) {
		uint64_t k = inputs_group(inputs, g)->input.k;

		largest = k > largest ? k : largest;
	}
	rc = buffer_alloc(&domain, largest * largest * sizeof(float) + 1, "a Hessian", err);
	rc = ranks_settle(inputs->job, rc, err);
	for (size_t g = 0; g < inputs->n && !rc; g++)
		rc = add_domain(inputs, g, domain, err);
	free(domain);
	return rc;
}

/* Lists the sequences of [first, end) that are held out, or those that are not. */
static size_t list(const struct compensate_plan *plan, size_t first, size_t end, bool held_out,
		   size_t *sequences)
{
	size_t n = 0;

	for (size_t i = first; i < end; i++)
		if (plan->held_out[i] == held_out)
			sequences[n++] = i;
	return n;
}

/* Adds the sequences of a domain that are not held out.  With the last domain, the sequences that
 * are held out go to the next layer; at the head they have no further stage. */
static int sum_domain(struct inputs *inputs, size_t domain, size_t *sequences, struct err *err)
{
	const struct compensate_plan *plan = inputs->job->plan;
	bool ends = domain + 1 == plan->n_domains && inputs->turn->last &&
		    runner_layer(&inputs->job->runner);
	size_t begin = domain ? plan->domain_ends[domain - 1] : 0;
	size_t n = list(plan, begin, plan->domain_ends[domain], false, sequences);

	for (size_t first = 0; first < n; first += inputs->max_chunk) {
		size_t left = n - first;

		if (run_chunk(inputs, sequences + first,
			      left < inputs->max_chunk ? left : inputs->max_chunk, err))
			return -1;
	}
	n = ends ? list(plan, 0, plan->data.n, true, sequences) : 0;
	return end_chunks(inputs, sequences, n, err) || add_domains(inputs, err) ? -1 : 0;
}

static int clear_sum(const struct inputs *inputs, size_t group, struct err *err)
{
	const struct runner *runner = &inputs->job->runner;
	size_t k = inputs_group(inputs, group)->input.k;
	uint64_t size = k * k * sizeof(float);
	float **hessian = &inputs->turn->sums[group].hessian;

	inputs_executor(inputs)->ops->zero(runner_stream(runner), inputs->sums[group], size);
	if (buffer_alloc((void **)hessian, size, "the Hessian of an input", err))
		return -1;
	memset(*hessian, 0, size);
	return 0;
}

int turn_sum(struct compensation *job, const struct turn *turn, struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	size_t *sequences = xcalloc(plan->data.n, sizeof *sequences);
	struct inputs inputs;
	int rc = inputs_open(&inputs, job, turn, err);

	job->runner.forward.observer = &inputs.observer;
	for (size_t g = 0; g < inputs.n && !rc; g++)
		rc = clear_sum(&inputs, g, err);
	rc = ranks_settle(job, rc, err);
	for (size_t d = 0; d < plan->n_domains && !rc; d++)
		rc = sum_domain(&inputs, d, sequences, err);
	job->runner.forward.observer = NULL;
	inputs_release(&inputs);
	free(sequences);
	return rc;
}
