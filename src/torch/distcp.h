/* SPDX-License-Identifier: Apache-2.0
 *
 * The .metadata of torch.distributed.checkpoint: which slices of tensors lie where in the .distcp
 * files beside it.
 *
 * Source: torch 2.15, distributed/checkpoint/metadata.py and filesystem.py.
 */
#ifndef FP8CONV_TORCH_DISTCP_H
#define FP8CONV_TORCH_DISTCP_H

#include "torch/archive.h"

struct distcp_slice {
	const char *name; /* of the tensor, as the model's dict has it */
	enum dtype dtype;
	int n_dims;
	const uint64_t *shape;		 /* of the tensor */
	const uint64_t *offsets, *sizes; /* of the slice */
	const char *file;		 /* its base name */
	uint64_t begin, length;		 /* of the archive of the slice in the file */
};

struct distcp {
	size_t n;
	struct distcp_slice *slices; /* by file */
	struct arena texts;
};

/* Reads the pickle.  Where the saved dict has a model under "model" and so on (archive_is_model()),
 * takes the tensors of that one; else all but those of optimizers.  ERR_INPUT for what torch does
 * not write.  The caller calls distcp_release(), also on failure. */
int distcp_read(struct distcp *distcp, const struct pickle_text *text, struct err *err);
void distcp_release(struct distcp *distcp);

#endif
