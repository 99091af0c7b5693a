/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversion on a device.  Kernels convert weights that lie row by row in a type of their own, and
 * copy what is kept; the rest, and all where a value is NaN or inf, goes through the memory of the
 * process, whose messages name the value.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "lib/device.h"
#include "lib/plan.h"

static bool is_aligned(const void *data, enum dtype dtype)
{
	return (uintptr_t)data % (dtype_bits(dtype) / 8) == 0;
}

/* Do kernels read the weight where it lies? */
static bool weight_fits(const struct fp8conv_plan *plan, size_t u)
{
	const struct unit *unit = &plan->plan.selection.units[u];

	return unit->recipe && !unit->table && !unit_is_coded(unit) &&
	       dtype_is_float(unit->source->tensor->dtype) && unit->slice.col_stride == 1 &&
	       is_aligned(memory_file_get(&plan->files.model, plan_tensor(plan, unit->source)),
			  unit->source->tensor->dtype);
}

static bool output_fits(const struct fp8conv_plan *plan, size_t u, size_t output)
{
	const struct output_shard *shard = &plan->plan.shards[0];
	const struct output *o = &shard->outputs[output];

	switch (o->kind) {
	case OUTPUT_CODES:
		return weight_fits(plan, u) && shard->outputs[output + 1].kind == OUTPUT_SCALE;
	case OUTPUT_SCALE:
		return is_aligned(memory_file_get(&plan->files.output, output),
				  shard->tensors[output].dtype);
	case OUTPUT_VALUE:
		return true;
	case OUTPUT_COPY:
		return !o->is_scale && !plan->plan.units[u].same_codes &&
		       st_tensor_size(o->source->tensor) == st_tensor_size(&shard->tensors[output]);
	default:
		return false;
	}
}

/* Do kernels make all outputs of a tensor, and find the scales that they share? */
static bool entry_fits(const struct fp8conv_plan *plan, size_t i)
{
	const struct tensor_entry *entry = &plan->entries[i];
	const struct output_shard *shard = &plan->plan.shards[0];

	for (size_t k = 0; k < entry->n_outputs; k++) {
		size_t output = plan->outputs[entry->first_output + k];

		if (!output_fits(plan, shard->outputs[output].unit, output))
			return false;
	}
	for (size_t k = 0; k < entry->n_units; k++) {
		size_t u = plan->units[entry->first_unit + k];
		size_t group = plan->plan.selection.units[u].scale_group;

		if (!plan->plan.selection.units[u].recipe ||
		    plan->plan.units[u].spec->tile.rows != WHOLE)
			continue;
		for (size_t m = plan->plan.groups[group].first; m != NO_UNIT;
		     m = plan->plan.units[m].next_in_group)
			if (!weight_fits(plan, m))
				return false;
	}
	return true;
}

/* Returns matrix i of n in which a weight is taken. */
static struct matrix weight_matrix(const struct fp8conv_plan *plan, const struct unit *unit,
				   size_t i, size_t n)
{
	enum dtype dtype = unit->source->tensor->dtype;
	const char *data = memory_file_get(&plan->files.model, plan_tensor(plan, unit->source));
	size_t rows = unit->rows / n, first = unit->slice.first + i * rows * unit->slice.row_stride;

	return (struct matrix){ data + first * (dtype_bits(dtype) / 8), dtype, rows, unit->cols,
				unit->slice.row_stride };
}

/* Returns the amaxes of the matrices of a unit with one scale each, on the device: known, or of all
 * weights that share the scales. */
static const float *group_amax(struct fp8conv_plan *plan, const struct device_work *work,
			       const struct unit *unit)
{
	struct plan_group *group = &plan->plan.groups[unit->scale_group];
	size_t n = unit_matrices(unit);
	float *amax;

	if (!plan->amax)
		plan->amax = xcalloc(plan->plan.selection.n_scale_groups, sizeof *plan->amax);
	if (plan->amax[unit->scale_group])
		return plan->amax[unit->scale_group];
	amax = work->ops->take(work->queue, n * sizeof *amax);
	if (!amax)
		return NULL;
	plan->amax[unit->scale_group] = amax;
	work->ops->zero(work->queue, amax, n * sizeof *amax);
	for (size_t i = 0; i < n; i++) {
		if (!isnan(group[i].amax))
			work->ops->put(work->queue, amax + i, &group[i].amax, sizeof *amax);
		for (size_t m = group->first; isnan(group[i].amax) && m != NO_UNIT;
		     m = plan->plan.units[m].next_in_group) {
			const struct unit *other = &plan->plan.selection.units[m];
			struct matrix x = weight_matrix(plan, other, i, n);

			work->ops->amax(work->queue, &x, (struct tile){ WHOLE, WHOLE }, amax + i);
		}
	}
	return amax;
}

