/* SPDX-License-Identifier: Apache-2.0
 *
 * The Hessians of a turn.  Sequences run some at a time; meanwhile an observer keeps the inputs of
 * the turn's groups, in the type of products.  Then X^T X of each sequence is added to the sums,
 * sequence by sequence: a sum has one order, whatever runs at the same time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "compensate/steps.h"

#define CHUNK_MAX 64 /* sequences whose inputs are kept at once, at most */

/* The kept rows of a group, in the region of its kind, and the slot of their value stats. */
struct kept {
	size_t first, n, slot;
};

struct inputs {
	struct compensation *job;
	const struct turn *turn;
	size_t n; /* groups of the turn */
	struct observer observer;
	int32_t *groups;     /* by matrix of the stage: the group whose input it shows; -1: none */
	enum dtype dtype;    /* of kept values */
	size_t max_chunk;    /* sequences */
	const size_t *chunk; /* the current ones */
	size_t n_chunk;
	size_t *places;			 /* by sequence: its index in chunk; SIZE_MAX: none */
	uint64_t offsets[N_INPUT_KINDS]; /* of the region of a kind, in bytes */
	uint64_t sequence_size;		 /* bytes of all regions */
	char *memory;			 /* (max_chunk, sequence_size); the executor's */
	struct kept *kept;		 /* (max_chunk, n) */
	size_t (*used)[N_INPUT_KINDS];	 /* (max_chunk): rows of the regions */
	float **sums;			 /* (n): (k, k); the executor's */
	float **streams; /* by thread: (longest, hidden), unless the turn is the last; likewise */
};

static const struct compensate_group *group_at(const struct inputs *inputs, size_t i)
{
	return &inputs->turn->stage->groups[inputs->turn->first + i];
}

static struct executor *executor_of(const struct inputs *inputs)
{
	return inputs->job->runner.forward.executor;
}

/* Returns the number of a matrix of a layer, or 0 for the head. */
static size_t number_of(const struct layer_ref *layer, const struct linear_ref *linear)
{
	if (!layer)
		return 0;
	if (linear >= layer->linear && linear < layer->linear + N_LINEARS)
		return (size_t)(linear - layer->linear);
	return N_LINEARS + (size_t)(linear - &layer->experts[0][0]);
}

/* The first matrix of a group that is rounded shows the group's input: every row of it, once. */
static void find_groups(struct inputs *inputs, const struct layer_ref *layer)
{
	size_t n = layer ? N_LINEARS + layer->n_experts * N_EXPERT_ROLES : 1;

	inputs->groups = xmalloc(n * sizeof *inputs->groups);
	memset(inputs->groups, 0xFF, n * sizeof *inputs->groups);
	for (size_t g = 0; g < inputs->n; g++)
		inputs->groups[number_of(layer, group_at(inputs, g)->jobs[0].linear)] = (int32_t)g;
}

static void place_regions(struct inputs *inputs)
{
	const struct compensate_plan *plan = inputs->job->plan;
	const struct turn *turn = inputs->turn;
	bool placed[N_INPUT_KINDS] = { false };

	for (size_t g = turn->first; g < turn->end; g++) {
		enum input_kind kind = turn->stage->groups[g].input.kind;

		if (placed[kind])
			continue;
		placed[kind] = true;
		inputs->offsets[kind] = inputs->sequence_size;
		inputs->sequence_size +=
			compensate_region_size(plan, &turn->stage->groups[g].input, inputs->dtype);
	}
}

/* Copies n values to the region, in its type. */
static void keep(const struct inputs *inputs, const struct observation *x, void *to)
{
	const struct executor_ops *ops = x->stream->executor->ops;
	const struct copy_args copy = { .y = { to, x->n_cols },
					.x = { x->values, x->n_cols },
					.repeat = 1,
					.n_rows = x->n_rows,
					.n_cols = x->n_cols };

	if (inputs->dtype == DT_BF16)
		ops->round_bf16(x->stream, x->values, x->n_rows * x->n_cols, to);
	else
		ops->copy(x->stream, &copy);
}

