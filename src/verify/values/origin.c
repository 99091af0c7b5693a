/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint against the one it was made from: which arithmetic made it, every code and scale by
 * that arithmetic, and byte for byte what was only copied.
 */
#include "verify/values/origin.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"
#include "ckpt/torch_files.h"
#include "format/scale_names.h"
#include "source/unpack.h"
#include "verify/tensors.h"
#include "verify/values/worker.h"

#define COPY_BYTES ((uint64_t)1 << 20) /* of one comparison */

/* --- the origin of each weight --- */

COMPARISON(compare_names, struct unit *const, strcmp((*x)->name, (*y)->name))

/* Returns the unit of that name, or NULL. */
static const struct unit *find_unit(const struct origin *origin, const char *name)
{
	const struct unit key = { .name = (char *)name }, *expected = &key;
	const struct unit **found;

	if (!origin->selection.n_units)
		return NULL;
	found = bsearch(&expected, origin->by_name, origin->selection.n_units,
			sizeof *origin->by_name, compare_names);
	return found ? *found : NULL;
}

/* Returns the expert's matrix of a stack that the source has in FP8 too. */
static const struct unit *cut_matrix(struct unit *matrix, const struct unit *stack,
				     const struct unit *expected)
{
	*matrix = *stack;
	matrix->stack = 0;
	matrix->rows = expected->rows;
	matrix->slice = expected->slice;
	return matrix;
}

/* Returns the unit of a tensor with the same name and shape; else the unit that cuts an expert from
 * a fused tensor or reads an FP8 source. */
static const struct unit *find_origin(struct origin *origin, size_t w,
				      const struct verify_weight *weight)
{
	const struct tensor_ref *ref = checkpoint_find(&origin->checkpoint, weight->unit.name);
	const struct unit *expected = &weight->unit, *found;

	if (ref && dtype_is_float(ref->tensor->dtype) &&
	    st_same_shape(ref->tensor, expected->source->tensor)) {
		origin->direct[w] = (struct unit){ .name = expected->name,
						   .source = ref,
						   .rows = expected->rows,
						   .cols = expected->cols,
						   .slice = expected->slice };
		return &origin->direct[w];
	}
	found = find_unit(origin, expected->name);
	if (!found || !found->recipe || found->cols != expected->cols)
		return NULL;
	if (found->rows == expected->rows)
		return found;
	return found->stack && st_same_shape(found->source->tensor, expected->source->tensor)
		       ? cut_matrix(&origin->direct[w], found, expected)
		       : NULL;
}

static void sort_units(struct origin *origin)
{
	size_t n = origin->selection.n_units;

	origin->by_name = xcalloc(n, sizeof *origin->by_name);
	for (size_t u = 0; u < n; u++)
		origin->by_name[u] = &origin->selection.units[u];
	if (n)
		qsort(origin->by_name, n, sizeof *origin->by_name, compare_names);
}

static void list_origins(struct verify *verify, struct origin *origin)
{
	origin->direct = xcalloc(verify->weights.n, sizeof *origin->direct);
	for (size_t w = 0; w < verify->weights.n; w++) {
		struct verify_weight *weight = &verify->weights.list[w];

		weight->origin = find_origin(origin, w, weight);
		if (!weight->origin && !weight->unit.slice.first)
			verify_report(verify, PROBLEM_TENSOR_MISSING, weight->unit.source,
				      "'%s' (%" PRIu64 " x %" PRIu64
				      ") has no counterpart in the source",
				      weight->unit.name, weight->unit.rows, weight->unit.cols);
	}
}

/* --- copied tensors --- */

static bool same_type(const struct st_tensor *a, const struct st_tensor *b)
{
	return a->dtype == b->dtype && st_same_shape(a, b);
}

/* Returns what the tensor is a copy of; its ref is NULL where the source has none. */
static struct copy find_copy(const struct origin *origin, const struct tensor_ref *ref)
{
	const struct tensor_ref *original = checkpoint_find(&origin->checkpoint, ref->tensor->name);
	const struct unit *unit;

	if (original)
		return (struct copy){ .ref = ref, .original = original };
	unit = find_unit(origin, ref->tensor->name);
	if (unit && unit->part)
		return (struct copy){ .ref = ref, .original = unit->source, .part = unit };
	return (struct copy){ 0 };
}

/* Returns the tensor that a copy would be; its name is not set. */
static struct st_tensor copied(const struct copy *copy)
{
	struct st_tensor tensor = *copy->original->tensor;

	if (copy->part) {
		tensor.n_dims = 1;
		tensor.shape = (uint64_t *)&copy->part->rows;
	}
	return tensor;
}

static void report_type(struct verify *verify, const struct tensor_ref *ref,
			const struct st_tensor *original)
{
	verify_report(verify, PROBLEM_TENSOR_CHANGED, ref, "'%s' is %s %s, but %s %s in the source",
		      ref->tensor->name, dtype_name(ref->tensor->dtype), st_shape(ref->tensor).text,
		      dtype_name(original->dtype), st_shape(original).text);
}

