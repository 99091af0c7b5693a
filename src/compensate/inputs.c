/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compensate/memory.h"
#include "compensate/ranks.h"

/* Sequences of a chunk for each thread, at most: enough that threads seldom wait for each other. */
#define CHUNK_MAX 8

/* Returns the number of a matrix of a layer, or 0 for the head. */
static size_t number_of(const struct layer_ref *layer, const struct linear_ref *linear)
{
	return layer ? layer_linear_number(layer, linear) : 0;
}

/* The first matrix of a group that is rounded shows the group's input: every row of it, once. */
static void find_groups(struct inputs *inputs, const struct layer_ref *layer)
{
	size_t n = layer ? layer_n_linears(layer) : 1;

	inputs->groups = xmalloc(n * sizeof *inputs->groups);
	memset(inputs->groups, 0xFF, n * sizeof *inputs->groups);
	for (size_t g = 0; g < inputs->n; g++)
		inputs->groups[number_of(layer, inputs_group(inputs, g)->jobs[0].linear)] =
			(int32_t)g;
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
	const struct round_args round = { .x = x->values,
					  .n = x->n_rows * x->n_cols,
					  .rounded = { .codes = to } };

	if (inputs->dtype == DT_BF16)
		ops->round(x->stream, &round);
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
	kind = inputs_group(inputs, (size_t)group)->input.kind;
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
	struct executor *executor = inputs_executor(inputs);
	const struct executor_ops *ops = executor->ops;
	uint64_t stream =
		plan->longest * forward_stream_width(&plan->model, plan->longest) * sizeof(float);
	size_t n_threads = (size_t)plan->params.n_threads;
	size_t n_places = N_CHUNKS * inputs->max_chunk;

	inputs->sums = xcalloc(inputs->n + 1, sizeof *inputs->sums);
	inputs->streams = xcalloc(n_threads, sizeof *inputs->streams);
	inputs->kept = xcalloc(n_places * inputs->n + 1, sizeof *inputs->kept);
	inputs->used = xcalloc(n_places, sizeof *inputs->used);
	inputs->own = xcalloc(plan->own.n, sizeof *inputs->own);
	inputs->places = xmalloc(plan->own.n * sizeof *inputs->places);
	memset(inputs->places, 0xFF, plan->own.n * sizeof *inputs->places);
	for (size_t g = 0; g < inputs->n; g++) {
		uint64_t k = inputs_group(inputs, g)->input.k;

		if (ops->memory_new(executor, (void **)&inputs->sums[g], k * k * sizeof(float),
				    "the Hessian of an input", err))
			return -1;
	}
	for (size_t i = 0; i < n_threads && !inputs->turn->last; i++)
		if (ops->memory_new(executor, (void **)&inputs->streams[i], stream,
				    "a copy of a residual stream", err))
			return -1;
	return 0;
}

void kept_inputs_release(struct compensation *job)
{
	struct executor *executor = job->runner.forward.executor;

	if (!job->kept_inputs)
		return;
	executor->ops->memory_free(executor, job->kept_inputs);
	job->kept_inputs = NULL;
	job->kept_inputs_size = 0;
}

/* Takes the job's memory if it is large enough and fits the room of this turn, else new memory. */
static int take_memory(struct inputs *inputs, uint64_t room, struct err *err)
{
	struct compensation *job = inputs->job;
	struct executor *executor = inputs_executor(inputs);
	uint64_t size = N_CHUNKS * inputs->max_chunk * inputs->sequence_size;

	if (job->kept_inputs_size < size || job->kept_inputs_size > room) {
		kept_inputs_release(job);
		if (executor->ops->memory_new(executor, (void **)&job->kept_inputs, size,
					      "kept inputs", err))
			return -1;
		job->kept_inputs_size = size;
	}
	inputs->memory = job->kept_inputs;
	return 0;
}

int inputs_open(struct inputs *inputs, struct compensation *job, const struct turn *turn,
		struct err *err)
{
	const struct compensate_plan *plan = job->plan;
	const struct layer *layer = runner_layer(&job->runner);
	uint64_t room = plan->room;

	*inputs = (struct inputs){ .job = job,
				   .turn = turn,
				   .n = turn->end - turn->first,
				   .dtype = compensate_input_type(plan) };
	inputs->observer = (struct observer){ .context = inputs, .observe = observe };
	find_groups(inputs, layer ? layer->ref : NULL);
	place_regions(inputs);
	for (size_t g = 0; g < inputs->n; g++)
		room -= compensate_group_size(inputs_group(inputs, g));
	inputs->max_chunk =
		CHUNK_MAX * (size_t)plan->params.n_threads * group_size(plan->params.group);
	if (inputs->sequence_size && room / inputs->sequence_size < N_CHUNKS * inputs->max_chunk)
		inputs->max_chunk = (size_t)(room / inputs->sequence_size / N_CHUNKS);
	if (group_least(plan->params.group, &inputs->max_chunk, err) ||
	    take_memory(inputs, room, err))
		return -1;
	return allocate(inputs, err);
}

