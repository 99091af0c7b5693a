/* SPDX-License-Identifier: Apache-2.0
 *
 * What is decided before the first product: the model, the data and its domains, the units, the
 * memory.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "compensate/compensate.h"
#include "compensate/memory.h"
#include "compensate/ranks.h"
#include "sweep/weights.h"
#include "tokenizer/tokenizer.h"

/* The units that have a spec, by tensor of the source. */
struct unit_list {
	const struct unit **units;
	size_t n;
};

COMPARISON(compare_units, struct unit *const,
	   compare_tensor_places((*x)->source, (*y)->source) ?: ORDER(*x, *y))

static void list_units(struct unit_list *list, const struct compensate_units *units)
{
	const struct selection *selection = units->selection;

	list->units = xcalloc(selection->n_units + 1, sizeof *list->units);
	for (size_t u = 0; u < selection->n_units; u++)
		if (units->specs[u])
			list->units[list->n++] = &selection->units[u];
	sort(list->units, list->n, sizeof *list->units, compare_units);
}

/* Finds the rows that a unit and a matrix of one tensor share: all rows of the one that lies within
 * the other.  Returns false where neither does. */
static bool share_rows(const struct unit *unit, const struct linear_ref *linear,
		       struct compensate_job *job)
{
	const struct slice *a = &unit->slice, *b = &linear->slice;

	if (unit->cols != linear->k || a->col_stride != b->col_stride || !a->row_stride ||
	    !b->row_stride)
		return false;
	job->linear_step = 1;
	if (unit->rows > linear->n) { /* a stack of experts, of which this is one */
		job->first_row = (b->first - a->first) / a->row_stride;
		job->n_rows = linear->n;
		return b->first >= a->first && a->row_stride == b->row_stride &&
		       a->first + job->first_row * a->row_stride == b->first &&
		       job->first_row + job->n_rows <= unit->rows;
	}
	job->n_rows = unit->rows;
	job->linear_step = a->row_stride / b->row_stride;
	job->linear_row = (a->first - b->first) / b->row_stride;
	return a->first >= b->first && b->first + job->linear_row * b->row_stride == a->first &&
	       job->linear_step && job->linear_step * b->row_stride == a->row_stride &&
	       job->linear_row + (job->n_rows - 1) * job->linear_step < linear->n;
}

/* Adds the jobs of a matrix to its group. */
static void add_jobs(struct compensate_group *group, const struct unit_list *list,
		     const struct selection *selection, const struct linear_ref *linear)
{
	size_t i;

	SEARCH(i, list->n, compare_tensor_places(list->units[i]->source, linear->weight) < 0);
	for (; i < list->n && !compare_tensor_places(list->units[i]->source, linear->weight); i++) {
		struct compensate_job job = { .unit = (size_t)(list->units[i] - selection->units),
					      .linear = linear };

		if (!share_rows(list->units[i], linear, &job))
			continue;
		ARRAY_GROW(group->jobs, group->n_jobs);
		group->jobs[group->n_jobs++] = job;
	}
}

static void make_stage(struct compensate_plan *plan, const struct unit_list *list, size_t i)
{
	const struct model *model = &plan->model;
	struct compensate_stage *stage = &plan->stages[i];
	struct input_group head = input_group_of_head(&model->head), *inputs = &head;
	size_t n = 1;

	if (i < model->n_layers)
		input_groups_make(&model->layers[i], &inputs, &n);
	stage->groups = xcalloc(n, sizeof *stage->groups);
	for (size_t g = 0; g < n; g++) {
		struct compensate_group group = { .input = inputs[g] };

		for (size_t l = 0; l < group.input.n; l++)
			add_jobs(&group, list, plan->units.selection, group.input.linears[l]);
		if (group.n_jobs)
			stage->groups[stage->n_groups++] = group;
	}
	if (inputs != &head)
		free(inputs);
}

/* Counts by unit the rows that jobs have; more than the unit has: two matrices share it. */
static uint64_t *count_rows(const struct compensate_plan *plan)
{
	uint64_t *n_rows = xcalloc(plan->units.selection->n_units, sizeof *n_rows);

	for (size_t i = 0; i <= plan->model.n_layers; i++)
		for (size_t g = 0; g < plan->stages[i].n_groups; g++)
			for (size_t j = 0; j < plan->stages[i].groups[g].n_jobs; j++) {
				const struct compensate_job *job =
					&plan->stages[i].groups[g].jobs[j];

				n_rows[job->unit] += job->n_rows;
			}
	return n_rows;
}