static void observe(void *context, const struct observation *x)
{
	const struct inputs *inputs = context;
	size_t place = inputs->places[x->sequence];
	int32_t group;
	enum input_kind kind;
	struct kept *kept;
	size_t *used;

	if (x->what != OBSERVED_X || place == SIZE_MAX)
		return;
	group = inputs->groups[number_of(x->layer, x->linear)];
	if (group < 0)
		return;
	kind = group_at(inputs, (size_t)group)->input.kind;
	kept = &inputs->kept[place * inputs->n + (size_t)group];
	used = &inputs->used[place][kind];
	if (!kept->n)
		kept->first = *used;
	keep(inputs, x,
	     inputs->memory + place * inputs->sequence_size + inputs->offsets[kind] +
		     *used * x->n_cols * dtype_bits(inputs->dtype) / 8);
	kept->slot = x->slot;
	kept->n += x->n_rows;
	*used += x->n_rows;
}

static int allocate(struct inputs *inputs, struct err *err)
{
	const struct compensate_plan *plan = inputs->job->plan;
	struct executor *executor = executor_of(inputs);
	const struct executor_ops *ops = executor->ops;
	uint64_t stream = plan->sweep.longest * plan->model.hidden * sizeof(float);
	size_t n_threads = (size_t)plan->params.n_threads;

	inputs->sums = xcalloc(inputs->n + 1, sizeof *inputs->sums);
	inputs->streams = xcalloc(n_threads, sizeof *inputs->streams);
	inputs->kept = xcalloc(inputs->max_chunk * inputs->n + 1, sizeof *inputs->kept);
	inputs->used = xcalloc(inputs->max_chunk, sizeof *inputs->used);
	inputs->places = xmalloc(plan->data.n * sizeof *inputs->places);
	memset(inputs->places, 0xFF, plan->data.n * sizeof *inputs->places);
	for (size_t g = 0; g < inputs->n; g++) {
		uint64_t k = group_at(inputs, g)->input.k;

		if (ops->memory_new(executor, (void **)&inputs->sums[g], k * k * sizeof(float),
				    "the Hessian of an input", err))
			return -1;
	}
	for (size_t i = 0; i < n_threads && !inputs->turn->last; i++)
		if (ops->memory_new(executor, (void **)&inputs->streams[i], stream,
				    "a copy of a residual stream", err))
			return -1;
	return ops->memory_new(executor, (void **)&inputs->memory,
			       inputs->max_chunk * inputs->sequence_size + 1, "kept inputs", err);
}

static int inputs_open(struct inputs *inputs, struct compensation *job, const struct turn *turn,
		       struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	const struct layer *layer = runner_layer(&job->runner);
	uint64_t room = plan->room;

	*inputs = (struct inputs){ .job = job,
				   .turn = turn,
				   .n = turn->end - turn->first,
				   .dtype = compensate_input_type(plan) };
	inputs->observer = (struct observer){ inputs, observe };
	find_groups(inputs, layer ? layer->ref : NULL);
	place_regions(inputs);
	for (size_t g = 0; g < inputs->n; g++)
		room -= compensate_group_size(group_at(inputs, g));
	inputs->max_chunk = CHUNK_MAX;
	if (inputs->sequence_size && room / inputs->sequence_size < CHUNK_MAX)
		inputs->max_chunk = (size_t)(room / inputs->sequence_size);
	return allocate(inputs, err);
}

static void inputs_release(struct inputs *inputs)
{
	struct executor *executor = executor_of(inputs);
	const struct executor_ops *ops = executor->ops;

	for (size_t g = 0; inputs->sums && g < inputs->n; g++)
		ops->memory_free(executor, inputs->sums[g]);
	for (int i = 0; inputs->streams && i < inputs->job->plan->params.n_threads; i++)
		ops->memory_free(executor, inputs->streams[i]);
	ops->memory_free(executor, inputs->memory);
	free(inputs->sums);
	free(inputs->streams);
	free(inputs->kept);
	free(inputs->used);
	free(inputs->places);
	free(inputs->groups);
}

