/* SPDX-License-Identifier: Apache-2.0
 *
 * A unit: what is converted as one matrix, and how it lies in the source.
 */
#ifndef FP8CONV_SOURCE_UNIT_H
#define FP8CONV_SOURCE_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ckpt/checkpoint.h"
#include "format/detect.h"
#include "model/experts.h"
#include "num/dtype.h"
#include "recipe/recipe.h"

/* One tensor of the output that holds weights: a source tensor, or one expert's part of a fused 3-D
 * one. */
struct unit {
	/* in the output: "model.layers.0.mlp.experts.3.up_proj.weight"; its source's own, or one
	 * of selection.names */
	char *name;
	const struct tensor_ref *source;
	struct weight_scale
		source_scale; /* of an FP8 source (--requantize); else its scale is NULL */
	const struct recipe
		*recipe;     /* NULL: kept, copied byte for byte under its own name and shape */
	char *reason;	     /* kept: a phrase such as "router gate"; else NULL */
	uint64_t rows, cols; /* converted: [out, in] */
	uint64_t stack;	     /* of several matrices behind each other: the rows of each; else 0 */
	struct slice slice;  /* converted: where it lies in the source */
	size_t scale_group;  /* quantized: units with the same number share a per-tensor scale */
	/* quantized: the next of those that must be kept if this one is; a ring */
	size_t next_joint;
	bool static_input; /* quantized: its input has a scale of its own in the file */
	/* a 2-D weight of a linear module, or fused experts: ignore lists name its module when
	 * kept (the name, without ".weight" where it ends so) */
	bool linear;
};

/* The type of the matrices that a unit yields: its tensor's, F32 for an FP8 source. */
static inline enum dtype unit_dtype(const struct unit *unit)
{
	enum dtype dtype = unit->source->tensor->dtype;

	return dtype_is_fp8(dtype) ? DT_F32 : dtype;
}

/* Whether reading the unit needs buffers.raw. */
static inline bool unit_needs_raw(const struct unit *unit)
{
	return unit->slice.col_stride != 1 || dtype_is_fp8(unit->source->tensor->dtype);
}

#endif
