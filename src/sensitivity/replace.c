/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/replace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/host_ops.h"
#include "base/pool.h"
#include "sweep/weight_matrix.h"

/* Rows of a matrix. */
struct row_panel {
	const struct sensitivity_member *member;
	struct linear *linear;
	size_t number, first, n;
};

struct panels {
	struct round *round;
	const struct plan *plan; /* of the group's recipe */
	struct row_panel *list;
	size_t n;
	float *found;  /* by panel: its amax, where it is needed */
	float *amaxes; /* by scale group: of whole matrices */
};

#define LINES 128 /* rows of the tallest tile; weight_matrix_read() begins at multiples of it */

/* Rows of a part that lie in a panel.  Row p of the part is row offset + p * step of the matrix. */
struct overlap {
	struct linear_ref part; /* the part as a matrix */
	int64_t offset;
	size_t step;
	size_t begin, end; /* of the part */
};

/* Returns n / d, rounded up, and not below 0. */
static size_t divide_up(int64_t n, size_t d)
{
	return n > 0 ? ((size_t)n + d - 1) / d : 0;
}

static struct overlap overlap_of(const struct plan *plan, const struct row_panel *panel, size_t i)
{
	const struct linear_ref *ref = panel->member->ref;
	const struct sensitivity_part *part = &panel->member->parts[i];
	const struct unit *unit = &plan->selection.units[part->unit];
	uint64_t rows = unit_matrix_rows(unit), stride = unit->slice.row_stride;
	struct overlap overlap = { .part = *ref };
	int64_t first = (int64_t)panel->first;

	overlap.part.n = rows;
	overlap.part.slice = unit->slice;
	overlap.part.slice.first += part->matrix * rows * stride;
	overlap.step = stride / ref->slice.row_stride;
	overlap.offset = ((int64_t)overlap.part.slice.first - (int64_t)ref->slice.first) /
			 (int64_t)ref->slice.row_stride;
	overlap.begin = divide_up(first - overlap.offset, overlap.step);
	overlap.end = divide_up(first + (int64_t)panel->n - overlap.offset, overlap.step);
	overlap.end = overlap.end < rows ? overlap.end : rows;
	return overlap;
}

/* Is the matrix one part, and the part nothing else? */
static bool is_part(const struct plan *plan, const struct sensitivity_member *member)
{
	const struct unit *unit = &plan->selection.units[member->parts[0].unit];

	return member->n_parts == 1 && unit_matrix_rows(unit) == member->ref->n;
}

/* Returns the bytes that a panel of a matrix needs on the host: its values, their codes and scales,
 * and the rows that are set. */
static uint64_t panel_size(const struct executor_ops *executor, const struct linear_ref *ref,
			   bool whole)
{
	const uint64_t quantized = 2 * sizeof(float) + 2;
	uint64_t rows = linear_panel_rows(executor, ref);

	if (whole)
		return rows * ref->k * quantized;
	/* tiles of a part begin before the panel and end behind it, and rows are joined */
	return ((rows + 2 * (uint64_t)LINES) * quantized + rows * sizeof(float)) * ref->k;
}

uint64_t replace_size(const struct sensitivity_plan *plan, int n_threads)
{
	uint64_t most = 0;

	for (size_t g = 0; g < plan->table.n_groups; g++) {
		const struct plan *from = &plan->plans[plan->table.groups[g].recipe];

		for (size_t m = 0; m < plan->members[g].n; m++) {
			const struct sensitivity_member *member = &plan->members[g].list[m];
			uint64_t size = panel_size(plan->sweep.params.executor, member->ref,
						   is_part(from, member));

			most = size > most ? size : most;
		}
	}
	return most * (uint64_t)n_threads;
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
	const struct row_panel *panel = &panels->list[item];
	const struct weight_reader reader = reader_of(panels->round);
	struct weight_matrix matrix = {
		.ref = panel->member->ref, .first = panel->first, .n = panel->n, .dtype = DT_F32
	};

	(void)worker;
	if (!is_whole(panels->plan->units[panel->member->parts[0].unit].spec))
		return 0;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	panels->found[item] = matrix.amax;
	return 0;
}

/* Finds the amax of each scale group: of all its matrices, or that of a calibration.  The parts of
 * a matrix have one group: gate and up of an expert. */
static int find_amaxes(struct panels *panels, struct err *err)
{
	const struct sensitivity_params *params = panels->round->params;
	const struct plan *plan = panels->plan;

	if (pool_run(params->n_threads, panels->n, find_amax, panels, params->stop, err))
		return -1;
	for (size_t i = 0; i < panels->n; i++) {
		const struct sensitivity_part *part = &panels->list[i].member->parts[0];
		size_t g = plan->selection.units[part->unit].scale_group + part->matrix;

		panels->amaxes[g] = fmaxf(panels->amaxes[g], panels->found[i]);
	}
	for (size_t g = 0; g < plan->selection.n_scale_groups; g++)
		if (!isnan(plan->groups[g].amax))
			panels->amaxes[g] = plan->groups[g].amax;
	return 0;
}

/* Quantizes a matrix of values in fp32, which become its codes' values.  amax: NULL, or of each
 * tile. */