/* Notes a tensor that the source has under no name.  The head of a tied model is a copy. */
static void check_extra(struct verify *verify, const struct origin *origin,
			const struct tensor_ref *ref)
{
	const char *name = ref->tensor->name;

	if (detection_is_weight(ref) || scale_name_find(name) ||
	    detection_is_scale(verify->opened.detection, ref) || find_unit(origin, name) ||
	    low_bit_of(&verify->low_bit, low_bit_index(verify->opened.checkpoint, ref)) ||
	    role_cache_find(&verify->roles, name).role == ROLE_LM_HEAD)
		return;
	verify_report(verify, PROBLEM_TENSOR_EXTRA, ref, "'%s' has no counterpart in the source",
		      name);
}

static void find_copies(struct verify *verify, struct origin *origin)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	origin->copies = xcalloc(checkpoint->n_tensors, sizeof *origin->copies);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct copy copy = find_copy(origin, ref);
		struct st_tensor original;

		if (!copy.ref)
			check_extra(verify, origin, ref);
		if (!copy.ref || detection_is_weight(ref) ||
		    detection_is_scale(verify->opened.detection, ref))
			continue;
		original = copied(&copy);
		if (same_type(ref->tensor, &original))
			origin->copies[origin->n_copies++] = copy;
		else
			report_type(verify, ref, &original);
	}
}

static size_t first_difference(const char *a, const char *b, size_t n)
{
	size_t i = 0;

	while (i < n && a[i] == b[i])
		i++;
	return i;
}

/* Reads n bytes of what a tensor is a copy of. */
static int read_original(struct origin *origin, const struct copy *copy, uint64_t at, size_t n,
			 void *data, struct err *err)
{
	uint64_t size = dtype_bits(copy->original->tensor->dtype) / 8;

	if (!copy->part)
		return source_read_bytes(&origin->files, copy->original, at, n, data, err);
	return source_read_part(&origin->files, copy->part, at / size, n / size, data, err);
}

static int compare_copy(void *context, int worker, size_t item, struct err *err)
{
	struct verify *verify = context;
	struct origin *origin = verify->run.origin;
	struct copy *copy = &origin->copies[item];
	const struct source_buffers *buffers = &verify->run.workers[worker].source;
	char *data = buffers->matrix, *expected = buffers->raw;
	uint64_t size = st_tensor_size(copy->ref->tensor);
	uint64_t step = buffers->size < COPY_BYTES ? buffers->size : COPY_BYTES;

	for (uint64_t at = 0; at < size; at += step) {
		size_t n = (size_t)(size - at < step ? size - at : step);

		if (source_read_bytes(&verify->run.files, copy->ref, at, n, data, err) ||
		    read_original(origin, copy, at, n, expected, err))
			return -1;
		if (memcmp(data, expected, n) != 0) {
			copy->changed = true;
			copy->first_changed = at + first_difference(data, expected, n);
			return 0;
		}
	}
	return 0;
}

static int compare_copies(struct verify *verify, struct origin *origin, struct err *err)
{
	find_copies(verify, origin);
	if (pool_run(verify->params->n_threads, origin->n_copies, compare_copy, verify,
		     verify->progress->stop, err))
		return -1;
	for (size_t i = 0; i < origin->n_copies; i++) {
		const struct copy *copy = &origin->copies[i];

		if (copy->changed)
			verify_report(verify, PROBLEM_TENSOR_CHANGED, copy->ref,
				      "'%s' differs from the source, first at byte %" PRIu64
				      " of %" PRIu64,
				      copy->ref->tensor->name, copy->first_changed,
				      st_tensor_size(copy->ref->tensor));
	}
	return 0;
}

/* Has the tensor been missed already, by the other layers?  Only listed problems are looked at. */
static bool is_reported(const struct problems *problems, const char *name)
{
	if (problems->n_of[PROBLEM_TENSOR_MISSING] > DEFECTS_LISTED)
		return false;
	for (size_t i = 0; i < problems->n; i++)
		if (problems->list[i].kind == PROBLEM_TENSOR_LACKING && problems->list[i].tensor &&
		    !strcmp(problems->list[i].tensor, name))
			return true;
	return false;
}

static void report_missing(struct verify *verify, const struct tensor_ref *ref, const char *name)
{
	if (is_reported(&verify->result->problems, name))
		return;
	problem_add(&verify->result->problems, PROBLEM_TENSOR_MISSING, name, NULL,
		    "'%s' is missing, but '%s' of the source contains it", name,
		    verify->run.origin->checkpoint.shards[ref->shard].name);
}

/* Reports a tensor that the checkpoint does not have by name: all of it, or which of its units from
 * first to end are missing. */