void inputs_release(struct inputs *inputs)
{
	struct executor *executor = inputs_executor(inputs);
	const struct executor_ops *ops = executor->ops;

	for (size_t g = 0; inputs->sums && g < inputs->n; g++)
		ops->memory_free(executor, inputs->sums[g]);
	for (int i = 0; inputs->streams && i < inputs->job->plan->params.n_threads; i++)
		ops->memory_free(executor, inputs->streams[i]);
	free(inputs->sums);
	free(inputs->streams);
	free(inputs->kept);
	free(inputs->used);
	free(inputs->own);
	free(inputs->places);
	free(inputs->groups);
}

static int check_values(const struct inputs *inputs, struct err *err)
{
	struct runner *runner = &inputs->job->runner;
	const struct sequence_chunk *chunk = &inputs->running;

	if (runner_stats_fetch(runner, inputs->job->plan->own.n, err))
		return -1;
	for (size_t i = 0; i < chunk->n * inputs->n; i++) {
		const struct kept *kept = &inputs->kept[chunk->first_place * inputs->n + i];
		size_t sequence = inputs->job->plan->own_numbers[chunk->sequences[i / inputs->n]];

		if (kept->n &&
		    runner->memory.fetched[sequence * runner->n_slots + kept->slot].n_nonfinite)
			return err_set(
				err, ERR_INPUT,
				"the inputs of '%s' are NaN or infinite: the model overflows "
				"on this data",
				inputs_group(inputs, i % inputs->n)->input.linears[0]->module);
	}
	return 0;
}

/* Returns the memory of the inputs of the running chunk, and in *size its bytes. */
static char *running_memory(const struct inputs *inputs, uint64_t *size)
{
	*size = inputs->running.n * inputs->sequence_size;
	return *size ? inputs->memory + inputs->running.first_place * inputs->sequence_size : NULL;
}

void inputs_skip(struct inputs *inputs, const size_t *sequences, size_t n)
{
	inputs->running = (struct sequence_chunk){ sequences, n, 0 };
	inputs->n_own = 0;
	for (size_t i = 0; i < n; i++) {
		size_t own = inputs->job->plan->own_numbers[sequences[i]];

		if (own != SIZE_MAX)
			inputs->own[inputs->n_own++] = own;
	}
}

void inputs_begin(struct inputs *inputs, const size_t *sequences, size_t n)
{
	size_t first = inputs->adding.first_place ? 0 : inputs->max_chunk;
	struct executor_stream *stream = runner_stream(&inputs->job->runner);
	uint64_t size;
	char *memory;

	inputs_skip(inputs, sequences, n);
	inputs->running.first_place = first;
	memset(inputs->kept + first * inputs->n, 0, n * inputs->n * sizeof *inputs->kept);
	memset(inputs->used + first, 0, n * sizeof *inputs->used);
	for (size_t i = 0; i < n; i++) {
		size_t own = inputs->job->plan->own_numbers[sequences[i]];

		if (own != SIZE_MAX)
			inputs->places[own] = first + i;
	}
	memory = running_memory(inputs, &size);
	if (group_size(inputs->job->plan->params.group) > 1) /* to be united */
		stream->executor->ops->zero(stream, memory, size);
}

/* Takes the inputs of the running chunk from the ranks that ran its sequences. */
static int unite(struct inputs *inputs, int rc, struct err *err)
{
	const struct sequence_chunk *chunk = &inputs->running;
	uint64_t size;
	char *memory = running_memory(inputs, &size);

	rc = ranks_unite(inputs->job, rc, inputs->kept + chunk->first_place * inputs->n,
			 chunk->n * inputs->n * sizeof *inputs->kept, err);
	return rc ? rc : ranks_unite_memory(inputs->job, memory, size, err);
}

int inputs_end(struct inputs *inputs, struct err *err)
{
	const struct sequence_chunk *chunk = &inputs->running;

	if (unite(inputs, check_values(inputs, err), err))
		return -1;
	for (size_t i = 0; i < inputs->n_own; i++)
		inputs->places[inputs->own[i]] = SIZE_MAX;
	for (size_t i = 0; i < chunk->n; i++) {
		const struct kept *kept = &inputs->kept[(chunk->first_place + i) * inputs->n];

		for (size_t g = 0; g < inputs->n; g++)
			inputs->turn->sums[g].n_tokens += kept[g].n;
	}
	return 0;
}

const void *inputs_rows(const struct inputs *inputs, const struct sequence_chunk *chunk, size_t i,
			size_t group, size_t *m)
{
	const struct input_group *input = &inputs_group(inputs, group)->input;
	size_t place = chunk->first_place + i;
	const struct kept *kept = &inputs->kept[place * inputs->n + group];

	*m = kept->n;
	return inputs->memory + place * inputs->sequence_size + inputs->offsets[input->kind] +
	       kept->first * input->k * dtype_bits(inputs->dtype) / 8;
}