/* Scales of whole tensors are of all units of a group: marks the groups of which a unit is not
 * covered by jobs. */
static bool *broken_groups(const struct compensate_plan *plan, const uint64_t *n_rows)
{
	const struct selection *selection = plan->units.selection;
	bool *broken = xcalloc(selection->n_scale_groups + 1, sizeof *broken);

	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe && n_rows[u] != selection->units[u].rows)
			broken[selection->units[u].scale_group] = true;
	return broken;
}

/* Drops jobs of units that are not covered, and gives the others places in the store. */
static void place_stage(struct compensate_plan *plan, size_t i, const bool *keep)
{
	struct compensate_stage *stage = &plan->stages[i];
	size_t n_groups = 0;

	for (size_t g = 0; g < stage->n_groups; g++) {
		struct compensate_group *group = &stage->groups[g];
		size_t n_jobs = 0;

		for (size_t j = 0; j < group->n_jobs; j++) {
			size_t u = group->jobs[j].unit;
			struct store_place *place = &plan->places[u];

			if (!keep[u])
				continue;
			if (place->stage == STORE_NONE) {
				const struct unit *unit = &plan->units.selection->units[u];

				*place = (struct store_place){ (uint32_t)i, plan->n_codes[i] };
				plan->n_codes[i] += unit->rows * unit->cols;
				plan->n_units++;
			}
			group->jobs[n_jobs++] = group->jobs[j];
		}
		group->n_jobs = n_jobs;
		if (!n_jobs)
			free(group->jobs);
		else
			stage->groups[n_groups++] = *group;
	}
	stage->n_groups = n_groups;
}

/* Fills plan->stages, n_codes, places, n_units and n_outside. */
static void compensate_find_jobs(struct compensate_plan *plan)
{
	const struct selection *selection = plan->units.selection;
	size_t n_stages = plan->model.n_layers + 1;
	bool *keep = xcalloc(selection->n_units + 1, sizeof *keep), *broken;
	struct unit_list list = { 0 };
	uint64_t *n_rows;

	plan->stages = xcalloc(n_stages, sizeof *plan->stages);
	plan->n_codes = xcalloc(n_stages, sizeof *plan->n_codes);
	plan->places = xmalloc((selection->n_units + 1) * sizeof *plan->places);
	list_units(&list, &plan->units);
	for (size_t i = 0; i < n_stages; i++)
		make_stage(plan, &list, i);
	n_rows = count_rows(plan);
	broken = broken_groups(plan, n_rows);
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];

		plan->places[u].stage = STORE_NONE;
		if (!plan->units.specs[u])
			continue;
		keep[u] = n_rows[u] == unit->rows &&
			  (plan->units.specs[u]->tile.rows != WHOLE || !broken[unit->scale_group]);
		plan->n_outside += !keep[u];
	}
	for (size_t i = 0; i < n_stages; i++)
		place_stage(plan, i, keep);
	free(list.units);
	free(n_rows);
	free(broken);
	free(keep);
}

#define DEFAULT_SEQ_LEN 512
#define DEFAULT_PASSES	64
#define ADVICE		": use '--rounding nearest'"
#define HELD_OUT	10 /* one of so many sequences is in no Hessian */

/* Opens the sequences of domain d: its share of the passes. */
static int open_domain(struct compensate_plan *plan, const struct tokenizer *tokenizer, size_t d,
		       struct err *err)
{
	const struct compensate_params *params = &plan->params;
	size_t passes = params->passes ? (size_t)params->passes : DEFAULT_PASSES;
	size_t n = passes / params->n_data + (d < passes % params->n_data);
	const struct dataset_params request = {
		.io = params->io,
		.paths = &params->data[d],
		.n_paths = 1,
		.tokenizer = tokenizer,
		.seq_len = params->seq_len ? (size_t)params->seq_len : DEFAULT_SEQ_LEN,
		.vocab_size = plan->model.head.n,
		.max_sequences = n,
		.stop = params->stop,
	};
	struct dataset data;

	if (!n)
		return err_set(err, ERR_USAGE,
			       "option '--passes': %zu sequence%s not suffice for %zu files of "
			       "data",
			       passes, passes == 1 ? " does" : "s do", params->n_data);
	if (dataset_open(&data, &request, err))
		return -1;
	if (data.n > n) /* sequences of token ids are read file by file */
		data.n = n;
	if (dataset_append(&plan->data, &data, err))
		return -1;
	plan->domain_ends[plan->n_domains++] = plan->data.n;
	return 0;
}