static void report_missing_parts(struct verify *verify, const struct tensor_ref *ref,
				 const struct selection *selection, size_t first, size_t end)
{
	const struct unit *units = selection->units;
	size_t n_found = 0;

	for (size_t u = first; u < end; u++)
		n_found += checkpoint_find(verify->opened.checkpoint, units[u].name) != NULL;
	if (!n_found)
		report_missing(verify, ref, ref->tensor->name);
	for (size_t u = first; n_found && u < end; u++)
		if (!checkpoint_find(verify->opened.checkpoint, units[u].name))
			report_missing(verify, ref, units[u].name);
}

/* Whether the unit is read from the tensor: a low-bit weight has a name of its own there. */
static bool is_source(const struct unit *unit, const struct tensor_ref *ref)
{
	return unit->source->shard == ref->shard &&
	       unit->source->tensor->begin == ref->tensor->begin &&
	       unit->source->tensor->end == ref->tensor->end;
}

/* Reports tensors of the source that the checkpoint has neither by name nor cut into experts. */
static void find_missing(struct verify *verify, struct origin *origin)
{
	const struct checkpoint *source = &origin->checkpoint;
	const struct selection *selection = &origin->selection;
	struct detection detection = { 0 };
	struct err ignored;
	bool fp8 = detection_make(&detection, source, (struct json_text){ 0 }, &ignored) == 0;
	size_t first, u = 0;

	for (size_t i = 0; i < source->n_tensors; i++) {
		const struct tensor_ref *ref = &source->tensors[i];

		for (first = u; u < selection->n_units && is_source(&selection->units[u], ref);)
			u++;
		if (!checkpoint_find(verify->opened.checkpoint, ref->tensor->name) &&
		    !low_bit_is_dropped(&selection->low_bit, i) &&
		    !(fp8 && detection_is_scale(&detection, ref)))
			report_missing_parts(verify, ref, selection, first, u);
	}
	detection_release(&detection);
}

/* --- amax of weights with one scale --- */

struct amax_job {
	struct verify *verify;
	const struct cuts *cuts;
};

static int take_amax(void *context, int worker, size_t item, struct err *err)
{
	const struct amax_job *job = context;
	struct verify *verify = job->verify;
	const struct cut *cut = &job->cuts->list[item];
	struct verify_weight *weight = &verify->weights.list[cut->weight];
	struct source_request request = { .unit = weight->origin,
					  .rect = cut->rect,
					  .buffers = verify->run.workers[worker].source };
	uint64_t n_nonfinite = 0;
	struct matrix x;
	float amax = 0;

	if (!weight->origin || weight->unit.source_scale.tile.rows != WHOLE)
		return 0;
	if (source_read(&verify->run.origin->files, &request, &x, err))
		return -1;
	backend_amax(verify->run.backend, &x, (struct tile){ WHOLE, WHOLE }, &amax, 1,
		     &n_nonfinite);
	if (backend_failed(verify->run.backend, weight->unit.name, err))
		return -1;
	pthread_mutex_lock(&verify->run.lock);
	weight->amax = fmaxf(weight->amax, amax);
	pthread_mutex_unlock(&verify->run.lock);
	return 0;
}

static int take_amaxes(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct origin *origin = verify->run.origin;
	struct amax_job job = { verify, cuts };

	if (pool_run(verify->params->n_threads, cuts->n, take_amax, &job, verify->progress->stop,
		     err))
		return -1;
	origin->fused_amax = xcalloc(verify->weights.fused_sets.n, sizeof *origin->fused_amax);
	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];

		if (weight->fused_set != SIZE_MAX)
			origin->fused_amax[weight->fused_set] =
				fmaxf(origin->fused_amax[weight->fused_set], weight->amax);
	}
	return 0;
}

int origin_find(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct origin *origin = verify->run.origin = xcalloc(1, sizeof *origin);

	if (checkpoint_open(&origin->checkpoint, verify->params->io, verify->params->source,
			    verify->params->n_threads, err) ||
	    checkpoint_rename(&origin->checkpoint, &verify->params->renames, err) ||
	    torch_files_check(&origin->checkpoint, verify->progress->stop, err))
		return -1;
	selection_make_all(&origin->selection, &origin->checkpoint);
	sort_units(origin);
	source_init(&origin->files, verify->params->io, &origin->checkpoint, verify->run.backend,
		    -1);
	if (unpack_check_shapes(&origin->files, &origin->selection.low_bit, err))
		return -1;
	list_origins(verify, origin);
	find_missing(verify, origin);
	if (compare_copies(verify, origin, err) || take_amaxes(verify, cuts, err))
		return -1;
	return identify_arithmetic(verify, cuts, err);
}

int origin_close(struct verify *verify, struct err *err)
{
	return verify->run.origin ? source_close(&verify->run.origin->files, 0, err) : 0;
}

void origin_release(struct verify *verify)
{
	struct origin *origin = verify->run.origin;

	if (!origin)
		return;
	source_release(&origin->files);
	selection_release(&origin->selection);
	checkpoint_release(&origin->checkpoint);
	free(origin->by_name);
	free(origin->direct);
	free(origin->fused_amax);
	free(origin->copies);
	free(origin);
	verify->run.origin = NULL;
}
