/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and shapes of scales in the wild: all that our formats write, and what other tools do.
 */
#ifndef FP8CONV_FORMAT_SCALE_NAMES_H
#define FP8CONV_FORMAT_SCALE_NAMES_H

#include "ckpt/checkpoint.h"
#include "num/qspec.h"

enum scale_role {
	SCALE_OF_WEIGHT,
	SCALE_OF_INPUT,
	SCALE_OF_CACHE,
	SCALE_NOTE, /* says how a weight is quantized */
};

/* The last part of a tensor's name, as in "X.weight_scale". */
struct scale_name {
	const char *word;
	enum scale_role role;
	const char *tool; /* the one tool that writes it; NULL: our formats do */
};

/* NULL: the name is none of a scale. */
const struct scale_name *scale_name_find(const char *name);

/* The first word of that role under which a tensor stands beside weight `name`; NULL if there is
 * none. */
const struct scale_name *scale_name_beside(const struct checkpoint *checkpoint, const char *name,
					   enum scale_role role);

/* The weight scale that stands beside weight `name`; NULL if there is none. */
const struct tensor_ref *scale_beside(const struct checkpoint *checkpoint, const char *name);

/* The scale of the input of weight `name`; NULL if there is none. */
const struct tensor_ref *input_scale_beside(const struct checkpoint *checkpoint, const char *name);

/* The weight that a scale of that name and word would belong to; NULL if the checkpoint has none.
 */
const struct tensor_ref *scaled_weight(const struct checkpoint *checkpoint, const char *name,
				       const struct scale_name *word);

/* The tile that a scale of this shape and type belongs to, in a weight of that shape (2 dimensions,
 * or 3 with experts first).  hint is tried first; {0, 0} is none.  False: it fits no tiling. */
bool scale_tile(const struct st_tensor *weight, const struct st_tensor *scale, struct tile hint,
		struct tile *tile, enum scale_type *type);

#endif