/* Runs a sequence through the layer on a copy of its residual stream. */
static int run_copy(const struct inputs *inputs, int worker, size_t i, struct err *err)
{
	const struct runner *runner = &inputs->job->runner;
	struct pass pass = runner_pass(runner, worker, i);
	struct sequence sequence = *pass.sequence;
	struct executor_stream *stream = runner->memory.workspaces[worker]->stream;
	size_t hidden = runner->from->model->hidden;
	const struct copy_args copy = { .y = { inputs->streams[worker], hidden },
					.x = { sequence.residual, hidden },
					.repeat = 1,
					.n_rows = sequence.n_tokens,
					.n_cols = hidden };

	stream->executor->ops->copy(stream, &copy);
	sequence.residual = inputs->streams[worker];
	pass.sequence = &sequence;
	return forward_layer(&pass, err);
}

static int run_item(void *context, int worker, size_t item, struct err *err)
{
	const struct inputs *inputs = context;
	struct compensation *job = inputs->job;
	size_t i = inputs->chunk[item];
	int rc;

	if (inputs->turn->last || !runner_layer(&job->runner))
		rc = runner_run(&job->runner, worker, i, err);
	else
		rc = run_copy(inputs, worker, i, err);
	atomic_fetch_add(&job->progress->done, job->work);
	return rc;
}

/* Returns the panels of a group's sum. */
static size_t n_panels(const struct inputs *inputs, size_t group)
{
	size_t k = group_at(inputs, group)->input.k;
	size_t n = executor_of(inputs)->ops->gram_cols(k);

	return (k + n - 1) / n;
}

/* Adds the chunk's inputs of a group to a panel of its sum. */
static int add_panel(const struct inputs *inputs, int worker, size_t group, size_t panel,
		     struct err *err)
{
	const struct runner *runner = &inputs->job->runner;
	struct executor_stream *stream = runner->memory.workspaces[worker]->stream;
	const struct executor_ops *ops = stream->executor->ops;
	const struct input_group *input = &group_at(inputs, group)->input;
	size_t n = ops->gram_cols(input->k), first = panel * n;
	struct gram_args args = { .dtype = inputs->dtype,
				  .k = input->k,
				  .first = first,
				  .n = input->k - first < n ? input->k - first : n,
				  .h = inputs->sums[group] };

	for (size_t i = 0; i < inputs->n_chunk; i++) {
		const struct kept *kept = &inputs->kept[i * inputs->n + group];

		args.x = inputs->memory + i * inputs->sequence_size + inputs->offsets[input->kind] +
			 kept->first * input->k * dtype_bits(inputs->dtype) / 8;
		args.m = kept->n;
		ops->gram(stream, &args);
	}
	return ops->wait(stream, err);
}

static int panel_item(void *context, int worker, size_t item, struct err *err)
{
	const struct inputs *inputs = context;
	size_t group = 0;

	for (; item >= n_panels(inputs, group); group++)
		item -= n_panels(inputs, group);
	return add_panel(inputs, worker, group, item, err);
}

/* ERR_INPUT where inputs of the chunk are NaN or infinite. */
static int check_values(struct inputs *inputs, struct err *err)
{
	struct runner *runner = &inputs->job->runner;

	if (runner_stats_fetch(runner, inputs->job->plan->data.n, err))
		return -1;
	for (size_t i = 0; i < inputs->n_chunk * inputs->n; i++) {
		const struct kept *kept = &inputs->kept[i];
		size_t sequence = inputs->chunk[i / inputs->n];

		if (kept->n &&
		    runner->memory.fetched[sequence * runner->n_slots + kept->slot].n_nonfinite)
			return err_set(
				err, ERR_INPUT,
				"the inputs of '%s' are NaN or infinite: the model overflows "
				"on this data",
				group_at(inputs, i % inputs->n)->input.linears[0]->module);
	}
	return 0;
}

