/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of a file to write, byte for byte that of the reference serializer (safetensors crate
 * 24b0b28, tensor.rs, prepare()): by type in the order of enum dtype, then by name bytewise.
 */
#include "ckpt/safetensors.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"

COMPARISON(compare_tensors, struct st_tensor *const,
	   ORDER((*x)->dtype, (*y)->dtype) ?: strcmp((*x)->name, (*y)->name))

COMPARISON(compare_metadata, struct st_metadata, strcmp(x->key, y->key))

static void add_metadata(struct buf *header, const struct st_metadata *metadata, size_t n)
{
	struct st_metadata *sorted = xreallocarray(NULL, n, sizeof *sorted);

	memcpy(sorted, metadata, n * sizeof *sorted);
	qsort(sorted, n, sizeof *sorted, compare_metadata);
	buf_puts(header, "\"__metadata__\":{");
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_putc(header, ',');
		config_add_json_string(header, sorted[i].key, strlen(sorted[i].key));
		buf_putc(header, ':');
		config_add_json_string(header, sorted[i].value, strlen(sorted[i].value));
	}
	buf_putc(header, '}');
	free(sorted);
}

static void add_tensor(struct buf *header, const struct st_tensor *tensor, bool comma)
{
	if (comma)
		buf_putc(header, ',');
	config_add_json_string(header, tensor->name, strlen(tensor->name));
	buf_puts(header, ":{\"dtype\":\"");
	buf_puts(header, dtype_name(tensor->dtype));
	buf_puts(header, "\",\"shape\":[");
	for (int i = 0; i < tensor->n_dims; i++) {
		if (i)
			buf_putc(header, ',');
		buf_u64(header, tensor->shape[i]);
	}
	buf_puts(header, "],\"data_offsets\":[");
	buf_u64(header, tensor->begin);
	buf_putc(header, ',');
	buf_u64(header, tensor->end);
	buf_puts(header, "]}");
}

/* Sorts type by type: codes and scales alternate among the tensors, but each type alone is mostly
 * in order. */
static const struct st_tensor **layout_order(const struct st_tensor *tensors, size_t n)
{
	const struct st_tensor **order = xreallocarray(NULL, n, sizeof *order);
	size_t at[N_DTYPES + 1] = { 0 };

	for (size_t i = 0; i < n; i++)
		at[tensors[i].dtype + 1]++;
	for (size_t type = 0; type < N_DTYPES; type++)
		at[type + 1] += at[type];
	for (size_t i = 0; i < n; i++)
		order[at[tensors[i].dtype]++] = &tensors[i];
	sort(order, n, sizeof *order, compare_tensors);
	return order;
}

static void add_begin(struct buf *header, const struct st_metadata *metadata, size_t n)
{
	buf_add(header, "\0\0\0\0\0\0\0\0", 8); /* the size, filled in at the end */
	buf_putc(header, '{');
	if (n)
		add_metadata(header, metadata, n);
}

void st_layout(struct st_tensor *tensors, size_t n, const struct st_metadata *metadata,
	       size_t n_metadata, uint64_t *header_size, uint64_t *data_size)
{
	const struct st_tensor **order = layout_order(tensors, n);
	struct buf text = { 0 };
	uint64_t at = 0;

	add_begin(&text, metadata, n_metadata);
	*header_size = text.len;
	for (size_t i = 0; i < n; i++) {
		struct st_tensor *tensor = &tensors[order[i] - tensors];

		tensor->begin = at;
		at += st_n_elements(tensor->shape, tensor->n_dims) * dtype_bits(tensor->dtype) / 8;
		tensor->end = at;
		text.len = 0;
		add_tensor(&text, tensor, i || n_metadata);
		*header_size += text.len;
	}
	*header_size = (*header_size + strlen("}") + 7) / 8 * 8;
	*data_size = at;
	buf_release(&text);
	free(order);
}

void st_header(const struct st_tensor *tensors, size_t n, const struct st_metadata *metadata,
	       size_t n_metadata, struct buf *header)
{
	const struct st_tensor **order = layout_order(tensors, n);
	uint64_t size;

	add_begin(header, metadata, n_metadata);
	for (size_t i = 0; i < n; i++)
		add_tensor(header, order[i], i || n_metadata);
	buf_putc(header, '}');
	while (header->len % 8)
		buf_putc(header, ' ');
	size = htole64(header->len - 8);
	memcpy(header->data, &size, sizeof size);
	free(order);
}
