/* SPDX-License-Identifier: Apache-2.0
 *
 * What a checkpoint must have, derived from config.json and from its own names and shapes: layers
 * 0 to L-1, in layers of one kind the same tensors of the same shapes, experts 0 to E-1, the parts
 * of a gated MLP and of an attention, an embedding, a last norm, a head.  There is no table of
 * architectures: each layer is compared with the layers like it.
 *
 * Headers only; no value is read.  A checkpoint without config.json is not judged.
 */
#ifndef FP8CONV_EXPECT_EXPECT_H
#define FP8CONV_EXPECT_EXPECT_H

#include "ckpt/checkpoint.h"

enum expect_kind {
	EXPECT_LAYER,  /* a layer is missing, or one that config.json does not count */
	EXPECT_TENSOR, /* a tensor is missing, under the name that it should have */
	EXPECT_SHAPE,
	EXPECT_NAME, /* names of a wrapper or of an engine's memory */
	EXPECT_MTP,  /* config.json counts layers of multi-token prediction, and there are none */
};

struct expect_gap {
	enum expect_kind kind;
	char *tensor;  /* the first one; NULL: a gap of no tensor */
	char *message; /* one line */
	size_t n;      /* tensors that it counts, at least 1 */
};

/* A zeroed struct has none. */
struct expect_gaps {
	size_t n;
	struct expect_gap *list;
};

/* Finds the gaps of a checkpoint.  Costs O(n) in tensors, and 16 bytes for each.  ERR_INPUT where
 * config.json is not an object. */
int expect_find(struct expect_gaps *gaps, const struct checkpoint *checkpoint, struct err *err);
void expect_release(struct expect_gaps *gaps);

/* Fails with ERR_INPUT and its name where a weight has no elements, as a rank of ZeRO-3 saves
 * it. */
int expect_elements(const struct checkpoint *checkpoint, struct err *err);

#endif
