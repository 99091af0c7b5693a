/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint in groups, for a reader of a hundred thousand tensors: tensors whose names differ
 * only in their numbers, of one type and with one reason to be in high precision.  Scales belong to
 * the groups of their weights.
 *
 * Order: summary_make(); inspect_stats() with summary.counts; summary_add_values();
 * summary_release().
 */
#ifndef FP8CONV_INSPECT_SUMMARY_H
#define FP8CONV_INSPECT_SUMMARY_H

#include "base/mem.h"
#include "format/scale_names.h"
#include "inspect/inspect.h"
#include "inspect/stats.h"
#include "names/tensor_name.h"

/* Groups of FP8 weights whose codes are counted each by itself; more are counted together. */
#define SUMMARY_MAX_COUNTS 64

struct tensor_group {
	const char *pattern; /* "model.layers.*.mlp.up_proj.weight" */
	enum dtype dtype;    /* of low-bit weights: of their elements */
	bool fp8;	     /* codes with a scale, which is of: */
	struct tile tile;
	enum scale_type scale_type;
	const char *reason; /* in high precision, and why; NULL: FP8, or nobody knows */
	const struct st_tensor *first;
	bool one_shape; /* all tensors have the shape of the first */
	size_t n_tensors;
	uint64_t n_parameters;
	uint64_t n_bytes, n_scale_bytes;
	struct code_counts *counts; /* of FP8 weights */
};

/* The SQNR of some weights against their source, in dB; infinite where nothing differs. */
struct sqnr {
	size_t n; /* 0: not known, and no other member is */
	double worst, sum;
	size_t tensor; /* the worst one */
};

struct summary {
	size_t n;
	struct tensor_group
		*groups;    /* in the order of their first tensors: layer 2 before layer 10 */
	size_t *order;	    /* (n_tensors): tensors of the checkpoint in that order */
	size_t *group_of;   /* (n_tensors): SIZE_MAX for scales */
	uint32_t *layer_of; /* (n_tensors): NO_LAYER without one */
	struct code_counts **counts; /* (n_tensors): of FP8 weights */
	struct code_counts *counts_list;
	size_t n_counts;
	size_t n_scales[SCALE_NOTE + 1]; /* tensors by enum scale_role; other scales are notes */
	uint64_t scale_bytes[SCALE_NOTE + 1];
	struct arena texts;
};

/* Makes the groups from headers.  reasons: by tensor, may be NULL; they outlive the summary. */
void summary_make(struct summary *summary, const struct inspection *inspection,
		  const char *const *reasons);
void summary_release(struct summary *summary);

/* All values of a checkpoint. */
struct summary_values {
	struct tensor_stats *groups; /* by group */
	struct sqnr *sqnr;	     /* by group */
};

/* Sums up stats, by tensor.  sqnr: by tensor, NAN where it is not known; NULL: not measured. */
void summary_add_values(struct summary_values *values, const struct summary *summary,
			const struct inspection *inspection, const struct tensor_stats *stats,
			const double *sqnr);
void summary_values_release(struct summary_values *values);

#endif
