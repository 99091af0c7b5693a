/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/memory_checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void memory_add_shard(struct checkpoint *checkpoint)
{
	ARRAY_GROW(checkpoint->shards, checkpoint->n_shards);
	checkpoint->shards[checkpoint->n_shards] = (struct shard){
		.name = xasprintf("model-%zu.safetensors", checkpoint->n_shards + 1),
		.file = { .path = xstrdup("model.safetensors") },
	};
	checkpoint->n_shards++;
}

static void memory_add_tensor(struct st_file *file, const char *line)
{
	struct st_tensor *tensor;
	char name[512], type[16];
	int used;

	if (sscanf(line, "%511s %15s%n", name, type, &used) != 2)
		abort();
	ARRAY_GROW(file->tensors, file->n_tensors);
	tensor = &file->tensors[file->n_tensors];
	*tensor = (struct st_tensor){
		.name = xstrdup(name),
		.shape = xcalloc(8, sizeof *tensor->shape),
		.begin = file->n_tensors ? file->tensors[file->n_tensors - 1].end : 0,
	};
	if (!dtype_from_name(&tensor->dtype, type, strlen(type)))
		abort();
	tensor->end = dtype_bits(tensor->dtype) / 8;
	for (const char *at = line + used; *at == ' ';) {
		char *end;

		tensor->shape[tensor->n_dims] = strtoull(at, &end, 10);
		tensor->end *= tensor->shape[tensor->n_dims++];
		at = end;
	}
	tensor->end += tensor->begin;
	file->n_tensors++;
}

static int memory_compare(const void *a, const void *b)
{
	const struct tensor_ref *x = a, *y = b;

	return strcmp(x->tensor->name, y->tensor->name);
}

static void memory_list_tensors(struct checkpoint *checkpoint)
{
	for (size_t s = 0; s < checkpoint->n_shards; s++) {
		const struct st_file *file = &checkpoint->shards[s].file;

		for (size_t i = 0; i < file->n_tensors; i++) {
			ARRAY_GROW(checkpoint->tensors, checkpoint->n_tensors);
			checkpoint->tensors[checkpoint->n_tensors++] =
				(struct tensor_ref){ &file->tensors[i], s };
		}
	}
	checkpoint->by_name = xcalloc(checkpoint->n_tensors, sizeof *checkpoint->by_name);
	if (!checkpoint->n_tensors)
		return;
	memcpy(checkpoint->by_name, checkpoint->tensors,
	       checkpoint->n_tensors * sizeof *checkpoint->by_name);
	qsort(checkpoint->by_name, checkpoint->n_tensors, sizeof *checkpoint->by_name,
	      memory_compare);
}

void memory_checkpoint_init(struct checkpoint *checkpoint, const char *config, const char *tensors)
{
	*checkpoint = (struct checkpoint){ .path = xstrdup("memory") };
	if (config)
		buf_puts(&checkpoint->config, config);
	memory_add_shard(checkpoint);
	while (*tensors) {
		size_t n = strcspn(tensors, "\n");
		char *line = xstrndup(tensors, n);

		if (!strcmp(line, "/"))
			memory_add_shard(checkpoint);
		else
			memory_add_tensor(&checkpoint->shards[checkpoint->n_shards - 1].file, line);
		free(line);
		tensors += n + (tensors[n] != '\0');
	}
	memory_list_tensors(checkpoint);
}

void memory_checkpoint_release(struct checkpoint *checkpoint)
{
	for (size_t s = 0; s < checkpoint->n_shards; s++) {
		struct st_file *file = &checkpoint->shards[s].file;

		for (size_t i = 0; i < file->n_tensors; i++) {
			free(file->tensors[i].name);
			free(file->tensors[i].shape);
		}
		free(file->tensors);
		free(file->path);
		free(checkpoint->shards[s].name);
	}
	free(checkpoint->shards);
	free(checkpoint->tensors);
	free(checkpoint->by_name);
	free(checkpoint->path);
	buf_release(&checkpoint->config);
}
