/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused sets (fp8conv-formats(7)): linear weights that engines merge into one when they load the
 * model, as q, k and v; gate and up; projections of a linear attention.  The members of a set have
 * the same parent module and may be in different shards.
 */
#ifndef FP8CONV_NAMES_FUSION_H
#define FP8CONV_NAMES_FUSION_H

#include <stdbool.h>
#include <stddef.h>

/* Names of equal kind and equal first parent_len bytes are one fused set. */
struct fusion {
	char kind;	   /* a letter for each pattern of sets */
	size_t parent_len; /* "model.layers.0.self_attn." */
	int position;	   /* of its rows in the merged weight, from 0 */
};

/* Sets *fusion to the fused set of the weight.  Returns false where engines do not merge it. */
bool fusion_of_name(struct fusion *fusion, const char *name);

#endif
