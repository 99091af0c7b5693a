/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the shared library that tests begin with; they fail the test.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_LIBRARY_USE_H
#define FP8CONV_TESTS_UNIT_SUPPORT_LIBRARY_USE_H

#include <fp8conv.h>

#include "ckpt/checkpoint.h"
#include "source/source.h"
#include "tests/unit/support/golden.h"

struct fp8conv_tensor tensor(void *data, int dtype, size_t rows, size_t columns);
struct fp8conv_tensor input_tensor(const struct input *in);

/* The caller destroys it. */
struct fp8conv_context *open_context(const char *backend, int threads);
const struct fp8conv_recipe *recipe_of(struct fp8conv_context *context, const char *name,
				       const char *options);

/* Both copies of a matrix, in memory of this test. */
struct both {
	struct fp8conv_tensor codes[2], scales[2];
	struct fp8conv_quantized q;
};

/* Allocates both copies, of the shapes that the library says, with bytes that are no zeros. */
void both_init(struct both *b, const struct fp8conv_recipe *recipe, int role, size_t rows,
	       size_t columns, int layout);
void both_release(struct both *b);

/* A checkpoint on the disk, with the data of its tensors. */
struct on_disk {
	struct checkpoint checkpoint;
	struct source source;
};

void disk_open(struct on_disk *disk, const char *path);
void disk_close(struct on_disk *disk);

/* Returns the bytes of a tensor; the caller frees them. */
void *disk_read(struct on_disk *disk, const struct tensor_ref *ref);

/* A model of the caller: a checkpoint with its tensors in memory, in the reverse order of their
 * names.  The items have no data. */
struct held {
	struct on_disk disk;
	struct fp8conv_model model;
	struct fp8conv_item *items;
	void **data;
};

void held_open(struct held *held, const char *path);
void held_close(struct held *held);

/* Returns the bytes of a tensor. */
size_t item_size(const struct fp8conv_item *item);

#endif