/* Sets the grid of a matrix's scales where they lie in a tensor, and returns the scales from one
 * matrix to the next. */
static size_t scales_lie(const struct st_tensor *scale, bool by_columns, struct scale_grid *grid)
{
	if (by_columns && scale->dtype == DT_F32 && scale->n_dims > 1) {
		grid->row_stride = 1;
		grid->col_stride = round_up(grid->rows, COLUMN_ALIGN);
		return grid->col_stride * grid->cols;
	}
	return grid->rows * grid->cols;
}

/* Quantizes a unit: matrices whose tiles do not reach over two of them are one. */
static void weight_cast(struct fp8conv_plan *plan, const struct device_work *work, size_t output,
			bool by_columns)
{
	const struct output_shard *shard = &plan->plan.shards[0];
	const struct unit *unit = &plan->plan.selection.units[shard->outputs[output].unit];
	const struct qspec *spec = plan->plan.units[shard->outputs[output].unit].spec;
	bool whole = spec->tile.rows == WHOLE;
	bool one = !whole && !by_columns && unit_matrix_rows(unit) % spec->tile.rows == 0;
	size_t n = one ? 1 : unit_matrices(unit), rows = unit->rows / n, next;
	struct scale_grid grid = scale_row_major(tile_count(rows, spec->tile.rows),
						 tile_count(unit->cols, spec->tile.cols));
	uint8_t *codes = memory_file_get(&plan->files.output, output);
	char *scales = memory_file_get(&plan->files.output, output + 1);
	const float *amax = NULL;

	if (!unit->rows || !unit->cols)
		return;
	next = scales_lie(&shard->tensors[output + 1], by_columns, &grid);
	if (grid.col_stride > grid.rows)
		work->ops->zero(work->queue, scales, n * next * sizeof(float));
	if (whole)
		amax = group_amax(plan, work, unit);
	for (size_t i = 0; (amax || !whole) && i < n; i++) {
		struct matrix x = weight_matrix(plan, unit, i, n);
		struct fp8_copy copy = { codes + i * rows * unit->cols, unit->cols, 1,
					 scales + i * next * scale_size(spec->scale_type), grid };

		work->ops->cast_transpose(work->queue, &x, spec, amax ? amax + i : NULL,
					  &(struct fp8_out){ .rowwise = copy });
	}
}

static void entry_convert(struct fp8conv_plan *plan, const struct device_work *work,
			  const struct fp8conv_conversion *conversion)
{
	const struct tensor_entry *entry = &plan->entries[conversion->tensor];
	const struct output_shard *shard = &plan->plan.shards[0];

	for (size_t k = 0; k < entry->n_outputs; k++) {
		size_t output = plan->outputs[entry->first_output + k];
		const struct output *o = &shard->outputs[output];
		void *to = memory_file_get(&plan->files.output, output);

		if (o->kind == OUTPUT_CODES)
			weight_cast(plan, work, output, conversion->scales_by_columns);
		else if (o->kind == OUTPUT_VALUE)
			work->ops->put(work->queue, to, &o->value, sizeof o->value);
		else if (o->kind == OUTPUT_COPY && to)
			work->ops->move(
				work->queue, to,
				memory_file_get(&plan->files.model, plan_tensor(plan, o->source)),
				st_tensor_size(&shard->tensors[output]));
	}
}

/* Returns the bytes of an output as it is wanted. */
static size_t output_size(const struct fp8conv_plan *plan,
			  const struct fp8conv_conversion *conversion, size_t k)
{
	size_t output = plan->outputs[plan->entries[conversion->tensor].first_output + k];
	const struct st_tensor *tensor = &plan->plan.shards[0].tensors[output];

	return conversion->scales_by_columns && plan->plan.shards[0].outputs[output].is_scale
		       ? memory_by_columns_size(tensor)
		       : st_tensor_size(tensor);
}

/* Launches what kernels can do of a list, and marks the others in left.  Returns how many they
 * are. */
