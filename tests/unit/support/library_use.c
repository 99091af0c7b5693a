/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/library_use.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/io.h"

struct fp8conv_tensor tensor(void *data, int dtype, size_t rows, size_t columns)
{
	return (struct fp8conv_tensor){ .size = sizeof(struct fp8conv_tensor),
					.data = data,
					.dtype = dtype,
					.rows = rows,
					.columns = columns };
}

struct fp8conv_tensor input_tensor(const struct input *in)
{
	return tensor(in->data,
		      in->dtype == DT_F32    ? FP8CONV_F32
		      : in->dtype == DT_BF16 ? FP8CONV_BF16
					     : FP8CONV_F16,
		      in->rows, in->cols);
}

struct fp8conv_context *open_context(const char *backend, int threads)
{
	struct fp8conv_options options = { sizeof options, threads, backend };
	struct fp8conv_context *context = NULL;
	struct fp8conv_error error;

	if (fp8conv_context_create(&options, &context, &error))
		fail_msg("%s", error.message);
	return context;
}

const struct fp8conv_recipe *recipe_of(struct fp8conv_context *context, const char *name,
				       const char *options)
{
	const struct fp8conv_recipe *recipe = NULL;
	struct fp8conv_error error;

	if (fp8conv_recipe_get(context, name, options, &recipe, &error))
		fail_msg("%s", error.message);
	return recipe;
}

void both_init(struct both *b, const struct fp8conv_recipe *recipe, int role, size_t rows,
	       size_t columns, int layout)
{
	for (int i = 0; i < 2; i++) {
		struct fp8conv_copy copy = { sizeof copy, role, i, layout };
		struct fp8conv_shape s = { .size = sizeof s };
		size_t n;

		assert_int_equal(fp8conv_scale_shape(recipe, &copy, rows, columns, &s, NULL), 0);
		n = s.scale_rows * s.scale_columns * (s.scale_dtype == FP8CONV_E8M0 ? 1 : 4);
		b->codes[i] = tensor(malloc(rows * columns), s.codes_dtype, s.codes_rows,
				     s.codes_columns);
		b->codes[i].bytes = rows * columns;
		b->scales[i] = tensor(malloc(n + 1), s.scale_dtype, s.scale_rows, s.scale_columns);
		b->scales[i].bytes = n;
		memset(b->scales[i].data, 0xA5, n + 1);
	}
	b->q = (struct fp8conv_quantized){ .size = sizeof b->q,
					   .rowwise = &b->codes[0],
					   .rowwise_scale_inv = &b->scales[0],
					   .columnwise = &b->codes[1],
					   .columnwise_scale_inv = &b->scales[1],
					   .layout = layout };
}

void both_release(struct both *b)
{
	for (int i = 0; i < 2; i++) {
		free(b->codes[i].data);
		free(b->scales[i].data);
	}
}

void disk_open(struct on_disk *disk, const char *path)
{
	struct err err = { 0 };

	if (checkpoint_open(&disk->checkpoint, &io_system, path, 1, &err))
		fail_msg("%s", err.message);
	source_init(&disk->source, &io_system, &disk->checkpoint, NULL, -1);
}

void disk_close(struct on_disk *disk)
{
	source_release(&disk->source);
	checkpoint_release(&disk->checkpoint);
}

void *disk_read(struct on_disk *disk, const struct tensor_ref *ref)
{
	size_t n = st_tensor_size(ref->tensor);
	void *data = malloc(n + 1);
	struct err err = { 0 };

	if (source_read_bytes(&disk->source, ref, 0, n, data, &err))
		fail_msg("%s", err.message);
	return data;
}

void held_open(struct held *held, const char *path)
{
	size_t n;

	disk_open(&held->disk, path);
	n = held->disk.checkpoint.n_tensors;
	held->items = calloc(n, sizeof *held->items);
	held->data = calloc(n, sizeof *held->data);
	for (size_t i = 0; i < n; i++) {
		const struct tensor_ref *ref = &held->disk.checkpoint.by_name[n - 1 - i];
		const struct st_tensor *tensor = ref->tensor;

		held->data[i] = disk_read(&held->disk, ref);
		held->items[i] = (struct fp8conv_item){
			sizeof held->items[i],	tensor->name,  dtype_name(tensor->dtype),
			(size_t)tensor->n_dims, tensor->shape, NULL
		};
	}
	held->model = (struct fp8conv_model){ sizeof held->model, held->disk.checkpoint.config.data,
					      n, held->items };
}

void held_close(struct held *held)
{
	for (size_t i = 0; i < held->model.n_tensors; i++)
		free(held->data[i]);
	free(held->data);
	free(held->items);
	disk_close(&held->disk);
}

size_t item_size(const struct fp8conv_item *item)
{
	enum dtype dtype;
	size_t n;

	assert_true(dtype_from_name(&dtype, item->dtype, strlen(item->dtype)));
	n = dtype_bits(dtype) / 8;
	for (size_t d = 0; d < item->n_dims; d++)
		n *= item->shape[d];
	return n;
}
