/* SPDX-License-Identifier: Apache-2.0 */
/* As in ckpt/checksum.c. */
#define OPENSSL_API_COMPAT 0x10100000L

#include "delta/tensors.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "delta/chunk.h"

static const char *name_of(const struct delta_tensors *side, size_t i)
{
	return side->list[i].tensor->name;
}

static int compare_names(const void *a, const void *b, const void *context)
{
	const size_t *x = a, *y = b;

	return strcmp(name_of(context, *x), name_of(context, *y));
}

static size_t n_chunks(const struct st_tensor *tensor)
{
	return (size_t)((st_tensor_size(tensor) + CHUNK_SIZE - 1) / CHUNK_SIZE);
}

static void side_init(struct delta_tensors *side, const struct tensor_ref *list, size_t n)
{
	*side = (struct delta_tensors){ .list = list, .n = n };
	side->by_name = xreallocarray(NULL, n + 1, sizeof *side->by_name);
	side->first = xcalloc(n + 1, sizeof *side->first);
	for (size_t i = 0; i < n; i++) {
		side->by_name[i] = i;
		side->first[i + 1] = side->first[i] + n_chunks(list[i].tensor);
	}
	sort_in(side->by_name, n, sizeof *side->by_name, compare_names, side);
	side->hashes = xcalloc(side->first[n] + 1, sizeof *side->hashes);
}

/* Sets the base tensor of each tensor of the result, and which of the base's have one. */
static void find_bases(const struct delta_pairs *pairs, size_t *bases, bool *used)
{
	const struct delta_tensors *base = &pairs->sides[0], *result = &pairs->sides[1];

	for (size_t i = 0, j = 0; i < result->n; i++) {
		size_t is = result->by_name[i];
		int order = -1;

		while (j < base->n &&
		       (order = strcmp(name_of(base, base->by_name[j]), name_of(result, is))) < 0)
			j++;
		bases[is] = NO_TENSOR;
		if (j == base->n || order ||
		    st_tensor_size(base->list[base->by_name[j]].tensor) !=
			    st_tensor_size(result->list[is].tensor))
			continue;
		bases[is] = base->by_name[j];
		used[bases[is]] = true;
	}
}

static void add_items(struct delta_pairs *pairs, size_t base, size_t result)
{
	const struct delta_tensors *side = &pairs->sides[result != NO_TENSOR];
	size_t i = result != NO_TENSOR ? result : base;

	for (size_t chunk = 0; chunk < side->first[i + 1] - side->first[i]; chunk++)
		pairs->items[pairs->n_items++] =
			(struct delta_item){ { base, result }, (uint32_t)chunk };
	for (int s = 0; s < 2; s++)
		if ((s ? result : base) != NO_TENSOR)
			pairs->bytes += st_tensor_size(side->list[i].tensor);
}

void delta_pairs_make(struct delta_pairs *pairs, const struct tensor_ref *base, size_t n_base,
		      const struct tensor_ref *result, size_t n_result, size_t n_shards)
{
	size_t *bases = xcalloc(n_result + 1, sizeof *bases), shard = 0;
	bool *used = xcalloc(n_base + 1, sizeof *used);

	*pairs = (struct delta_pairs){ 0 };
	side_init(&pairs->sides[0], base, n_base);
	side_init(&pairs->sides[1], result, n_result);
	find_bases(pairs, bases, used);
	pairs->shard_first = xcalloc(n_shards + 1, sizeof *pairs->shard_first);
	pairs->items = xcalloc(pairs->sides[0].first[n_base] + pairs->sides[1].first[n_result] + 1,
			       sizeof *pairs->items);
	for (size_t i = 0; i < n_result; i++) {
		while (shard < result[i].shard)
			pairs->shard_first[++shard] = pairs->n_items;
		add_items(pairs, bases[i], i);
	}
	while (shard < n_shards)
		pairs->shard_first[++shard] = pairs->n_items;
	for (size_t i = 0; i < n_base; i++)
		if (!used[i])
			add_items(pairs, i, NO_TENSOR);
	free(bases);
	free(used);
}

void delta_pairs_release(struct delta_pairs *pairs)
{
	for (int s = 0; s < 2; s++) {
		free(pairs->sides[s].by_name);
		free(pairs->sides[s].first);
		free(pairs->sides[s].hashes);
	}
	free(pairs->shard_first);
	free(pairs->items);
	*pairs = (struct delta_pairs){ 0 };
}

size_t delta_chunk_bytes(const struct delta_tensors *side, size_t tensor, uint32_t chunk)
{
	uint64_t left = st_tensor_size(side->list[tensor].tensor) - (uint64_t)chunk * CHUNK_SIZE;

	return left < CHUNK_SIZE ? (size_t)left : CHUNK_SIZE;
}

struct chunk_hash *delta_hash(const struct delta_pairs *pairs, const struct delta_item *item,
			      int side)
{
	const struct delta_tensors *tensors = &pairs->sides[side];

	return &tensors->hashes[tensors->first[item->tensors[side]] + item->chunk];
}

void chunk_hash_make(struct chunk_hash *hash, const void *data, size_t n)
{
	SHA256(data, n, hash->bytes);
}

void delta_digest(const struct delta_tensors *side, char hex[SHA256_HEX])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	struct buf text = { 0 };
	SHA256_CTX context;

	SHA256_Init(&context);
	for (size_t i = 0; i < side->n; i++) {
		size_t at = side->by_name[i];
		const struct st_tensor *tensor = side->list[at].tensor;

		text.len = 0;
		buf_add(&text, tensor->name, strlen(tensor->name) + 1);
		buf_add(&text, dtype_name(tensor->dtype), strlen(dtype_name(tensor->dtype)) + 1);
		st_shape_format(&text, tensor->shape, tensor->n_dims);
		buf_putc(&text, '\0');
		SHA256_Update(&context, text.data, text.len);
		SHA256_Update(&context, side->hashes[side->first[at]].bytes,
			      (side->first[at + 1] - side->first[at]) * sizeof *side->hashes);
	}
	SHA256_Final(digest, &context);
	text_hex(hex, digest, sizeof digest);
	buf_release(&text);
}
