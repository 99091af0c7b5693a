/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of the caller as files of an I/O table: PLAN_PATH is a directory with config.json and
 * model.safetensors, whose bytes are read where the caller has them.  An anonymous file there is
 * the output.  Other paths are the system's.
 */
#ifndef FP8CONV_LIB_PLAN_FILES_H
#define FP8CONV_LIB_PLAN_FILES_H

#include <fp8conv.h>

#include "base/mem.h"
#include "base/io.h"
#include "ckpt/safetensors.h"

#define PLAN_PATH "memory:"

#define COLUMN_ALIGN 4 /* elements of a column of scales; DeepGEMM: 16 bytes, for TMA */

/* Bytes [begin, end) of a file, and where they are. */
struct memory_range {
	uint64_t begin, end;
	unsigned char *data; /* NULL: the caller did not give them */
};

struct memory_file {
	struct buf head; /* before the ranges, of an input */
	uint64_t size;
	size_t n;
	struct memory_range *ranges; /* by begin, none empty */
	size_t *range_of;	     /* by tensor: of its range; SIZE_MAX: it is empty */
};

struct plan_files {
	struct io io; /* first, because its functions get the address of this one */
	bool has_config;
	struct memory_file config, model, output;
	uint64_t *sizes; /* of the tensors of the model, in bytes */
	struct arena texts;
};

/* Makes the files of a model.  ERR_USAGE for a struct of another size, a NULL or an unknown dtype;
 * ERR_INPUT for a shape beyond what a file can have. */
int plan_files_init(struct plan_files *files, const struct fp8conv_model *model, struct err *err);

/* Sets the data of the tensor of a conversion.  ERR_USAGE for data that are NULL, have another size
 * or are there already. */
int plan_files_give(struct plan_files *files, const struct fp8conv_conversion *conversion,
		    const char *name, struct err *err);

/* Forgets the data of all tensors of the model. */
void plan_files_forget(struct plan_files *files);
void plan_files_release(struct plan_files *files);

/* Sets the ranges of a file to those of n tensors with begin and end, which follow `start` bytes.
 * No data is known. */
void memory_file_lay(struct memory_file *file, const struct st_tensor *tensors, size_t n,
		     uint64_t start);

/* Sets the data of tensor i. */
void memory_file_set(struct memory_file *file, size_t i, const void *data);

/* Returns the data of tensor i; NULL: not known. */
void *memory_file_get(const struct memory_file *file, size_t i);

/* Moves matrices of F32, in the last two dimensions of a tensor, from rows to columns, each padded
 * with zeros to a multiple of 4 elements.  There must be room for it. */
void memory_by_columns(float *values, const struct st_tensor *tensor);

/* Returns the bytes of a tensor after that. */
size_t memory_by_columns_size(const struct st_tensor *tensor);

#endif
