/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and shapes of scale tensors, in our formats and as other tools write or wrote them.
 * Source of the names of caches: vLLM 0.32.0, get_cache_scale_mapper() and
 * maybe_remap_kv_scale_name(); SGLang 0.5.23, maybe_remap_kv_scale_name().
 */
#ifndef FP8CONV_FORMAT_SCALE_NAMES_H
#define FP8CONV_FORMAT_SCALE_NAMES_H

#include "ckpt/checkpoint.h"
#include "num/qspec.h"

enum scale_role {
	SCALE_OF_WEIGHT,
	SCALE_OF_INPUT,
	SCALE_OF_CACHE,
	SCALE_NOTE,	  /* describes how a weight is quantized */
	SCALE_ZERO_POINT, /* of FP8 codes, which are symmetric: it is 0 */
	SCALE_UNUSED,	  /* the same of a cache; a bound of dynamic scales */
};

/* The last part of a tensor's name, as in "X.weight_scale". */
struct scale_name {
	const char *word;
	size_t n; /* its length */
	enum scale_role role;
	const char *tool;   /* the only tool that writes it; NULL: our formats do */
	const char *cached; /* "k", "v" or "kv": what it scales of those; NULL: nothing */
};

/* Returns the entry of a tensor's name, or NULL where the name is not that of a scale. */
const struct scale_name *scale_name_find(const char *name);

/* Returns the first entry of that role by which weight `name` has a tensor, or NULL. */
const struct scale_name *scale_name_beside(const struct checkpoint *checkpoint, const char *name,
					   enum scale_role role);

/* Returns the weight scale of weight `name`, or NULL.  The parts of a table may share one: that of
 * "T.shard_3.weight" is "T.weight_scale". */
const struct tensor_ref *scale_beside(const struct checkpoint *checkpoint, const char *name);

/* Returns "T", the table of its part "T.shard_0.weight", which the caller frees; NULL for other
 * names. */
char *scale_table(const char *name);

/* Does that scale of weight `name` belong to all parts of its table? */
bool scale_is_shared(const char *name, const char *scale);

/* Returns the input scale of weight `name`, or NULL. */
const struct tensor_ref *input_scale_beside(const struct checkpoint *checkpoint, const char *name);

/* Returns the weight that a scale of that name and entry belongs to; of a table in parts the first
 * one; NULL where it is missing. */
const struct tensor_ref *scaled_weight(const struct checkpoint *checkpoint, const char *name,
				       const struct scale_name *word);

/* Returns the length of "A" where a tensor scales the keys or values that attention A caches:
 * "A.k_scale", "A.k_proj.k_scale", "A.qkv_proj.k_scale", "A.attn.kv_scale"; 0 for other tensors.
 * *cached: as in the entry. */
size_t scale_cache(const char *name, const char **cached);

/* Finds the tile and type of a scale from its shape and dtype and the shape of its weight (2
 * dimensions, or 3 with experts first).  Tries hint first, unless it is {0, 0}.  Returns false
 * where the scale fits no tiling. */
bool scale_tile(const struct st_tensor *weight, const struct st_tensor *scale, struct tile hint,
		struct tile *tile, enum scale_type *type);

#endif
