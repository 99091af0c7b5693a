/* SPDX-License-Identifier: Apache-2.0
 *
 * Shards whose tensors lie elsewhere than one safetensors file has them: in slices of several
 * files, or in strided storages.  Such a shard has a table of tensors as if it had been written as
 * one file, and views that say where the bytes are.
 */
#ifndef FP8CONV_CKPT_GATHERED_H
#define FP8CONV_CKPT_GATHERED_H

#include "ckpt/checkpoint.h"
#include "view/view.h"

/* A slice of a tensor, or all of it.  The arrays have n_dims numbers and outlive the shard. */
struct slice_record {
	const char *name; /* of the tensor */
	enum dtype dtype; /* of whole bytes */
	int n_dims;
	const uint64_t *shape; /* of the tensor; NULL: as far as its slices reach */
	struct view_piece piece;
};

/* The views of a shard's tensors. */
struct gathered {
	size_t n;
	struct tensor_view *views; /* by tensor of the shard's file */
	struct view_piece *pieces;
	struct arena texts;
};

/* Adds a shard with the tensors of n records, which it sorts; piece.file is an index of
 * checkpoint->parts.  name: of the output.  texts, which it takes over, has the arrays.  ERR_INPUT
 * where the slices of a tensor do not make it whole. */
int gathered_add(struct checkpoint *checkpoint, const char *name, struct slice_record *records,
		 size_t n, struct arena *texts, struct err *err);

/* Reads bytes of the shard's data, all of one tensor, as view_read(). */
int gathered_read(const struct shard *shard, const struct view_range *range, view_pread_fn *pread,
		  void *context, struct err *err);

void gathered_free(struct gathered *gathered);

/* Adds a file that holds data of gathered shards.  *file is taken over; its tensors are not of the
 * checkpoint. */
void gathered_add_part(struct checkpoint *checkpoint, const struct st_file *file);

#endif
