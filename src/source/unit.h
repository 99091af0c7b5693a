/* SPDX-License-Identifier: Apache-2.0
 *
 * A unit: a tensor of the output that is converted as one matrix, and its place in the source.
 */
#ifndef FP8CONV_SOURCE_UNIT_H
#define FP8CONV_SOURCE_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/checkpoint.h"
#include "format/detect.h"
#include "format/low_bit.h"
#include "names/experts.h"
#include "num/dtype.h"
#include "recipe/recipe.h"

/* How engines find a kept tensor in a list. */
enum skip_need {
	SKIP_FREE,    /* it needs no name */
	SKIP_MODULE,  /* by its own name, without ".weight" */
	SKIP_EXPERTS, /* by the prefix of its layer's experts */
};

/* Whose rule decided what becomes of a tensor. */
enum unit_rule { RULE_GENERAL, RULE_USER, RULE_VENDOR, RULE_ENGINE, RULE_SHAPE };

/* One tensor of the output that holds weights: a source tensor, or one expert's part of a fused 3-D
 * tensor or of its bias. */
struct unit {
	/* in the output: "model.layers.0.mlp.experts.3.up_proj.weight"; points to the source's
	 * name, or into selection.names */
	char *name;
	const struct tensor_ref *source;
	struct weight_scale source_scale; /* of an FP8 source; else its scale is NULL */
	/* of a low-bit source, whose logical tensor is `source`; else NULL */
	const struct low_bit_weight *low_bit;
	/* NULL: kept, copied byte for byte under its own name and shape */
	const struct recipe *recipe;
	/* kept: a phrase such as "router gate"; quantized: why by another recipe, or NULL */
	char *reason;
	const char *rule_source; /* of a vendor's or engine's rule: "TensorRT-LLM #14759" */
	uint64_t rows, cols;	 /* converted: [out, in] */
	uint64_t stack;		 /* of a stack of matrices: the rows of each; else 0 */
	struct slice slice;	 /* converted: its place in the source */
	/* quantized: units with the same number share a per-tensor scale; matrix i of a stack has
	 * number scale_group + i */
	size_t scale_group;
	/* quantized: the next unit of its joint set, in which all are quantized or none; a ring */
	uint32_t next_joint;
	enum unit_rule rule : 8;
	bool passed; /* kept: a low-bit weight or a part of one, as the source has it */
	bool part;   /* kept: a vector of its source, of rows elements, with a name of its own */
	bool table;  /* converted: an embedding, or a part of one, whose parts share one scale */
	bool static_input; /* quantized: the file has a scale of its input */
	/* quantized: the dimension, N or K, that is no whole tiles where vLLM and SGLang need them
	 * even on one device; 0: none */
	char obstacle;
	bool linear; /* a 2-D weight of a linear module, or a layer's experts */
	/* how engines look for it in a list of kept modules (select/skip_list.h) */
	enum skip_need skip;
};

/* Returns the number of matrices of a unit, and the rows of each. */
static inline uint64_t unit_matrices(const struct unit *unit)
{
	return unit->stack ? unit->rows / unit->stack : 1;
}

static inline uint64_t unit_matrix_rows(const struct unit *unit)
{
	return unit->stack ? unit->stack : unit->rows;
}

/* Returns the row of tiles that has a row of the unit: each matrix of a stack has its own
 * tiles. */
static inline uint64_t unit_tile_row(const struct unit *unit, struct tile tile, uint64_t row)
{
	uint64_t n = unit_matrix_rows(unit);

	if (tile.rows == WHOLE)
		return row / n;
	return row / n * tile_count(n, tile.rows) + row % n / tile.rows;
}

/* Is the unit a matrix, or a part of one, of a stack that its source has? */
static inline bool unit_is_cut(const struct unit *unit)
{
	return !unit->stack && unit->source->tensor->n_dims == 3;
}

/* Returns the weight as formats see it. */
static inline struct scaled_weight unit_scaled_weight(const struct unit *unit)
{
	return (struct scaled_weight){ .name = unit->name,
				       .rows = unit_matrix_rows(unit),
				       .cols = unit->cols,
				       .experts = unit->stack ? unit_matrices(unit) : 0 };
}

/* Is the unit decoded when it is read? */
static inline bool unit_is_coded(const struct unit *unit)
{
	return unit->low_bit || dtype_is_fp8(unit->source->tensor->dtype);
}

/* Returns the type of the unit's matrices: its tensor's, F32 for a source that is decoded. */
static inline enum dtype unit_dtype(const struct unit *unit)
{
	return unit_is_coded(unit) ? DT_F32 : unit->source->tensor->dtype;
}

/* Does reading the unit need buffers.raw? */
static inline bool unit_needs_raw(const struct unit *unit)
{
	return unit->slice.col_stride != 1 || unit_is_coded(unit);
}

#endif
