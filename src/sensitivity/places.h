/* SPDX-License-Identifier: Apache-2.0
 *
 * The units that have the rows of a matrix.  Mostly it is one unit; gate and up that are multiplied
 * as one matrix are quantized as two, and all experts of a layer may be one stack.
 */
#ifndef FP8CONV_SENSITIVITY_PLACES_H
#define FP8CONV_SENSITIVITY_PLACES_H

#include "sensitivity/sensitivity.h"

/* A quantized unit by its place in the checkpoint. */
struct unit_place {
	uint64_t shard, begin, first; /* begin: bytes; first: element of the tensor */
	size_t unit;
	size_t group; /* of the table; SIZE_MAX: none has it */
};

/* The quantized units of one recipe, by place. */
struct unit_places {
	const struct selection *selection;
	struct unit_place *list;
	size_t n;
};

/* What has rows of a matrix: a unit, or a matrix of a stack. */
struct matrix_part {
	struct unit_place *place;
	uint64_t matrix; /* its number in the stack; else 0 */
};

struct matrix_parts {
	struct matrix_part list[MAX_PARTS];
	size_t n;
};

/* selection must outlive places. */
void places_make(struct unit_places *places, const struct selection *selection);
/* Finds the parts that have all rows of a matrix; returns false where it is not quantized. */
bool places_find(const struct unit_places *places, const struct linear_ref *ref,
		 struct matrix_parts *parts);
void places_release(struct unit_places *places);

#endif
