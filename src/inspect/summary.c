/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"

/* Compares names with numbers in order: layers.2 before layers.10. */
static int by_name(const void *a, const void *b, void *context)
{
	const struct tensor_ref *tensors = context;
	const char *x = tensors[*(const size_t *)a].tensor->name;
	const char *y = tensors[*(const size_t *)b].tensor->name;
	int order = strverscmp(x, y);

	return order ? order : strcmp(x, y);
}

/* --- groups --- */

/* The state of summary_make(). */
struct making {
	struct summary *summary;
	const struct inspection *inspection;
	const char *const *reasons;
	struct intern keys; /* of groups, by number */
	struct buf key;
};

static void count_scale(struct summary *summary, const struct tensor_ref *ref)
{
	const struct scale_name *word = scale_name_find(ref->tensor->name);
	enum scale_role role = word ? word->role : SCALE_NOTE;

	summary->n_scales[role]++;
	summary->scale_bytes[role] += st_tensor_size(ref->tensor);
}

/* Says what a tensor is, as a group of one. */
static struct tensor_group describe(const struct making *making, size_t t)
{
	const struct inspection *inspection = making->inspection;
	const struct tensor_ref *ref = &inspection->checkpoint.tensors[t];
	const struct low_bit_weight *low_bit = low_bit_of(&inspection->low_bit, t);
	struct tensor_group group = { .dtype = ref->tensor->dtype,
				      .first = low_bit ? &low_bit->tensor : ref->tensor,
				      .one_shape = true,
				      .n_bytes = st_tensor_size(ref->tensor) };
	struct weight_scale scale;
	struct err ignored;

	group.dtype = group.first->dtype;
	group.n_parameters = st_n_elements(group.first->shape, group.first->n_dims);
	if (low_bit)
		group.n_scale_bytes = st_tensor_size(low_bit->scale->tensor);
	if (!low_bit && detection_is_weight(ref) &&
	    !detection_scale(&inspection->detection, ref, &scale, &ignored)) {
		group.fp8 = true;
		group.tile = scale.tile;
		group.scale_type = scale.scale_type;
		group.n_scale_bytes = st_tensor_size(scale.scale->tensor);
	}
	if (!group.fp8 && making->reasons)
		group.reason = making->reasons[t];
	return group;
}

/* Returns the number of the group that the tensor belongs to, by all that its members share. */
static size_t find_group(struct making *making, const struct tensor_group *group,
			 const char *pattern)
{
	const uint64_t numbers[] = { (uint64_t)group->dtype, group->fp8, group->tile.rows,
				     group->tile.cols, (uint64_t)group->scale_type };

	making->key.len = 0;
	buf_add(&making->key, numbers, sizeof numbers);
	buf_add(&making->key, pattern, strlen(pattern) + 1);
	if (group->reason)
		buf_puts(&making->key, group->reason);
	return intern_add(&making->keys, making->key.data, making->key.len);
}

static void add_tensor(struct making *making, size_t t)
{
	struct summary *summary = making->summary;
	const char *name = making->inspection->checkpoint.tensors[t].tensor->name;
	char *pattern = name_pattern(name, &summary->layer_of[t]);
	struct tensor_group one = describe(making, t), *group;
	size_t g = find_group(making, &one, pattern);

	if (g == summary->n) {
		ARRAY_GROW(summary->groups, summary->n);
		one.pattern = arena_text(&summary->texts, pattern, strlen(pattern));
		summary->groups[summary->n++] = one;
		group = &summary->groups[g];
	} else {
		group = &summary->groups[g];
		group->one_shape &= st_same_shape(group->first, one.first);
		group->n_parameters += one.n_parameters;
		group->n_bytes += one.n_bytes;
		group->n_scale_bytes += one.n_scale_bytes;
	}
	group->n_tensors++;
	summary->group_of[t] = g;
	free(pattern);
}

/* --- counts --- */

static void share_counts(struct summary *summary, size_t n_tensors)
{
	size_t n = 0;

	for (size_t g = 0; g < summary->n; g++)
		n += summary->groups[g].fp8;
	summary->n_counts = n < SUMMARY_MAX_COUNTS ? n : SUMMARY_MAX_COUNTS;
	summary->counts_list = xcalloc(summary->n_counts, sizeof *summary->counts_list);
	summary->counts = xcalloc(n_tensors, sizeof *summary->counts);
	n = 0;
	for (size_t g = 0; g < summary->n; g++) {
		if (!summary->groups[g].fp8)
			continue;
		summary->groups[g].counts = &summary->counts_list[n];
		n += n + 1 < SUMMARY_MAX_COUNTS;
	}
	for (size_t t = 0; t < n_tensors; t++)
		if (summary->group_of[t] != SIZE_MAX)
			summary->counts[t] = summary->groups[summary->group_of[t]].counts;
}

void summary_make(struct summary *summary, const struct inspection *inspection,
		  const char *const *reasons)
{
	const struct checkpoint *checkpoint = &inspection->checkpoint;
	size_t n = checkpoint->n_tensors;
	struct making making = { .summary = summary, .inspection = inspection, .reasons = reasons };

	*summary = (struct summary){ .order = xcalloc(n, sizeof *summary->order),
				     .group_of = xcalloc(n, sizeof *summary->group_of),
				     .layer_of = xcalloc(n, sizeof *summary->layer_of) };
	for (size_t i = 0; i < n; i++)
		summary->order[i] = i;
	if (n)
		qsort_r(summary->order, n, sizeof *summary->order, by_name, checkpoint->tensors);
	for (size_t i = 0; i < n; i++) {
		size_t t = summary->order[i];

		summary->group_of[t] = SIZE_MAX;
		summary->layer_of[t] = NO_LAYER;
		if (low_bit_is_part(&inspection->low_bit, t) ||
		    detection_is_scale(&inspection->detection, &checkpoint->tensors[t]))
			count_scale(summary, &checkpoint->tensors[t]);
		else
			add_tensor(&making, t);
	}
	share_counts(summary, n);
	intern_release(&making.keys);
	buf_release(&making.key);
}

void summary_release(struct summary *summary)
{
	free(summary->groups);
	free(summary->order);
	free(summary->group_of);
	free(summary->layer_of);
	free(summary->counts);
	free(summary->counts_list);
	arena_release(&summary->texts);
	*summary = (struct summary){ 0 };
}

/* --- values --- */

static void add_sqnr(struct sqnr *into, double sqnr, size_t t)
{
	if (!into->n || sqnr < into->worst) {
		into->worst = sqnr;
		into->tensor = t;
	}
	into->sum += sqnr;
	into->n++;
}

void summary_add_values(struct summary_values *values, const struct summary *summary,
			const struct inspection *inspection, const struct tensor_stats *stats,
			const double *sqnr)
{
	*values = (struct summary_values){ .groups = xcalloc(summary->n, sizeof *values->groups),
					   .sqnr = xcalloc(summary->n, sizeof *values->sqnr) };
	for (size_t i = 0; i < inspection->checkpoint.n_tensors; i++) {
		size_t t = summary->order[i], g = summary->group_of[t];

		if (g == SIZE_MAX)
			continue;
		tensor_stats_add(&values->groups[g], &stats[t]);
		if (sqnr && !isnan(sqnr[t]))
			add_sqnr(&values->sqnr[g], sqnr[t], t);
	}
}

void summary_values_release(struct summary_values *values)
{
	free(values->groups);
	free(values->sqnr);
	*values = (struct summary_values){ 0 };
}
