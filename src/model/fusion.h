/* SPDX-License-Identifier: Apache-2.0
 *
 * Which linear weights engines merge into one when they load them (fp8conv-formats(7)): q, k and v;
 * gate and up; the two halves of what a linear attention projects.  Members of a group have the
 * same parent module and lie in any shard.
 */
#ifndef FP8CONV_MODEL_FUSION_H
#define FP8CONV_MODEL_FUSION_H

#include <stdbool.h>
#include <stddef.h>

/* Names with equal kind and equal first parent_len bytes are one group. */
struct fusion {
	char kind;	   /* a letter */
	size_t parent_len; /* "model.layers.0.self_attn." */
	int position;	   /* from 0, in the merged weight from the first row on */
};

/* False: the weight of that name is not merged with others. */
bool fusion_of_name(struct fusion *fusion, const char *name);

#endif
