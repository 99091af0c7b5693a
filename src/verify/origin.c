/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint against the one it was made from: which arithmetic made it, every code and scale by
 * that arithmetic, and byte for byte what was only copied.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "verify/origin.h"

#define COPY_PIECE ((uint64_t)1 << 20) /* bytes */

/* --- what came from where --- */

static int compare_names(const void *a, const void *b)
{
	return strcmp((*(const struct unit *const *)a)->name,
		      (*(const struct unit *const *)b)->name);
}

static bool same_matrix(const struct st_tensor *a, const struct st_tensor *b)
{
	return a->n_dims == 2 && b->n_dims == 2 && a->shape[0] == b->shape[0] &&
	       a->shape[1] == b->shape[1];
}

static bool is_float(enum dtype dtype)
{
	return dtype == DT_BF16 || dtype == DT_F16 || dtype == DT_F32;
}

/* A tensor of the same name and shape; else what selects experts out of a fused one, or reads an
 * FP8 source. */
static const struct unit *find_origin(struct origins *origins, size_t w,
				      const struct checked *weight, const struct unit **by_name)
{
	const struct tensor_ref *ref = checkpoint_find(&origins->checkpoint, weight->unit.name);
	const struct unit *wanted = &weight->unit;
	const struct unit **found;

	if (ref && is_float(ref->tensor->dtype) &&
	    same_matrix(ref->tensor, wanted->source->tensor)) {
		origins->direct[w] = (struct unit){ .name = wanted->name,
						    .source = ref,
						    .rows = wanted->rows,
						    .cols = wanted->cols,
						    .slice = { 0, wanted->cols, 1 } };
		return &origins->direct[w];
	}
	if (!origins->selection.n_units)
		return NULL;
	found = bsearch(&wanted, by_name, origins->selection.n_units, sizeof *by_name,
			compare_names);
	return found && (*found)->recipe && (*found)->rows == wanted->rows &&
			       (*found)->cols == wanted->cols
		       ? *found
		       : NULL;
}

static void find_origins(struct verify *verify, struct origins *origins)
{
	const struct unit **by_name = xcalloc(origins->selection.n_units, sizeof *by_name);

	for (size_t u = 0; u < origins->selection.n_units; u++)
		by_name[u] = &origins->selection.units[u];
	if (origins->selection.n_units)
		qsort(by_name, origins->selection.n_units, sizeof *by_name, compare_names);
	origins->direct = xcalloc(verify->n_weights, sizeof *origins->direct);
	for (size_t w = 0; w < verify->n_weights; w++) {
		struct checked *weight = &verify->weights[w];

		weight->origin = find_origin(origins, w, weight, by_name);
		if (!weight->origin)
			problem_add(&verify->result->problems, PROBLEM_TENSOR_MISSING,
				    weight->unit.name, verify_file(verify, weight->unit.source),
				    "'%s' of %llu x %llu has no counterpart in the source",
				    weight->unit.name, (unsigned long long)weight->unit.rows,
				    (unsigned long long)weight->unit.cols);
	}
	free(by_name);
}

/* All linear weights of the source, as the recipe that takes any shape sees them. */
static void select_all(struct origins *origins)
{
	struct err ignored;
	struct select_options options = { .recipe = recipe_find("channelwise", &ignored),
					  .requantize = true };

	if (selection_make(&origins->selection, &origins->checkpoint, &options, &ignored))
		origins->selection = (struct selection){ 0 };
}

/* --- what was only copied --- */

static bool same_type(const struct st_tensor *a, const struct st_tensor *b)
{
	if (a->dtype != b->dtype || a->n_dims != b->n_dims)
		return false;
	return !a->n_dims || !memcmp(a->shape, b->shape, (size_t)a->n_dims * sizeof *a->shape);
}

static void find_copies(struct verify *verify, struct origins *origins)
{
	const struct checkpoint *checkpoint = verify->checkpoint;

	origins->copies = xcalloc(checkpoint->n_tensors, sizeof *origins->copies);
	origins->originals = xcalloc(checkpoint->n_tensors, sizeof *origins->originals);
	origins->changed = xcalloc(checkpoint->n_tensors, sizeof *origins->changed);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		const struct tensor_ref *original =
			checkpoint_find(&origins->checkpoint, ref->tensor->name);

		if (!original || detection_is_weight(ref) ||
		    detection_is_scale(verify->detection, ref))
			continue;
		if (!same_type(ref->tensor, original->tensor)) {
			problem_add(&verify->result->problems, PROBLEM_TENSOR_CHANGED,
				    ref->tensor->name, verify_file(verify, ref),
				    "'%s' has another type or shape than in the source",
				    ref->tensor->name);
			continue;
		}
		origins->copies[origins->n_copies] = ref;
		origins->originals[origins->n_copies++] = original;
	}
}

static int compare_copy(void *context, int worker, size_t item, struct err *err)
{
	struct verify *verify = context;
	struct origins *origins = verify->origins;
	const struct source_buffers *buffers = &verify->desks[worker].source;
	char *here = buffers->matrix, *there = buffers->raw;
	uint64_t size = st_tensor_size(origins->copies[item]->tensor);
	uint64_t step = buffers->size < COPY_PIECE ? buffers->size : COPY_PIECE;

	for (uint64_t at = 0; at < size; at += step) {
		size_t n = (size_t)(size - at < step ? size - at : step);

		if (source_read_bytes(&verify->files, origins->copies[item], at, n, here, err) ||
		    source_read_bytes(&origins->files, origins->originals[item], at, n, there, err))
			return -1;
		if (memcmp(here, there, n) != 0) {
			origins->changed[item] = true;
			return 0;
		}
	}
	return 0;
}

