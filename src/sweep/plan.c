/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/plan.h"

#include <assert.h>
#include <inttypes.h>

#include "forward/workspace.h"
#include "sweep/embed.h"
#include "sweep/fp8_forward.h"
#include "sweep/weights.h"

#define DEFAULT_MEMORY ((uint64_t)1 << 30)
/* a second layer may take this part of the memory for sequences */
#define AHEAD_SHARE 4

static double multiplications_of(const struct linear_ref *linears, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += (double)linears[i].n * (double)linears[i].k;
	return sum;
}

/* Returns the multiplications of a token with the weights of a stage. */
static double multiplications(const struct model *model, size_t stage)
{
	const struct layer_ref *layer = &model->layers[stage];
	double sum;

	if (stage == model->n_layers)
		return multiplications_of(&model->head, 1);
	sum = multiplications_of(layer->linear, N_LINEARS);
	if (layer->n_experts)
		sum += (double)model->routing.top_k *
		       multiplications_of(layer->experts[0], N_EXPERT_ROLES);
	return sum;
}

/* Returns those of a token, on average, with the keys and values of its sequence. */
static double attention_multiplications(const struct sweep_plan *plan, size_t stage)
{
	const struct model *model = plan->params.models[0].model;
	const struct layer_ref *layer = &model->layers[stage];
	size_t n = plan->longest;

	if (stage == model->n_layers || !layer_has_attention(layer))
		return 0;
	n = layer->window && layer->window < n ? 2 * layer->window : n;
	return (double)(n * layer->n_heads * (layer->head_dim + layer->value_dim)) / 2;
}

uint64_t sweep_plan_work(const struct sweep_plan *plan, size_t stage)
{
	const struct model *model = plan->params.models[0].model;
	double all = multiplications(model, stage) + attention_multiplications(plan, stage);

	return (uint64_t)(all / (double)model->hidden);
}

uint64_t sweep_plan_token_work(const struct sweep_plan *plan)
{
	uint64_t sum = 0;

	for (size_t i = 0; i <= plan->params.models[0].model->n_layers; i++)
		sum += sweep_plan_work(plan, i);
	return sum;
}

/* Returns the devices of all ranks, which share the sequences. */
static size_t n_places(const struct sweep_plan *plan)
{
	return group_size(plan->params.group) * plan->params.n_devices;
}

/* Multiplications of a thread in a minute on a slow machine: 15 billion a second. */
#define SLOW_MINUTE 9e11

/* Returns the passes of the first sweep: enough to give every thread a sequence and to be worth
 * loading the weights, or as many as a slow machine does in a minute. */
static size_t first_passes(const struct sweep_plan *plan)
{
	const struct sweep_params *params = &plan->params;
	size_t pass = plan->longest * params->batch;
	size_t threads = (size_t)params->n_threads * group_size(params->group);
	size_t shared = (threads + params->batch - 1) / params->batch;
	size_t worth = params->executor->load.tokens * n_places(plan) / pass;
	size_t quick, min = shared > worth ? shared : worth;
	double work = 0, minute;

	for (size_t m = 0; m < params->n_models; m++)
		for (size_t i = 0; i <= params->models[m].model->n_layers; i++)
			work += multiplications(params->models[m].model, i);
	minute = SLOW_MINUTE * (double)threads / (work * (double)pass);
	quick = minute < (double)plan->n_passes ? (size_t)minute : plan->n_passes;
	return quick > min ? quick : min;
}

/* Threads that share a pass never wait long for each other. */
static size_t step_passes(const struct sweep_plan *plan)
{
	size_t threads = (size_t)plan->params.n_threads * group_size(plan->params.group);
	size_t batch = plan->params.batch;

	return threads % batch ? 1 : threads / batch;
}

/* The needs of memory of a device, in bytes. */
struct needs {
	uint64_t threads;  /* workspaces of its threads */
	uint64_t sequence; /* residual stream and value stats of one */
	uint64_t weights;  /* of the largest layer */
	uint64_t second;   /* of the largest layer and the next one */
	uint64_t all;	   /* of all layers and the head */
};

/* Adds the needs of a model. */
static void needs_add(struct needs *needs, const struct sweep_plan *plan,
		      const struct sweep_model *from)
{
	const struct sweep_params *params = &plan->params;
	const struct model *model = from->model;
	bool is_f32 = params->is_f32 || (from->fp8 && !fp8_select_is_bf16(from->fp8));
	const struct weights_kind kind = { .executor = params->executor,
					   .dtype = is_f32 ? DT_F32
							   : params->executor->bf16_type() };
	const struct workspace_shape shape = { plan->longest, plan->max_group };
	bool casts = from->fp8 || from->casts;
	uint64_t layer = weights_layer_size(model, &kind, params->n_threads, false);

	needs->threads += (workspace_size(params->executor, model, shape, casts) +
			   embed_size(model, plan->longest)) *
			  sweep_plan_lanes(plan);
	needs->sequence += (uint64_t)plan->longest * forward_stream_width(model, plan->longest) *
				   sizeof(float) +
			   2 * forward_slots(model) * sizeof(struct value_stats);
	needs->weights += layer;
	needs->all += weights_model_size(model, &kind);
	needs->second += weights_layer_size(model, &kind, params->n_threads, true) - layer;
}

