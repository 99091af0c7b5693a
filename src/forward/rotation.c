/* SPDX-License-Identifier: Apache-2.0
 *
 * The rotation of queries and keys, and whether it can take their statistics on the way.
 */
#include "forward/pass.h"

static bool has_norms(const struct layer *layer)
{
	return layer->vector[VECTOR_NORM_Q] || layer->vector[VECTOR_NORM_K];
}

static bool rotates_all(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	bool turns_back = pass->forward->model->arch->positions.turns_back;

	return ref->rope && ref->rope->n == ref->head_dim && !ref->latent && !turns_back &&
	       !ref->kv_source;
}

bool rotation_is_first(const struct pass *pass)
{
	const struct model *model = pass->forward->model;

	return rotates_all(pass) && !model->arch->gated_attention &&
	       !model->arch->positions.adjacent_pairs && model->multipliers.key == 1 &&
	       model->multipliers.query == 1 && !model->short_conv_width &&
	       model->arch->head_norms != HEADS_PLAIN_FIRST &&
	       (model->arch->head_norms == HEADS_AFTER_ROPE || !has_norms(pass->layer));
}

bool rotation_is_last(const struct pass *pass)
{
	const struct model *model = pass->forward->model;

	return rotates_all(pass) && !model->rotated_norm && pass->layer->ref->query_scale == 0 &&
	       !(model->arch->head_norms == HEADS_AFTER_ROPE && has_norms(pass->layer));
}

void rotation_put_angles(struct workspace *w, const struct rope *rope, size_t n_tokens)
{
	struct attention_arrays *a = &w->attention;
	const float *inverse = rope_inverse(rope, n_tokens);
	size_t n = rope->n / 2, size = n_tokens * n * sizeof(float);

	if (a->inverse == inverse && a->n_angles >= n_tokens)
		return;
	a->inverse = inverse;
	a->n_angles = n_tokens;
	for (size_t t = 0; t < n_tokens; t++)
		rope_angles(rope, inverse, t, w->host.cosines + t * n, w->host.sines + t * n);
	w->ops->put(w->stream, a->cosines, w->host.cosines, size);
	w->ops->put(w->stream, a->sines, w->host.sines, size);
}

/* The rotation of heads whose head_dim values begin at x. */
static struct rope_args args_of(const struct pass *pass, struct rows_out x, size_t n_heads)
{
	const struct workspace *w = pass->workspace;
	size_t n = pass->layer->ref->rope->n, head_dim = x.stride;
	bool last = pass->forward->model->arch->positions.turns_back;

	return (struct rope_args){ .x = { x.data + (last ? head_dim - n : 0), n_heads * head_dim },
				   .n_tokens = pass->sequence->n_tokens,
				   .n_heads = n_heads,
				   .head_dim = head_dim,
				   .cosines = w->attention.cosines,
				   .sines = w->attention.sines,
				   .rope_dim = n,
				   .adjacent = last };
}

void rotation_run_on(const struct pass *pass, struct rows_out x, size_t n_heads,
		     struct value_stats *before, struct value_stats *after)
{
	struct rope_args args = args_of(pass, x, n_heads);

	args.before = before;
	args.after = after;
	pass->workspace->ops->rope(pass->workspace->stream, &args);
}

void rotation_back(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	struct rope_args args = args_of(
		pass, (struct rows_out){ w->attention.attn_out, ref->value_dim }, ref->n_heads);

	args.back = true;
	w->ops->rope(w->stream, &args);
}

void rotation_of_pools(const struct pass *pass, struct rows_out x, size_t n_pools, size_t pool_size)
{
	struct workspace *w = pass->workspace;
	size_t half = pass->layer->ref->rope->n / 2;
	struct rope_args args = args_of(pass, x, 1);
	struct copy_args copy = { .y = { w->pool.cosines, half },
				  .x = { args.cosines, pool_size * half },
				  .repeat = 1,
				  .n_rows = n_pools,
				  .n_cols = half };

	w->ops->copy(w->stream, &copy);
	copy.y.data = w->pool.sines;
	copy.x.data = args.sines;
	w->ops->copy(w->stream, &copy);
	args.n_tokens = n_pools;
	args.cosines = w->pool.cosines;
	args.sines = w->pool.sines;
	w->ops->rope(w->stream, &args);
}

size_t rotation_key_heads(const struct layer_ref *ref)
{
	return ref->kv_source ? 0 : ref->n_kv_heads;
}

void rotation_run(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct attention_arrays *a = &pass->workspace->attention;
	size_t first = ref->latent ? ref->latent->nope_dim : 0;
	struct value_stats *next = NULL;

	if (rotation_is_last(pass))
		next = pass->sequence->stats + pass->workspace->own->n_slots_used;
	rotation_run_on(pass, (struct rows_out){ a->q + first, ref->head_dim }, ref->n_heads,
			a->q_stats, next);
	if (!ref->latent)
		rotation_run_on(pass, (struct rows_out){ a->k, ref->head_dim },
				rotation_key_heads(ref), a->k_stats, next ? next + 1 : NULL);
}

void rotation_deinterleave(const struct pass *pass, struct rows_out x, size_t n_rows, size_t n)
{
	struct workspace *w = pass->workspace;
	struct copy_args args = { .y = { w->attention.attn_out, n },
				  .x = { x.data, x.stride },
				  .repeat = 1,
				  .n_rows = n_rows,
				  .n_cols = n };

	w->ops->copy(w->stream, &args);
	args.x = (struct rows_in){ args.y.data, n };
	args.y = x;
	args.pairs = true;
	w->ops->copy(w->stream, &args);
}
