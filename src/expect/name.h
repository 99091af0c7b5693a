/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a name has its layer: "model.layers.3.mlp.experts.7.up_proj.weight" is layer 3 of stack
 * "model.layers.", with the name "mlp.experts.*.up_proj.weight" of expert 7.
 */
#ifndef FP8CONV_EXPECT_NAME_H
#define FP8CONV_EXPECT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct layer_name {
	size_t stack_len; /* to the layer's number; 0: the name is in no layer */
	size_t rest;	  /* where the name in the layer begins */
	uint32_t layer;
	size_t expert_at; /* where the number of an expert is; 0: of no expert */
	uint32_t expert;
	bool routed; /* the segment before that number is "experts" and no more */
};

/* Splits a name.  The layer is the last number after a word for layers. */
void layer_name_split(struct layer_name *split, const char *name);

/* The same, faster where the name is in the layer of the name before, whose split it overwrites. */
void layer_name_next(struct layer_name *split, const char *before, const char *name);

/* Puts the name in the layer to buf, with '*' in the place of the expert's number. */
void layer_name_template(const struct layer_name *split, const char *name, struct buf *buf);

#endif