/* Memory of a device that is left alone: a share, and what the products of a stream need. */
#define DEVICE_SHARE	 16
#define DEVICE_OF_STREAM ((uint64_t)48 << 20)

/* Returns the memory of each device for weights and sequences, 0 if it has none of its own or if
 * the caller gives a limit. */
static uint64_t device_memory_of(const struct sweep_plan *plan)
{
	const struct sweep_params *params = &plan->params;
	uint64_t left = UINT64_MAX, kept = sweep_plan_lanes(plan) * DEVICE_OF_STREAM;

	if (params->max_memory || params->lean || !params->executor->memory_left)
		return 0;
	for (size_t i = 0; i < params->n_devices; i++) {
		uint64_t here = params->executor->memory_left((int)i);

		left = here < left ? here : left;
	}
	left -= left / DEVICE_SHARE;
	return left > kept ? left - kept : 0;
}

/* Returns the least memory by default: enough for a pass and for a sequence of each thread. */
static uint64_t min_memory(const struct sweep_plan *plan, const struct needs *needs)
{
	size_t threads = sweep_plan_lanes(plan), places = n_places(plan);
	size_t own = (plan->params.batch + places - 1) / places;

	return needs->threads + (own > threads ? own : threads) * needs->sequence;
}

/* Do all layers fit beside those sequences? */
static bool all_fit(const struct sweep_plan *plan, const struct needs *needs)
{
	return plan->device_memory >= needs->all &&
	       plan->device_memory - needs->all >= min_memory(plan, needs);
}

/* Returns the given memory, or what a device has besides weights, or the default. */
static uint64_t memory_of(const struct sweep_plan *plan, const struct needs *needs)
{
	uint64_t device = plan->device_memory, min = min_memory(plan, needs);
	uint64_t weights = all_fit(plan, needs) ? needs->all : needs->weights;
	uint64_t memory = DEFAULT_MEMORY;

	if (plan->params.max_memory)
		return plan->params.max_memory;
	if (device)
		memory = device > weights ? device - weights : 0;
	return min > memory ? min : memory;
}

static struct needs needs_of(const struct sweep_plan *plan)
{
	struct needs needs = { 0 };

	needs_add(&needs, plan, &plan->params.models[0]);
	for (size_t m = 1; m < plan->params.n_models; m++)
		needs_add(&needs, plan, &plan->params.models[m]);
	return needs;
}

/* Tokens that are worth reading the weights of an expert for, where each goes to one of ten. */
#define GROUP_TOKENS 4096
/* groups may take this part of the memory for sequences */
#define GROUP_SHARE 4

static bool has_experts(const struct model *model)
{
	size_t i = 0;

	while (i < model->n_layers && !model->layers[i].n_experts)
		i++;
	return i < model->n_layers;
}

/* Sets the largest group of sequences that is worth its memory. */
static void choose_group(struct sweep_plan *plan)
{
	const struct sweep_params *params = &plan->params;
	struct needs one, group;
	uint64_t memory, room;
	size_t n = has_experts(params->models[0].model) && !params->lean
			   ? GROUP_TOKENS / plan->longest
			   : 1;

	plan->max_group = 1;
	one = needs_of(plan);
	memory = memory_of(plan, &one);
	room = memory > one.threads ? memory - one.threads : 0;
	for (n = n < MAX_GROUP ? n : MAX_GROUP; n > 1; n--) {
		plan->max_group = n;
		group = needs_of(plan);
		if (group.threads - one.threads <= room / GROUP_SHARE)
			return;
	}
	plan->max_group = 1;
}

static bool is_step_a_pass(const struct sweep_plan *plan)
{
	const struct fp8_selection *fp8 = plan->params.models[0].fp8;

	return fp8 && fp8->recipe.needs_history;
}

struct span sweep_plan_step(const struct sweep_plan *plan, size_t first, size_t n)
{
	size_t left = n - first, max = is_step_a_pass(plan) ? plan->params.batch : left;

	return (struct span){ first, left < max ? left : max };
}

/* The larger parts go to other devices in each pass. */
struct span sweep_plan_part(const struct sweep_plan *plan, struct span step, size_t device)
{
	const struct group *group = plan->params.group;
	size_t rank = group ? (size_t)group->rank : 0, places = n_places(plan), place, begin, end;

