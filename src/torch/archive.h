/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a file of torch.save(): views of stored members of a zip archive.  Nothing is
 * loaded and nothing is called: the pickle says which member, offset, shape and strides a tensor
 * has.
 *
 * Source: torch 2.15, serialization.py and _utils.py (_rebuild_tensor_v2, _rebuild_tensor_v3).
 */
#ifndef FP8CONV_TORCH_ARCHIVE_H
#define FP8CONV_TORCH_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/progress.h"
#include "num/dtype.h"
#include "torch/pickle.h"

#define TORCH_MAX_DIMS 64

struct torch_tensor {
	const char *name;
	enum dtype dtype;
	int n_dims;
	const uint64_t *shape, *strides; /* strides in bytes */
	uint64_t at;			 /* byte of the file where the first element lies */
};

/* What a module saves beside its tensors, as an io.BytesIO in the pickle. */
struct archive_state {
	char *name;
	const unsigned char *bytes;
	size_t n;
};

struct archive {
	size_t n;
	struct torch_tensor *tensors; /* by name, bytewise */
	size_t n_states;
	struct archive_state *states;
	struct arena texts;
};

/* A stretch of a file that has an archive. */
struct archive_place {
	const struct file *file;
	uint64_t begin, size;
};

/* Reads the state dict in an archive: a dict of tensors, or a dict with such a dict under "model",
 * "state_dict", "model_state_dict" or "module".  Other values are passed over; None has no
 * tensors.  ERR_INPUT for archives, pickles and tensors that are not as torch writes them, and for
 * storages that are smaller than their tensors.  The caller calls archive_release(), also on
 * failure. */
int archive_read(struct archive *archive, const struct archive_place *place, struct err *err);

/* The same for an archive that has one tensor alone, and no name. */
int archive_read_tensor(struct archive *archive, const struct archive_place *place,
			const char *name, struct err *err);
void archive_release(struct archive *archive);

/* Reads all of an archive, and compares the CRC-32 of each member: what reads tensors reads parts
 * of members, in any order, and checks the pickle alone. */
int archive_check(const struct archive_place *place, const atomic_int *stop, struct err *err);

/* Is it the name of what a module saves beside its tensors: "layers.0.fc1._extra_state"? */
bool archive_is_state(const char *name);

/* The arguments of torch's call that makes a tensor. */
struct tensor_call {
	const struct pickle_value *storage, *dtype; /* dtype: NULL without one */
	uint64_t offset;
	uint64_t shape[TORCH_MAX_DIMS], strides[TORCH_MAX_DIMS]; /* elements */
	int n_dims;
};

/* false: it is no such call. */
bool archive_read_call(const struct pickle_value *value, struct tensor_call *call);

/* Does the reader know a global, of weights and of what modules save beside them? */
bool archive_knows(const char *global);

/* Is it the key of the model in a training's dict? */
bool archive_is_model(const char *key);

/* Finds the type of a global such as "torch bfloat16" or "torch BFloat16Storage". */
bool archive_dtype(const char *global, enum dtype *dtype);

/* Reads a tuple of integers from 0 on; n becomes their number.  false: it is no such tuple. */
bool archive_numbers(const struct pickle_value *tuple, uint64_t *numbers, int *n);

#endif
