/* SPDX-License-Identifier: Apache-2.0
 *
 * Low-bit weights: matrices of 4-bit elements that a file packs into tensors of integers, with
 * scales in tensors beside.  Each becomes a logical weight, with the name, type and shape that it
 * has for the model: "X.weight" [out, in], or "P.gate_up_proj" [experts, out, in].  The packings
 * are a table of rows (fp8conv-formats(7)); names, types and shapes decide, never a configuration.
 *
 * Order: low_bit_find() once; low_bit_of(), low_bit_is_part() in any order; low_bit_release().
 * For a forward pass: low_bit_view_make(); low_bit_of_model(); low_bit_view_release().
 */
#ifndef FP8CONV_FORMAT_LOW_BIT_H
#define FP8CONV_FORMAT_LOW_BIT_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/err.h"
#include "ckpt/checkpoint.h"
#include "num/dtype.h"

/* One way to store low-bit weights. */
struct packing {
	enum dtype dtype;	   /* of the elements */
	enum dtype container;	   /* of the tensor that packs them, low bits first */
	int n_dims;		   /* of that tensor; its last dimensions are packed elements */
	const char *packed;	   /* end of its name */
	const char *weight;	   /* end of the logical name, in its place */
	const char *scale;	   /* the same of the tensor of scales */
	enum dtype scale_types[2]; /* either of them */
	const char *global;	   /* the same of the tensor's own scale; NULL: none */
	bool global_divides;	   /* scale / global, else scale * global */
	size_t group;		   /* elements of a row that share a scale */
	bool transposed; /* in high precision the model has the last two dimensions swapped */
};

/* A weight: its tensor is logical; begin and end are the packed bytes'. */
struct low_bit_weight {
	struct st_tensor tensor;
	struct tensor_ref ref; /* the tensor above, and the shard of `packed` */
	const struct packing *packing;
	const struct tensor_ref *packed, *scale;
	const struct tensor_ref *global; /* NULL: none */
	const struct tensor_ref *shape;	 /* "X.weight_shape", which repeats it; NULL: none */
};

/* All low-bit weights of a checkpoint.  A zeroed struct has none. */
struct low_bit {
	const struct checkpoint *checkpoint;
	size_t n;
	struct low_bit_weight *list; /* in the order of checkpoint.tensors */
	size_t *places; /* by tensor of the checkpoint; low_bit.c knows what they mean */
	struct arena texts;
};

/* Finds the weights from headers.  ERR_INPUT, naming a tensor, for the first packed tensor without
 * a scale and for scales and shapes that do not fit; the list then has the other weights.  The
 * caller releases it in both cases; checkpoint must outlive it. */
int low_bit_find(struct low_bit *low_bit, const struct checkpoint *checkpoint, struct err *err);

/* Returns the index of a tensor in checkpoint.tensors. */
size_t low_bit_index(const struct checkpoint *checkpoint, const struct tensor_ref *ref);

/* Returns the weight that tensor i of checkpoint.tensors packs or describes, or NULL. */
const struct low_bit_weight *low_bit_of(const struct low_bit *low_bit, size_t i);

/* Does tensor i of checkpoint.tensors describe a weight, as a scale does? */
bool low_bit_is_part(const struct low_bit *low_bit, size_t i);

/* Is tensor i left out where the weights are decoded: a part, or the scale of a KV cache? */
bool low_bit_is_dropped(const struct low_bit *low_bit, size_t i);

/* Returns the type of all weights in lower case ("mxfp4"), "mixed" for several types, NULL without
 * weights. */
const char *low_bit_kind(const struct low_bit *low_bit);

void low_bit_release(struct low_bit *low_bit);

/* A checkpoint whose low-bit weights are tensors as the model has them, without their parts. */
struct low_bit_view {
	struct checkpoint checkpoint; /* all but the lists of tensors is the other checkpoint's */
	struct low_bit low_bit;	      /* with the dimensions of the model */
};

/* Makes the view.  *unread becomes the error of low_bit_find(), or ERR_NONE: the view has those
 * tensors as they are, which matters where the model needs them.  ERR_INPUT for a weight that is
 * there twice.  The caller releases the view in both cases; checkpoint must outlive it. */
int low_bit_view_make(struct low_bit_view *view, const struct checkpoint *checkpoint,
		      struct err *unread, struct err *err);
void low_bit_view_release(struct low_bit_view *view);

/* Returns the weight of a tensor of a view, or NULL. */
const struct low_bit_weight *low_bit_of_model(const struct tensor_ref *ref);

/* Returns the elements that an element of the container packs. */
static inline uint64_t packing_ratio(const struct packing *packing)
{
	return dtype_bits(packing->container) / dtype_bits(packing->dtype);
}

#endif