/* Holds out a tenth of each domain, spread over it, at least one sequence. */
static void hold_out(struct compensate_plan *plan)
{
	size_t first = 0;

	plan->held_out = xcalloc(plan->data.n, sizeof *plan->held_out);
	plan->held = xcalloc(plan->data.n, sizeof *plan->held);
	for (size_t d = 0; d < plan->n_domains && plan->n_rhos > 1;
	     first = plan->domain_ends[d++]) {
		size_t n = plan->domain_ends[d] - first, step = n < HELD_OUT ? n : HELD_OUT;

		for (size_t i = first + step - 1; i < plan->domain_ends[d]; i += step) {
			plan->held_out[i] = true;
			plan->held[plan->n_held_out++] = i;
		}
	}
}

/* A Hessian needs a sequence that is not held out. */
static int check_data(const struct compensate_plan *plan, struct err *err)
{
	if (plan->data.n - plan->n_held_out >= plan->n_domains)
		return 0;
	return err_set(err, ERR_INPUT,
		       "option '--shrink auto' needs 2 sequences of each file, and has %zu in all: "
		       "give more text, more --passes, a shorter --seq-len, or '--shrink 0.8'",
		       plan->data.n);
}

static int open_data(struct compensate_plan *plan, struct err *err)
{
	const struct compensate_params *params = &plan->params;
	struct tokenizer *tokenizer = NULL;
	int rc = dataset_tokenizer(&tokenizer, params->io, params->checkpoint->directory, err);

	plan->domain_ends = xcalloc(params->n_data, sizeof *plan->domain_ends);
	for (size_t d = 0; d < params->n_data && !rc; d++)
		rc = open_domain(plan, tokenizer, d, err);
	tokenizer_free(tokenizer);
	if (rc)
		return -1;
	hold_out(plan);
	dataset_sha256(&plan->data, plan->data_sha256);
	for (size_t i = 0; i < plan->data.n; i++) {
		size_t len = plan->data.sequences[i].len;

		plan->n_tokens += len;
		plan->longest = len > plan->longest ? len : plan->longest;
	}
	return check_data(plan, err) || ranks_divide(plan, err) ? -1 : 0;
}

static void choose_rhos(struct compensate_plan *plan)
{
	static const float tried[STORE_RHOS] = { 0.3f, 0.6f, 0.8f };

	plan->n_rhos = plan->params.shrink < 0 ? STORE_RHOS : 1;
	for (size_t i = 0; i < plan->n_rhos; i++)
		plan->rhos[i] = plan->params.shrink < 0 ? tried[i] : plan->params.shrink;
}

int compensate_plan_make(struct compensate_plan *plan, const struct compensate_params *params,
			 const struct compensate_units *units, struct err *err)
{
	*plan = (struct compensate_plan){ .params = *params, .units = *units };
	choose_rhos(plan);
	if (weights_open_model(&plan->model, &plan->view, plan->params.checkpoint, ADVICE, err) ||
	    open_data(plan, err))
		return -1;
	compensate_find_jobs(plan);
	if (!plan->n_units)
		return err_set(err, ERR_USAGE,
			       "option '--rounding compensated' has no effect: the forward pass "
			       "multiplies no weight that is quantized");
	for (size_t i = 0; i <= plan->model.n_layers; i++)
		plan->n_stages += plan->n_codes[i] > 0;
	for (size_t i = 0; i <= plan->model.n_layers; i++)
		plan->store_bytes += plan->n_codes[i] * plan->n_rhos;
	return compensate_plan_memory(plan, err);
}

void compensate_plan_release(struct compensate_plan *plan)
{
	for (size_t i = 0; plan->stages && i <= plan->model.n_layers; i++) {
		for (size_t g = 0; g < plan->stages[i].n_groups; g++)
			free(plan->stages[i].groups[g].jobs);
		free(plan->stages[i].groups);
	}
	free(plan->stages);
	free(plan->n_codes);
	free(plan->places);
	free(plan->domain_ends);
	free(plan->held_out);
	free(plan->held);
	free(plan->own.sequences);
	free(plan->own_numbers);
	dataset_release(&plan->data);
	model_release(&plan->model);
	low_bit_view_release(&plan->view);
	*plan = (struct compensate_plan){ 0 };
}