static int to_fp8(struct round *round, int worker, const struct weight_matrix *matrix,
		  const struct qspec *spec, const float *amax, struct err *err)
{
	static const char what[] = "the codes of a weight";
	const struct backend *backend = round->params->backend;
	struct worker_values *own = &round->values[worker];
	size_t k = matrix->ref->k, n_across = tile_count(k, spec->tile.cols);
	const struct matrix x = { matrix->values, DT_F32, matrix->n, k, k };
	struct quant_stats stats = { 0 };
	struct quant_out out = { .stride = k, .scale_stride = n_across, .stats = &stats };
	struct quant_in in = { .rows = matrix->n,
			       .cols = k,
			       .stride = k,
			       .format = spec->format,
			       .tile = spec->tile,
			       .scale_type = spec->scale_type,
			       .scale_stride = n_across };

	if (buffer_ensure(&own->codes, (uint64_t)matrix->n * k, what, err) ||
	    buffer_ensure(&own->scales,
			  tile_count(matrix->n, spec->tile.rows) * n_across * sizeof(float), what,
			  err))
		return -1;
	in.codes = out.codes = own->codes.data;
	in.scale_inv = out.scale_inv = own->scales.data;
	backend_cast(backend, &x, spec, amax, 1, &out);
	backend_dequantize(backend, &in, DT_F32, matrix->values, k);
	return backend_failed(backend, matrix->ref->weight->tensor->name, err);
}

/* Quantizes the rows of a part that a panel has, in whole tiles, and sets *values to their values
 * from row overlap->begin on. */
static int quantize_rows(const struct panels *panels, const struct sensitivity_part *part,
			 const struct overlap *overlap, int worker, const float **values,
			 struct err *err)
{
	struct round *round = panels->round;
	const struct weight_reader reader = reader_of(round);
	const struct plan_unit *unit = &panels->plan->units[part->unit];
	size_t group = panels->plan->selection.units[part->unit].scale_group + part->matrix;
	size_t first = overlap->begin / LINES * LINES, k = overlap->part.k;
	size_t n = (overlap->end + LINES - 1) / LINES * LINES;
	struct buffer *buffer = &round->values[worker].read;
	struct weight_matrix matrix = { .ref = &overlap->part, .first = first, .dtype = DT_F32 };
	const float *amax = is_whole(unit->spec) ? &panels->amaxes[group] : NULL;

	n = (n < overlap->part.n ? n : overlap->part.n) - first;
	if (buffer_ensure(buffer, (uint64_t)n * k * sizeof(float), "the values of a weight", err))
		return -1;
	matrix.n = n;
	matrix.values = buffer->data;
	if (weight_matrix_read(&reader, &matrix, err) ||
	    (!unit->same_codes && to_fp8(round, worker, &matrix, unit->spec, amax, err)))
		return -1;
	*values = matrix.values;
	*values += (overlap->begin - first) * k;
	return 0;
}

/* Puts together the rows of a panel from its parts. */
static int join_parts(const struct panels *panels, const struct row_panel *panel, int worker,
		      const float **values, struct err *err)
{
	const struct sensitivity_member *member = panel->member;
	struct buffer *buffer = &panels->round->values[worker].joined;
	size_t k = member->ref->k;
	float *to;

	if (buffer_ensure(buffer, (uint64_t)panel->n * k * sizeof(float), "the rows of a weight",
			  err))
		return -1;
	*values = to = buffer->data;
	for (size_t i = 0; i < member->n_parts; i++) {
		const struct overlap overlap = overlap_of(panels->plan, panel, i);
		const float *rows;

		if (overlap.begin >= overlap.end)
			continue;
		if (quantize_rows(panels, &member->parts[i], &overlap, worker, &rows, err))
			return -1;
		for (size_t p = overlap.begin; p < overlap.end; p++, rows += k) {
			int64_t row = overlap.offset + (int64_t)(p * overlap.step);

			memcpy(to + ((size_t)row - panel->first) * k, rows, k * sizeof *to);
		}
	}
	return 0;
}

static int set_panel(void *context, int worker, size_t item, struct err *err)
{
	const struct panels *panels = context;
	const struct row_panel *panel = &panels->list[item];
	const struct sensitivity_member *member = panel->member;
	const float *values;

	if (is_part(panels->plan, member)) {
		const struct overlap overlap = overlap_of(panels->plan, panel, 0);

		if (quantize_rows(panels, &member->parts[0], &overlap, worker, &values, err))
			return -1;
	} else if (join_parts(panels, panel, worker, &values, err)) {
		return -1;
	}
	return variants_panel_set(&panels->round->variants, panel->linear, panel->number, values,
				  err);
}

/* Allocates the weights of the group's matrices, and lists their panels. */
static int panels_make(struct panels *panels, const struct sensitivity_members *members,
		       struct variant_stage *stage, struct err *err)
{
	struct round *round = panels->round;

	for (size_t m = 0; m < members->n; m++) {
		const struct sensitivity_member *member = &members->list[m];
		struct row_panel panel = { .member = member };

		if (variant_stage_take(stage, &round->variants, member->ref, &member->cast,
				       &panel.linear, err))
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
