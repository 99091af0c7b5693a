/* SPDX-License-Identifier: Apache-2.0
 *
 * What the executor and its loops share, which are compiled for each instruction set: the scratch
 * memory of scans in chunks, and of the choice of keys.
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_OPS_H
#define FP8CONV_KERNELS_CPU_FORWARD_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"
#include "backend/host_ops.h"
#include "kernels/cpu/forward/attention.h"

/* The scratch memory of choose_keys(), in floats: the packed keys, the scores of a block of queries
 * by one head and by all, and the ranks of blocks for a query. */
static inline size_t choose_keys_scratch_floats(const struct choose_keys_args *args)
{
	size_t n = choose_keys_n_keys(args);

	return attention_padded(n) * args->head_dim +
	       2 * ATTENTION_QUERIES * attention_score_stride(n) + n;
}

#define SCAN_CHUNK 64 /* tokens that a scan takes at once */
#define SCAN_PANEL 64 /* columns of a state that go through all tokens together */

/* Returns n_tokens rounded up to whole chunks. */
static inline size_t chunk_tokens(size_t n_tokens)
{
	return (n_tokens + SCAN_CHUNK - 1) / SCAN_CHUNK * SCAN_CHUNK;
}

/* Returns the scratch memory of a scan in chunks, in floats, for keys (or b) and their products of
 * all tokens, and for a panel of a state and of two matrices of tokens. */
static inline size_t chunk_scratch_floats(size_t n_tokens, size_t n_features)
{
	return chunk_tokens(n_tokens) * (n_features + SCAN_CHUNK) +
	       (n_features + 2 * SCAN_CHUNK) * SCAN_PANEL;
}

/* The same of Mamba-2's, with the steps and the decays of all tokens and heads. */
static inline size_t scan_scratch_floats(const struct scan_args *args)
{
	return chunk_scratch_floats(args->n_tokens, args->state_size) +
	       2 * args->n_tokens * args->n_heads;
}

/* The same of gated DeltaNet's, with the products of queries and keys; and with decayed queries and
 * keys, and what each chunk leaves of a state, where decays are of features. */
static inline size_t delta_scratch_floats(const struct delta_args *args)
{
	size_t n_padded = chunk_tokens(args->n_tokens),
	       n = chunk_scratch_floats(n_padded, args->key_dim);

	if (args->n_decays > 1)
		n += 2 * n_padded * args->key_dim + n_padded / SCAN_CHUNK * args->key_dim;
	return n + n_padded * SCAN_CHUNK;
}

/* The host_ops of each instruction set, with the executor's operations. */
extern const struct host_ops cpu_ops_any;
extern const struct host_ops cpu_ops_avx2;
extern const struct host_ops cpu_ops_avx512;

#endif
