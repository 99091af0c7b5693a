/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices in FP8: read a panel at a time, quantized as `quantize` does, and put in the place of
 * the unquantized ones as the values of their codes.
 */
#include <math.h>
#include <stdlib.h>

#include "backend/host_ops.h"
#include "base/pool.h"
#include "sensitivity/steps.h"
#include "sweep/weight_matrix.h"

/* Rows of a matrix. */
struct panel {
	const struct sensitivity_member *member;
	struct linear *linear;
	size_t number, first, n;
};

struct panels {
	struct round *round;
	const struct plan *plan; /* of the group's recipe */
	struct panel *list;
	size_t n;
	float *found;  /* by panel: its amax, where it is needed */
	float *amaxes; /* by scale group: of whole matrices */
};

uint64_t replace_size(const struct sensitivity_plan *plan, int n_threads)
{
	const struct executor_ops *executor = plan->sweep.params.executor;
	uint64_t most = 0;

	for (size_t g = 0; g < plan->table.n_groups; g++) {
		for (size_t m = 0; m < plan->members[g].n; m++) {
			const struct linear_ref *ref = plan->members[g].list[m].ref;
			uint64_t n = (uint64_t)executor->panel_rows(ref->n) * ref->k;

			most = n > most ? n : most;
		}
	}
	/* the values, their codes, scales and values again, and the rows that are set */
	return most * (3 * sizeof(float) + 2) * (uint64_t)n_threads;
}

/* Does a scale belong to a whole matrix, or several, whose amax has to be found first? */
static bool is_whole(const struct qspec *spec)
{
	return spec->tile.rows == WHOLE && spec->tile.cols == WHOLE;
}

static struct weight_reader reader_of(struct round *round)
{
	struct weights *weights = &round->sweep.runners[0].weights;

	return (struct weight_reader){ .source = &weights->source,
				       .detection = &weights->detection,
				       .host = host_ops_select() };
}

static int find_amax(void *context, int worker, size_t item, struct err *err)
{
	const struct panels *panels = context;
	const struct panel *panel = &panels->list[item];
	const struct weight_reader reader = reader_of(panels->round);
	struct weight_matrix matrix = {
		.ref = panel->member->ref, .first = panel->first, .n = panel->n, .dtype = DT_F32
	};

	(void)worker;
	if (!is_whole(panels->plan->units[panel->member->unit].spec))
		return 0;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	panels->found[item] = matrix.amax;
	return 0;
}

/* Finds the amax of each scale group: of all its matrices, or that of a calibration. */
static int find_amaxes(struct panels *panels, struct err *err)
{
	const struct sensitivity_params *params = panels->round->params;
	const struct plan *plan = panels->plan;

	if (pool_run(params->n_threads, panels->n, find_amax, panels, params->stop, err))
		return -1;
	for (size_t i = 0; i < panels->n; i++) {
		size_t g = plan->selection.units[panels->list[i].member->unit].scale_group;

		panels->amaxes[g] = fmaxf(panels->amaxes[g], panels->found[i]);
	}
	for (size_t g = 0; g < plan->selection.n_scale_groups; g++)
		if (!isnan(plan->groups[g].amax))
			panels->amaxes[g] = plan->groups[g].amax;
	return 0;
}

static int set_panel(void *context, int worker, size_t item, struct err *err)
{
	const struct panels *panels = context;
	struct round *round = panels->round;
	const struct panel *panel = &panels->list[item];
	const struct linear_ref *ref = panel->member->ref;
	const struct plan_unit *unit = &panels->plan->units[panel->member->unit];
	const struct weight_reader reader = reader_of(round);
	struct buffer *values = &round->values[worker];
	struct weight_matrix matrix = {
		.ref = ref, .first = panel->first, .n = panel->n, .dtype = DT_F32
	};
	struct matrix x = { .dtype = DT_F32, .rows = panel->n, .cols = ref->k, .stride = ref->k };
	size_t group = panels->plan->selection.units[panel->member->unit].scale_group;
	const struct cast_request request = { .x = &x,
					      .spec = unit->spec,
					      .amax = is_whole(unit->spec) ? &panels->amaxes[group]
									   : NULL,
					      .name = ref->weight->tensor->name };
	const float *codes;

	if (buffer_ensure(values, (uint64_t)panel->n * ref->k * sizeof(float),
			  "the values of a weight", err))
		return -1;
	x.data = matrix.values = values->data;
	codes = values->data;
	if (weight_matrix_read(&reader, &matrix, err) ||
	    (!unit->same_codes && cast_lane_run(&round->plan->casts.lanes[worker],
						round->params->backend, &request, &codes, err)))
		return -1;
	return variants_panel_set(&round->variants, panel->linear, panel->number, codes, err);
}

/* Allocates the weights of the group's matrices, and lists their panels. */
static int panels_make(struct panels *panels, const struct sensitivity_members *members,
		       struct variant_stage *stage, struct err *err)
{
	struct round *round = panels->round;

	for (size_t m = 0; m < members->n; m++) {
		const struct sensitivity_member *member = &members->list[m];
		struct panel panel = { .member = member };

		if (variant_stage_take(stage, &round->variants, member->ref,
				       &round->plan->casts.list[member->cast], &panel.linear, err))
			return -1;
		for (; panel.number < executor_weight_panels(&panel.linear->weight);
		     panel.number++) {
			panel.n = executor_weight_panel_rows(&panel.linear->weight, panel.number);
			ARRAY_GROW(panels->list, panels->n);
			panels->list[panels->n++] = panel;
			panel.first += panel.n;
		}
	}
	panels->found = xcalloc(panels->n, sizeof *panels->found);
	panels->amaxes = xcalloc(panels->plan->selection.n_scale_groups, sizeof *panels->amaxes);
	return 0;
}

int replace_group(struct round *round, size_t group, struct variant_stage *stage, struct err *err)
{
	const struct sensitivity_plan *plan = round->plan;
	struct panels panels = { .round = round,
				 .plan = &plan->plans[plan->table.groups[group].recipe] };
	int rc = panels_make(&panels, &plan->members[group], stage, err);

	rc = rc ? rc : find_amaxes(&panels, err);
	rc = rc ? rc
		: pool_run(round->params->n_threads, panels.n, set_panel, &panels,
			   round->params->stop, err);
	free(panels.list);
	free(panels.found);
	free(panels.amaxes);
	return rc;
}
