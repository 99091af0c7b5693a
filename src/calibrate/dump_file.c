/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/dump_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define INPUT	  ".input"
#define EXTENSION ".safetensors"

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), n_end = strlen(end);

	return n > n_end && !strcmp(text + n - n_end, end);
}

static bool is_dump(const void *context, const char *name)
{
	(void)context;
	return *name != '.' && ends_in(name, EXTENSION);
}

int dumps_list(const struct io *io, const char *directory, struct listing *paths, struct err *err)
{
	const struct directory dumps = { io, AT_FDCWD, directory, directory };

	if (listing_names(paths, &dumps, is_dump, NULL, err))
		return -1;
	for (size_t i = 0; i < paths->n; i++) {
		char *name = paths->items[i];

		paths->items[i] = xasprintf("%s/%s", directory, name);
		free(name);
	}
	if (!paths->n)
		return err_set(err, ERR_INPUT,
			       "'%s' contains no dumps (files that end in " EXTENSION
			       ", one per pass)",
			       directory);
	return 0;
}

static int check_input(const struct st_tensor *tensor, const char *path, struct err *err)
{
	struct buf shape = { 0 };

	if (!ends_in(tensor->name, INPUT))
		return err_set(err, ERR_INPUT, "tensor '%s' in '%s' is not named MODULE" INPUT,
			       tensor->name, path);
	if (tensor->n_dims == 2 && dtype_is_float(tensor->dtype))
		return 0;
	st_shape_format(&shape, tensor->shape, tensor->n_dims);
	err_set(err, ERR_INPUT,
		"tensor '%s' in '%s' is %s %s, not [tokens, features] of F32, BF16 or F16",
		tensor->name, path, dtype_name(tensor->dtype), shape.data);
	buf_release(&shape);
	return -1;
}

int dump_open(struct dump *dump, const struct io *io, const char *path, struct err *err)
{
	*dump = (struct dump){ 0 };
	if (checkpoint_open(&dump->checkpoint, io, path, 1, err))
		return -1;
	source_init(&dump->source, io, &dump->checkpoint, NULL, -1);
	for (size_t i = 0; i < dump->checkpoint.n_tensors; i++) {
		const struct st_tensor *tensor = dump->checkpoint.tensors[i].tensor;

		if (check_input(tensor, path, err)) {
			dump_release(dump);
			return -1;
		}
		dump->n_tokens =
			tensor->shape[0] > dump->n_tokens ? tensor->shape[0] : dump->n_tokens;
	}
	if (dump->n_tokens)
		return 0;
	dump_release(dump);
	return err_set(err, ERR_INPUT, "'%s' contains no tokens", path);
}

int dump_close(struct dump *dump, struct err *err)
{
	return source_close(&dump->source, err);
}

void dump_release(struct dump *dump)
{
	source_release(&dump->source);
	checkpoint_release(&dump->checkpoint);
	*dump = (struct dump){ 0 };
}

char *dump_module(const struct tensor_ref *input)
{
	return xstrndup(input->tensor->name, strlen(input->tensor->name) - strlen(INPUT));
}

const struct tensor_ref *dump_find(const struct dump *dump, const char *module)
{
	char *name = xasprintf("%s" INPUT, module);
	const struct tensor_ref *ref = checkpoint_find(&dump->checkpoint, name);

	free(name);
	return ref;
}