	if (places == 1)
		return step;
	place = rank * plan->params.n_devices + device + step.first / plan->params.batch;
	begin = step.n * (place % places) / places;
	end = step.n * (place % places + 1) / places;
	return (struct span){ step.first + begin, end - begin };
}

/* Returns the most sequences of a device in a sweep of n_passes.  Steps of several passes are
 * divided evenly; the last pass may have fewer sequences, of which a device may have one more. */
static uint64_t own_sequences(const struct sweep_plan *plan, uint64_t n_passes)
{
	uint64_t places = n_places(plan), n = n_passes * plan->params.batch, most = 0;

	if (places == 1)
		return n;
	if (!is_step_a_pass(plan))
		return (n + places - 1) / places;
	for (size_t device = 0; device < plan->params.n_devices; device++) {
		uint64_t own = 1;

		for (size_t first = 0; first < n; first += plan->params.batch) {
			const struct span step = { first, plan->params.batch };

			own += sweep_plan_part(plan, step, device).n;
		}
		most = own > most ? own : most;
	}
	return most < n ? most : n;
}

/* Returns the passes whose sequences fit on each device, at most all. */
static uint64_t passes_that_fit(const struct sweep_plan *plan, uint64_t room, uint64_t sequence)
{
	uint64_t own = room / sequence, batch = plan->params.batch;
	uint64_t n = own / batch > plan->n_passes ? plan->n_passes : own * n_places(plan) / batch;

	n = n < plan->n_passes ? n : plan->n_passes;
	while (n && own_sequences(plan, n) > own)
		n--;
	return n;
}

static int fit_passes(struct sweep_plan *plan, struct err *err)
{
	const struct sweep_params *params = &plan->params;
	const struct fp8_selection *fp8 = params->models[0].fp8;
	const struct needs needs = needs_of(plan);
	uint64_t memory, room, n;

	memory = memory_of(plan, &needs);
	room = memory > needs.threads ? memory - needs.threads : 0;
	assert(needs.sequence); /* value stats alone have some bytes */
	plan->resident = all_fit(plan, &needs);
	plan->ahead =
		plan->resident || (!params->lean && needs.second <= room / AHEAD_SHARE &&
				   passes_that_fit(plan, room - needs.second, needs.sequence));
	if (plan->ahead && !plan->resident)
		room -= needs.second;
	n = passes_that_fit(plan, room, needs.sequence);
	if (n == 0)
		return err_set(err, ERR_USAGE,
			       "option '--max-memory': %" PRIu64
			       " bytes cannot hold one pass (%" PRIu64
			       "): reduce --threads or --seq-len",
			       memory, needs.threads + own_sequences(plan, 1) * needs.sequence);
	plan->max_sequences = (size_t)n * params->batch;
	plan->own_sequences = (size_t)own_sequences(plan, n);
	plan->memory_bytes = needs.threads + plan->own_sequences * needs.sequence;
	plan->memory_bytes += plan->resident ? needs.all : needs.weights;
	if (plan->ahead && !plan->resident)
		plan->memory_bytes += needs.second;
	plan->memory_bytes *= params->n_devices;
	if (fp8)
		plan->memory_bytes += fp8_forward_size(fp8);
	return 0;
}

void sweep_plan_limit(struct sweep_plan *plan, size_t max_sequences)
{
	plan->max_sequences = max_sequences;
	plan->own_sequences = (size_t)own_sequences(plan, max_sequences / plan->params.batch);
}

bool sweep_plan_reduce(struct sweep_plan *plan)
{
	size_t batch = plan->params.batch, passes = plan->max_sequences / batch;

	if (plan->resident)
		plan->resident = false;
	else if (plan->max_group > 1)
		plan->max_group = 1;
	else if (passes > 1)
		sweep_plan_limit(plan, (passes + 1) / 2 * batch);
	else if (sweep_plan_lanes(plan) > 1)
		plan->params.n_threads = (int)(sweep_plan_lanes(plan) / 2 * plan->params.n_devices);
	else
		return false;
	return true;
}

int sweep_plan_make(struct sweep_plan *plan, const struct sweep_params *params, struct err *err)
{
	const struct dataset *data = params->data;

	*plan = (struct sweep_plan){ .params = *params };
	if (!params->n_devices)
		plan->params.n_devices = 1;
	assert((size_t)params->n_threads >= plan->params.n_devices);
	if (params->batch > data->n)
		plan->params.batch = data->n;
	plan->n_passes = (data->n + plan->params.batch - 1) / plan->params.batch;
	for (size_t i = 0; i < data->n; i++) {
		size_t len = data->sequences[i].len;

		plan->n_tokens += len;
		plan->longest = len > plan->longest ? len : plan->longest;
	}
	plan->first_passes = first_passes(plan);
	plan->step_passes = step_passes(plan);
	plan->device_memory = device_memory_of(plan);
	choose_group(plan);
	return fit_passes(plan, err);
}
