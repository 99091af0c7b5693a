/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of two checkpoints in chunks, and the SHA-256 of a checkpoint's tensors, which does
 * not depend on how files hold them.
 *
 * The digest is the SHA-256 of, for each tensor in the order of the names, bytewise: the name, a
 * NUL, the type, a NUL, the shape as "[2, 3]", a NUL, and the SHA-256 (32 bytes) of each chunk.
 */
#ifndef FP8CONV_DELTA_TENSORS_H
#define FP8CONV_DELTA_TENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "ckpt/checkpoint.h"
#include "ckpt/checksum.h"

#define NO_TENSOR SIZE_MAX

struct chunk_hash {
	unsigned char bytes[32];
};

/* One of the checkpoints. */
struct delta_tensors {
	const struct tensor_ref *list; /* in the order of its files; the caller's */
	size_t n;
	size_t *by_name;	   /* (n) places in the list */
	size_t *first;		   /* (n + 1) number of each tensor's first chunk */
	struct chunk_hash *hashes; /* by chunk */
};

/* A chunk of one checkpoint, or the same chunk of both. */
struct delta_item {
	size_t tensors[2]; /* NO_TENSOR: not of this side */
	uint32_t chunk;
};

/* Both: 0 the base, 1 the result. */
struct delta_pairs {
	struct delta_tensors sides[2];
	size_t *shard_first; /* by shard of the result, and one more: its first item */
	size_t n_items;
	struct delta_item *items; /* the result's in the order of its files, then what only the
				     base has */
	uint64_t bytes;		  /* of all chunks of both */
};

/* Pairs tensors that have the same name and number of bytes.  Both lists stay the caller's; the
 * second one is of n_shards files. */
void delta_pairs_make(struct delta_pairs *pairs, const struct tensor_ref *base, size_t n_base,
		      const struct tensor_ref *result, size_t n_result, size_t n_shards);
void delta_pairs_release(struct delta_pairs *pairs);

/* Returns the bytes of a chunk of a side. */
size_t delta_chunk_bytes(const struct delta_tensors *side, size_t tensor, uint32_t chunk);

/* Returns where the hash of an item's chunk goes. */
struct chunk_hash *delta_hash(const struct delta_pairs *pairs, const struct delta_item *item,
			      int side);

void chunk_hash_make(struct chunk_hash *hash, const void *data, size_t n);

/* Computes the digest, when all hashes are there. */
void delta_digest(const struct delta_tensors *side, char hex[SHA256_HEX]);

#endif
