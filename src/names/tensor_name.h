/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a tensor as segments between dots: "model.layers.0.mlp.up_proj.weight".
 */
#ifndef FP8CONV_NAMES_TENSOR_NAME_H
#define FP8CONV_NAMES_TENSOR_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATH_MAX_SEGMENTS 32

struct segment {
	const char *text; /* in the name, not terminated */
	size_t n;
};

/* A name as segments.  A name with more segments loses those in the middle. */
struct path {
	int n; /* at least 1 */
	struct segment segments[PATH_MAX_SEGMENTS];
	bool is_weight; /* the last segment is "weight", and a module precedes it */
	bool is_bias;
	/* the module that owns the tensor: the last segment before "weight" or "bias" that is not
	 * a number; else the last segment */
	int owner;
	/* the first segment "...experts" that a number follows, else "experts" that another one
	 * follows; or -1 */
	int experts;
	bool numbered_expert; /* a number follows that segment */
};

/* Splits name, to which the segments point: it must outlive path. */
void path_split(struct path *path, const char *name);

/* Whether a segment before i is a number, which means a layer or an element of a list. */
bool path_in_layer(const struct path *path, int i);

/* Returns the length of the module that owns a weight: that of name without a final ".weight". */
size_t module_len(const char *name);

/* Returns the name with "*" in the place of each segment that is a number, which the caller frees:
 * names of one kind give equal patterns.  *layer becomes the first of these numbers, of at most 9
 * digits; NO_LAYER without one. */
#define NO_LAYER UINT32_MAX
char *name_pattern(const char *name, uint32_t *layer);

/* Does a pattern of n bytes match a text of n_text bytes?  "*" is for any text. */
bool segment_matches(const char *pattern, size_t n, const char *text, size_t n_text);

bool segment_is(const struct segment *segment, const char *text);
bool segment_ends(const struct segment *segment, const char *text);
bool segment_is_number(const struct segment *segment);

#endif