static size_t launch(struct fp8conv_plan *plan, const struct device_work *work,
		     const struct fp8conv_conversion *list, size_t n, bool *left)
{
	uint64_t *nonfinite = (uint64_t *)work->ops->nonfinite(work->queue), n_nonfinite = 0;
	size_t n_left = 0;

	if (!nonfinite)
		return 0;
	work->ops->zero(work->queue, nonfinite, sizeof *nonfinite);
	for (size_t c = 0; c < n; c++) {
		left[c] = list[c].outputs && !entry_fits(plan, list[c].tensor);
		if (list[c].outputs && !left[c])
			entry_convert(plan, work, &list[c]);
	}
	work->ops->fetch(work->queue, &n_nonfinite, nonfinite, sizeof n_nonfinite);
	for (size_t c = 0; c < n; c++) {
		const struct tensor_entry *entry = &plan->entries[list[c].tensor];

		for (size_t k = 0; plan->amax && k < entry->n_units; k++)
			plan->amax[plan->plan.selection.units[plan->units[entry->first_unit + k]]
					   .scale_group] = NULL;
		left[c] = left[c] || (n_nonfinite && list[c].outputs);
		n_left += left[c];
	}
	return n_left;
}

/* A conversion in the memory of the process. */
struct staged {
	void *data;
	size_t n_outputs;
	void **outputs;
};

/* Takes memory for a conversion, and copies its tensor there. */
static int stage(const struct fp8conv_plan *plan, const struct device_work *work,
		 struct fp8conv_conversion *conversion, struct staged *staged, struct err *err)
{
	size_t size = plan->files.sizes[conversion->tensor];
	size_t n = conversion->outputs ? plan->entries[conversion->tensor].n_outputs : 0;

	if (buffer_alloc(&staged->data, size + 1, "a tensor of the device", err))
		return -1;
	if (size)
		work->ops->fetch(work->queue, staged->data, conversion->data, size);
	staged->outputs = n ? xcalloc(n, sizeof *staged->outputs) : NULL;
	for (; staged->n_outputs < n; staged->n_outputs++)
		if (buffer_alloc(&staged->outputs[staged->n_outputs],
				 output_size(plan, conversion, staged->n_outputs) + 1,
				 "an output for the device", err))
			return -1;
	conversion->data = staged->data;
	conversion->outputs = staged->outputs;
	conversion->device = FP8CONV_CPU;
	return 0;
}

static void staged_release(struct staged *staged, size_t n)
{
	for (size_t c = 0; c < n; c++) {
		for (size_t k = 0; k < staged[c].n_outputs; k++)
			free(staged[c].outputs[k]);
		free(staged[c].outputs);
		free(staged[c].data);
	}
	free(staged);
}

static int work_begin(struct fp8conv_plan *plan, const struct fp8conv_conversion *first,
		      struct device_work *work, struct err *err)
{
	const struct fp8conv_tensor at = { .device = first->device, .stream = first->stream };

	return device_work_begin(plan->context, &at, plan->names[first->tensor], work, err);
}

/* Copies what the CPU converted to the device. */
static int staged_put(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		      const struct staged *staged, struct err *err)
{
	struct device_work work;
	uint64_t waited;

	if (work_begin(plan, list, &work, err))
		return -1;
	for (size_t c = 0; c < n; c++)
		for (size_t k = 0; staged[c].outputs && k < staged[c].n_outputs; k++)
			work.ops->put(work.queue, list[c].outputs[k], staged[c].outputs[k],
				      output_size(plan, &list[c], k));
	work.ops->zero(work.queue, work.ops->nonfinite(work.queue), sizeof waited);
	work.ops->fetch(work.queue, &waited, work.ops->nonfinite(work.queue), sizeof waited);
	return device_work_end(&work, 0, err);
}

/* Converts what is left on the CPU. */
static int apply_staged(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
			const bool *left, struct err *err)
{
	struct fp8conv_conversion *here = xcalloc(n, sizeof *here);
	struct staged *staged = xcalloc(n, sizeof *staged);
	struct device_work work;
	int rc = work_begin(plan, list, &work, err);

	for (size_t c = 0; !rc && c < n; c++) {
		here[c] = list[c];
		if (!left[c])
			here[c].outputs = NULL;
		rc = stage(plan, &work, &here[c], &staged[c], err);
	}
	rc = device_work_end(&work, rc, err);
	rc = rc ? rc : plan_apply_here(plan, here, n, err);
	rc = rc ? rc : staged_put(plan, list, n, staged, err);
	staged_release(staged, n);
	free(here);
	return rc;
}

int plan_apply_there(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		     struct err *err)
{
	bool *left = xcalloc(n, sizeof *left);
	size_t n_read, n_left = 0;
	int rc = plan_list_read(plan, list, n, &n_read, err);
	struct device_work work;

	rc = rc ? rc : work_begin(plan, list, &work, err);
	if (!rc) {
		n_left = launch(plan, &work, list, n, left);
		rc = device_work_end(&work, 0, err);
	}
	for (size_t c = 0; c < n_read; c++)
		plan_forget(plan, &list[c]);
	if (!rc && n_left)
		rc = apply_staged(plan, list, n, left, err);
	free(left);
	return rc;
}
