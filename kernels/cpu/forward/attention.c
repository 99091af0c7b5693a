/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/forward/attention.h"

/* The scratch memory of attention, in floats: the packed keys and values of one head, the scores of
 * a block of queries, and their sums of values. */
struct attention_scratch {
	size_t keys, values, scores, attn_out;
};

static struct attention_scratch attention_scratch_of(const struct attention_args *args)
{
	size_t row_stride = attention_value_stride(args->value_dim);

	return (struct attention_scratch){
		.keys = attention_padded(args->n_tokens) * args->head_dim,
		.values = args->n_tokens * row_stride,
		.scores = ATTENTION_QUERIES * attention_score_stride(args->n_tokens),
		.attn_out = ATTENTION_QUERIES * row_stride
	};
}

uint64_t attention_scratch_size(const struct attention_args *args)
{
	struct attention_scratch scratch = attention_scratch_of(args);

	return (scratch.keys + scratch.values + scratch.scores + scratch.attn_out) * sizeof(float);
}

/* Runs all queries of the heads that share one head of keys and values. */
static void attend_group(const struct cpu_ops *ops, const struct attention_args *args,
			 struct attention *attention, size_t group)
{
	size_t q = args->n_heads * args->head_dim, k = args->n_kv_heads * args->head_dim;
	size_t v = args->n_kv_heads * args->value_dim, y = args->n_heads * args->value_dim;
	size_t n_heads = args->n_heads / args->n_kv_heads;

	ops->attention_pack(attention, args->k + group * args->head_dim, k,
			    args->v + group * args->value_dim, v);
	for (size_t head = group * n_heads; head < (group + 1) * n_heads; head++) {
		attention->softmax = (struct softmax){ args->scale, args->softcap,
						       args->sinks ? args->sinks + head : NULL };
		for (size_t first = 0; first < args->n_tokens; first += ATTENTION_QUERIES) {
			const struct query_block block = {
				.first = first,
				.n = args->n_tokens - first < ATTENTION_QUERIES
					     ? args->n_tokens - first
					     : ATTENTION_QUERIES,
				.q = { args->q + first * q + head * args->head_dim, q },
				.y = { args->y + first * y + head * args->value_dim, y },
			};

			ops->attend(attention, &block);
		}
	}
}

void attention_heads(const struct cpu_ops *ops, const struct attention_args *args)
{
	struct attention_scratch scratch = attention_scratch_of(args);
	float *keys = args->scratch;
	struct attention attention = { .n_tokens = args->n_tokens,
				       .head_dim = args->head_dim,
				       .value_dim = args->value_dim,
				       .window = args->window,
				       .keys = keys,
				       .values = keys + scratch.keys,
				       .scores = keys + scratch.keys + scratch.values,
				       .attn_out = keys + scratch.keys + scratch.values +
						   scratch.scores };

	for (size_t group = 0; group < args->n_kv_heads; group++)
		attend_group(ops, args, &attention, group);
}
