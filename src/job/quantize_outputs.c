/* SPDX-License-Identifier: Apache-2.0
 *
 * From decisions to files: the tensors of every output shard, with their places.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/quantize_internal.h"

/* Makes room for one more tensor in a shard. */
static struct st_tensor *shard_add(struct output_shard *shard, size_t output)
{
	size_t n = shard->n_tensors;

	ARRAY_GROW(shard->tensors, n);
	ARRAY_GROW(shard->outputs, n);
	shard->outputs[n] = output;
	shard->tensors[n] = (struct st_tensor){ 0 };
	shard->n_tensors++;
	return &shard->tensors[n];
}

static void tensor_set(struct st_tensor *tensor, char *name, enum dtype dtype, int n_dims, const uint64_t *shape)
{
	tensor->name = name;
	tensor->dtype = dtype;
	tensor->n_dims = n_dims;
	tensor->shape = xcalloc((size_t)n_dims, sizeof *shape);
	if (n_dims)
		memcpy(tensor->shape, shape, (size_t)n_dims * sizeof *shape);
}

static struct st_tensor *output_add(struct quantize_plan *plan, size_t u, enum output_part part)
{
	size_t shard = plan->selection.units[u].source->shard;
	struct output output = { .unit = u,
				 .part = part,
				 .shard = shard,
				 .index = plan->shards[shard].n_tensors };

	ARRAY_GROW(plan->outputs, plan->n_outputs);
	plan->outputs[plan->n_outputs] = output;
	return shard_add(&plan->shards[shard], plan->n_outputs++);
}

static void unit_copy(struct quantize_plan *plan, size_t u)
{
	const struct st_tensor *source = plan->selection.units[u].source->tensor;

	tensor_set(output_add(plan, u, PART_COPY), xstrdup(source->name), source->dtype, source->n_dims,
		   source->shape);
	plan->n_kept++;
}

static int unit_quantize(struct quantize_plan *plan, size_t u, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct qspec *spec = &plan->specs[u];
	struct scheme scheme = scheme_from_qspec(spec, unit->recipe->needs_history);
	uint64_t shape[2] = { unit->rows, unit->cols };
	uint64_t n_scales = tile_count(unit->rows, spec->tile.rows) * tile_count(unit->cols, spec->tile.cols);
	struct scale_decl scale;

	tensor_set(output_add(plan, u, PART_CODES), xstrdup(unit->name),
		   spec->format == FP8_E5M2 ? DT_F8_E5M2 : DT_F8_E4M3, 2, shape);
	format_scale(plan->format, &scheme, plan->target, unit->name, unit->rows, unit->cols, &scale);
	tensor_set(output_add(plan, u, PART_SCALE), scale.name, scale.dtype, scale.n_dims, scale.shape);
	plan->n_quantized++;
	if (st_n_elements(scale.shape, scale.n_dims) != n_scales ||
	    dtype_bits(scale.dtype) / 8 != scale_size(spec->scale_type))
		return err_set(err, ERR_USAGE, "format '%s' cannot hold the %llu scales of tensor '%s'",
			       plan->format->name, (unsigned long long)n_scales, unit->name);
	return 0;
}

/* The source of a quantized unit, once, whatever the number of units that are cut from it. */
static void unit_preserve(struct quantize_plan *plan, size_t u)
{
	const struct tensor_ref *ref = plan->selection.units[u].source;
	struct output_shard *shard = &plan->preserved[ref->shard];

	if (u == 0 || plan->selection.units[u - 1].source != ref || !plan->selection.units[u - 1].recipe)
		tensor_set(shard_add(shard, u), xstrdup(ref->tensor->name), ref->tensor->dtype,
			   ref->tensor->n_dims, ref->tensor->shape);
	plan->unit_preserved[u] = shard->n_tensors - 1;
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A scale's name may be that of a tensor that was there before. */
static int names_check(const struct quantize_plan *plan, struct err *err)
{
	const char **names = xcalloc(plan->n_outputs, sizeof *names);
	int rc = 0;

	for (size_t i = 0; i < plan->n_outputs; i++)
		names[i] = plan->shards[plan->outputs[i].shard].tensors[plan->outputs[i].index].name;
	sort(names, plan->n_outputs, sizeof *names, compare_texts);
	for (size_t i = 1; i < plan->n_outputs && !rc; i++) {
		if (!strcmp(names[i - 1], names[i]))
			rc = err_set(err, ERR_INPUT,
				     "the output would have two tensors '%s': the source has one of that name",
				     names[i]);
	}
	free(names);
	return rc;
}

/* The source's own metadata, with "format" set, which loaders ask for. */
static int shard_layout(struct output_shard *shard, const struct st_file *source, struct err *err)
{
	struct st_metadata *metadata = xcalloc(source->n_metadata + 1, sizeof *metadata);
	size_t n = 0;

	for (size_t i = 0; i < source->n_metadata; i++) {
		if (strcmp(source->metadata[i].key, "format") != 0)
			metadata[n++] = source->metadata[i];
	}
	metadata[n++] = (struct st_metadata){ .key = (char *)"format", .value = (char *)"pt" };
	st_layout(shard->tensors, shard->n_tensors, metadata, n, &shard->header, &shard->data_size);
	free(metadata);
	if (shard->header.len - 8 > ST_MAX_HEADER)
		return err_set(err, ERR_INPUT, "the header of output '%s' would have %zu bytes, and readers take %d",
			       shard->name, shard->header.len - 8, ST_MAX_HEADER);
	return 0;
}

int plan_outputs(struct quantize_plan *plan, bool preserve, struct err *err)
{
	const struct checkpoint *source = &plan->source;
	size_t n_units = plan->selection.n_units;

	plan->n_shards = source->n_shards;
	plan->shards = xcalloc(plan->n_shards, sizeof *plan->shards);
	plan->unit_outputs = xcalloc(n_units + 1, sizeof *plan->unit_outputs);
	if (preserve) {
		plan->preserved = xcalloc(plan->n_shards, sizeof *plan->preserved);
		plan->unit_preserved = xcalloc(n_units, sizeof *plan->unit_preserved);
	}
	for (size_t u = 0; u < n_units; u++) {
		plan->unit_outputs[u] = plan->n_outputs;
		if (!plan->selection.units[u].recipe) {
			unit_copy(plan, u);
			continue;
		}
		if (unit_quantize(plan, u, err))
			return -1;
		if (preserve)
			unit_preserve(plan, u);
	}
	plan->unit_outputs[n_units] = plan->n_outputs;
	if (names_check(plan, err))
		return -1;
	for (size_t i = 0; i < plan->n_shards; i++) {
		plan->shards[i].name = source->shards[i].name;
		if (shard_layout(&plan->shards[i], &source->shards[i].file, err))
			return -1;
		plan->output_bytes += plan->shards[i].data_size;
		plan->disk_bytes += plan->shards[i].header.len + plan->shards[i].data_size;
		if (preserve) {
			plan->preserved[i].name = source->shards[i].name;
			if (shard_layout(&plan->preserved[i], &source->shards[i].file, err))
				return -1;
		}
	}
	plan->input_bytes = source->data_bytes;
	return 0;
}