static int compare_copies(struct verify *verify, struct origins *origins, struct err *err)
{
	find_copies(verify, origins);
	if (pool_run(verify->params->n_threads, origins->n_copies, compare_copy, verify,
		     verify->progress->stop, err))
		return -1;
	for (size_t i = 0; i < origins->n_copies; i++)
		if (origins->changed[i])
			problem_add(&verify->result->problems, PROBLEM_TENSOR_CHANGED,
				    origins->copies[i]->tensor->name,
				    verify_file(verify, origins->copies[i]),
				    "'%s' is not the source's, byte for byte",
				    origins->copies[i]->tensor->name);
	return 0;
}

static int compare_addresses(const void *a, const void *b)
{
	const struct st_tensor *const *x = a, *const *y = b;

	return (*x > *y) - (*x < *y);
}

/* What the source has, and the checkpoint has neither under its name nor cut into experts. */
static void find_missing(struct verify *verify, struct origins *origins)
{
	const struct checkpoint *source = &origins->checkpoint;
	const struct st_tensor **used = xcalloc(verify->n_weights + 1, sizeof *used);
	struct detection detection = { 0 };
	struct err ignored;
	bool fp8 = detection_make(&detection, source, &ignored) == 0;
	size_t n = 0;

	for (size_t w = 0; w < verify->n_weights; w++)
		if (verify->weights[w].origin)
			used[n++] = verify->weights[w].origin->source->tensor;
	qsort(used, n, sizeof *used, compare_addresses);
	for (size_t i = 0; i < source->n_tensors; i++) {
		const struct tensor_ref *ref = &source->tensors[i];

		if (!checkpoint_find(verify->checkpoint, ref->tensor->name) &&
		    !(fp8 && detection_is_scale(&detection, ref)) &&
		    !bsearch(&ref->tensor, used, n, sizeof *used, compare_addresses))
			problem_add(&verify->result->problems, PROBLEM_TENSOR_MISSING,
				    ref->tensor->name, NULL,
				    "the source has a tensor '%s', which is not here",
				    ref->tensor->name);
	}
	detection_release(&detection);
	free(used);
}

/* --- amax of what has one scale --- */

struct amax_job {
	struct verify *verify;
	const struct cuts *cuts;
};

static int take_amax(void *context, int worker, size_t item, struct err *err)
{
	const struct amax_job *job = context;
	struct verify *verify = job->verify;
	const struct cut *cut = &job->cuts->list[item];
	struct checked *weight = &verify->weights[cut->weight];
	const struct source_tee nowhere = { 0 };
	uint64_t n_nonfinite = 0;
	struct matrix x;
	float amax = 0;

	if (!weight->origin || weight->unit.source_scale.tile.rows != WHOLE)
		return 0;
	if (source_read(&verify->origins->files, weight->origin, &cut->rect,
			&verify->desks[worker].source, &nowhere, &x, err))
		return -1;
	backend_amax(verify->backend, &x, (struct tile){ WHOLE, WHOLE }, &amax, 1, &n_nonfinite);
	if (backend_failed(verify->backend, weight->unit.name, err))
		return -1;
	pthread_mutex_lock(&verify->lock);
	weight->amax = fmaxf(weight->amax, amax);
	pthread_mutex_unlock(&verify->lock);
	return 0;
}

static int take_amaxes(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct origins *origins = verify->origins;
	struct amax_job job = { verify, cuts };

	if (pool_run(verify->params->n_threads, cuts->n, take_amax, &job, verify->progress->stop,
		     err))
		return -1;
	origins->group_amax = xcalloc(verify->groups.n, sizeof *origins->group_amax);
	for (size_t w = 0; w < verify->n_weights; w++) {
		const struct checked *weight = &verify->weights[w];

		if (weight->group != SIZE_MAX)
			origins->group_amax[weight->group] =
				fmaxf(origins->group_amax[weight->group], weight->amax);
	}
	return 0;
}

int verify_origins(struct verify *verify, const struct cuts *cuts, struct err *err)
{
	struct origins *origins = verify->origins = xcalloc(1, sizeof *origins);

	if (checkpoint_open(&origins->checkpoint, verify->params->io, verify->params->source,
			    verify->params->n_threads, err))
		return -1;
	select_all(origins);
	source_init(&origins->files, verify->params->io, &origins->checkpoint, verify->backend, -1);
	find_origins(verify, origins);
	find_missing(verify, origins);
	if (compare_copies(verify, origins, err) || take_amaxes(verify, cuts, err))
		return -1;
	return find_arithmetic(verify, cuts, err);
}

int verify_origins_close(struct verify *verify, struct err *err)
{
	return verify->origins ? source_close(&verify->origins->files, err) : 0;
}

void verify_origins_release(struct verify *verify)
{
	struct origins *origins = verify->origins;

	if (!origins)
		return;
	source_release(&origins->files);
	selection_release(&origins->selection);
	checkpoint_release(&origins->checkpoint);
	free(origins->direct);
	free(origins->group_amax);
	free(origins->copies);
	free(origins->originals);
	free(origins->changed);
	free(origins);
	verify->origins = NULL;
}