static int add_chunk(struct inputs *inputs, struct err *err)
{
	const struct compensate_params *params = &inputs->job->plan->params;
	size_t n_items = 0;

	memset(inputs->kept, 0, inputs->max_chunk * inputs->n * sizeof *inputs->kept);
	memset(inputs->used, 0, inputs->max_chunk * sizeof *inputs->used);
	for (size_t i = 0; i < inputs->n_chunk; i++)
		inputs->places[inputs->chunk[i]] = i;
	inputs->job->runner.forward.observer = &inputs->observer;
	if (runner_stats_clear(&inputs->job->runner, inputs->job->plan->data.n, err) ||
	    pool_run(params->n_threads, inputs->n_chunk, run_item, inputs, params->stop, err) ||
	    check_values(inputs, err))
		return -1;
	for (size_t i = 0; i < inputs->n_chunk; i++)
		inputs->places[inputs->chunk[i]] = SIZE_MAX;
	for (size_t g = 0; g < inputs->n; g++) {
		n_items += n_panels(inputs, g);
		for (size_t i = 0; i < inputs->n_chunk; i++)
			inputs->turn->sums[g].n_tokens += inputs->kept[i * inputs->n + g].n;
	}
	return pool_run(params->n_threads, n_items, panel_item, inputs, params->stop, err);
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
	const struct input_group *input = &group_at(inputs, group)->input;
	struct executor_stream *stream = runner_stream(&inputs->job->runner);
	const struct executor_ops *ops = stream->executor->ops;
	size_t n = input->k * input->k;
	float *to = inputs->turn->sums[group].hessian;
	bool one = inputs->job->plan->n_domains == 1;
	double trace = 0;

	ops->fetch(stream, one ? to : domain, inputs->sums[group], n * sizeof *to);
	ops->zero(stream, inputs->sums[group], n * sizeof *to);
	if (ops->wait(stream, err) || check_diagonal(input, one ? to : domain, err))
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
	int rc = 0;

	for (size_t g = 0; g < inputs->n; g++) {
		uint64_t k = group_at(inputs, g)->input.k;

		largest = k > largest ? k : largest;
	}
	if (buffer_alloc(&domain, largest * largest * sizeof(float) + 1, "a Hessian", err))
		return -1;
	for (size_t g = 0; g < inputs->n && !rc; g++)
		rc = add_domain(inputs, g, domain, err);
	free(domain);
	return rc;
}

/* Runs n sequences, some at a time. */
static int run_chunks(struct inputs *inputs, const size_t *sequences, size_t n, struct err *err)
{
	for (size_t first = 0; first < n; first += inputs->n_chunk) {
		inputs->chunk = sequences + first;
		inputs->n_chunk = n - first < inputs->max_chunk ? n - first : inputs->max_chunk;
		if (add_chunk(inputs, err))
			return -1;
	}
	return 0;
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

/* Takes the sequences without a Hessian to the next layer; at the head they have no further
 * stage. */
static int run_held_out(struct inputs *inputs, size_t *sequences, struct err *err)
{
	const struct compensate_plan *plan = inputs->job->plan;

	if (!inputs->turn->last || !runner_layer(&inputs->job->runner))
		return 0;
	inputs->chunk = sequences;
	inputs->n_chunk = list(plan, 0, plan->data.n, true, sequences);
	return pool_run(plan->params.n_threads, inputs->n_chunk, run_item, inputs,
			plan->params.stop, err);
}

int turn_sum(struct compensation *job, const struct turn *turn, struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	size_t *sequences = xcalloc(plan->data.n, sizeof *sequences), first = 0;
	struct inputs inputs;
	int rc = inputs_open(&inputs, job, turn, err);

	for (size_t g = 0; g < inputs.n && !rc; g++) {
		size_t k = group_at(&inputs, g)->input.k;

		inputs.job->runner.forward.executor->ops->zero(
			runner_stream(&job->runner), inputs.sums[g], k * k * sizeof(float));
		rc = buffer_alloc((void **)&turn->sums[g].hessian, k * k * sizeof(float),
				  "the Hessian of an input", err);
		if (!rc)
			memset(turn->sums[g].hessian, 0, k * k * sizeof(float));
	}
	for (size_t d = 0; d < plan->n_domains && !rc; first = plan->domain_ends[d++]) {
		size_t n = list(plan, first, plan->domain_ends[d], false, sequences);

		rc = run_chunks(&inputs, sequences, n, err);
		rc = rc ? rc : add_domains(&inputs, err);
	}
	rc = rc ? rc : run_held_out(&inputs, sequences, err);
	job->runner.forward.observer = NULL;
	inputs_release(&inputs);
	free(sequences);
	return rc;
}
