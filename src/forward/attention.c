/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention of one sequence: q, k and v, their norms and rotations, the scores, the output matrix.
 */
#include "forward/pass.h"

/* y[r] = x[r / repeat], with n_cols values in each row. */
static void copy_rows(struct workspace *w, struct rows_out y, struct rows_in x, size_t repeat,
		      size_t n_rows, size_t n_cols)
{
	const struct copy_args args = {
		.y = y, .x = x, .repeat = repeat, .n_rows = n_rows, .n_cols = n_cols
	};

	w->ops->copy(w->stream, &args);
}

/* Splits the output of one fused matrix, where q, k and v are side by side. */
static void split_qkv(const struct pass *pass, size_t q, size_t k, size_t v)
{
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	size_t n = pass->sequence->n_tokens, stride = q + k + v;
	float *qkv = w->fused_out;

	copy_rows(w, (struct rows_out){ a->q, q }, (struct rows_in){ qkv, stride }, 1, n, q);
	copy_rows(w, (struct rows_out){ a->k, k }, (struct rows_in){ qkv + q, stride }, 1, n, k);
	copy_rows(w, (struct rows_out){ a->v, v }, (struct rows_in){ qkv + q + k, stride }, 1, n,
		  v);
}

/* Splits the output of q_proj of gated attention, where the query of a head is followed by its
 * gate, which stays where it is. */
static void split_queries(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	size_t n = ref->head_dim;

	copy_rows(w, (struct rows_out){ w->attention.q, n },
		  (struct rows_in){ w->fused_out, 2 * n }, 1,
		  pass->sequence->n_tokens * ref->n_heads, n);
}

/* Computes q, k and v, and the gates, by their matrices.  Those of k and v in a layer that uses
 * the keys and values of another one, which caches_take() puts in their place, are for observers
 * alone. */
static void project_apart(const struct pass *pass)
{
	static const enum linear_role roles[] = {
		LINEAR_Q,	   LINEAR_K,	     LINEAR_V,
		LINEAR_VALUE_GATE, LINEAR_HEAD_GATE, LINEAR_INDEX_Q_HIDDEN,
		LINEAR_INDEX_K,	   LINEAR_DISTANCES,
	};
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	bool gated = pass->forward->model->arch->gated_attention;
	float *const places[] = { gated ? w->fused_out : a->q,
				  a->k,
				  a->v,
				  w->fused_out,
				  a->head_gates,
				  indexer_queries(pass),
				  indexer_keys(pass),
				  a->distances };
	bool parallel = pass->forward->model->arch->parallel;
	const struct linear *linears[8];
	struct value_stats *stats[3];
	float *ys[8];
	struct products products = { .linears = linears,
				     .x = w->own->normed,
				     .m = pass->sequence->n_tokens,
				     .ys = ys,
				     .x_ends = !parallel && ref->mixer == MIXER_ATTENTION };
	size_t n_keys = ref->n_kv_heads * ref->head_dim;

	for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
		const struct linear *linear = &pass->layer->linear[roles[i]];

		if (!linear->weight.data)
			continue;
		linears[products.n] = linear;
		ys[products.n++] = places[i];
	}
	if (products.n == 3 && rotation_is_first(pass))
		products.y_stats = stats;
	pass_products(pass, &products);
	if (products.y_stats) {
		a->q_stats = stats[0];
		a->k_stats = stats[1];
		pass_amax(pass, a->v, products.m * linears[2]->ref->n, stats[2]);
	}
	if (ref->keys_are_values && !ref->kv_source)
		copy_rows(w, (struct rows_out){ a->v, n_keys }, (struct rows_in){ a->k, n_keys }, 1,
			  products.m, n_keys);
	if (gated)
		split_queries(pass);
}

static void project_qkv(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	const struct linear *fused = &pass->layer->linear[LINEAR_QKV];
	struct workspace *w = pass->workspace;

	w->attention.q_stats = w->attention.k_stats = NULL;
	if (!fused->weight.data) {
		project_apart(pass);
		return;
	}
	pass_linear(pass, fused, w->own->normed, pass->sequence->n_tokens, w->fused_out);
	split_qkv(pass, ref->n_heads * ref->head_dim, ref->n_kv_heads * ref->head_dim,
		  ref->n_kv_heads * ref->value_dim);
}

/* y (tokens, n_cols) = the norm of x, which latent attention has between two matrices. */
static void norm_latent(const struct pass *pass, enum vector_role role, const struct latent *latent,
			struct rows_in x, struct rows_out y, size_t n_cols)
{
	const struct rms_norm_args args = { .x = x,
					    .weight = pass->layer->vector[role],
					    .eps = latent->norm_eps,
					    .n_rows = pass->sequence->n_tokens,
					    .n_cols = n_cols,
					    .y = y };

	if (args.weight)
		pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
}

/* A matrix of latent attention that a layer may lack, and its output. */
struct projection {
	enum linear_role role;
	float *y;
};

#define MOST_PROJECTIONS 7

/* Computes the products of x with some matrices, of those that the layer has. */
static void project_present(const struct pass *pass, const struct projection *of, size_t n,
			    float *x)
{
	const struct linear *linears[MOST_PROJECTIONS];
	float *ys[MOST_PROJECTIONS];
	struct products products = {
		.linears = linears, .x = x, .m = pass->sequence->n_tokens, .ys = ys
	};

	for (size_t i = 0; i < n; i++) {
		const struct linear *linear = &pass->layer->linear[of[i].role];

		if (!linear->weight.data)
			continue;
		linears[products.n] = linear;
		ys[products.n++] = of[i].y;
	}
	pass_products(pass, &products);
}

/* Computes the queries of latent attention, through q_lora_rank values if the model has them. */
static void project_latent_q(const struct pass *pass)
{
	const struct linear *l = pass->layer->linear;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	const struct projection last[] = { { LINEAR_Q_B, a->q }, { LINEAR_INDEX_Q, w->index.q } };
	const struct latent *latent = pass->layer->ref->latent;
	size_t n = pass->sequence->n_tokens, rank = latent->q_lora_rank;

	if (!rank) {
		pass_linear(pass, &l[LINEAR_Q], w->own->normed, n, a->q);
		return;
	}
	pass_linear(pass, &l[LINEAR_Q_A], w->own->normed, n, a->lora);
	norm_latent(pass, VECTOR_NORM_Q_A, latent, (struct rows_in){ a->lora, rank },
		    (struct rows_out){ a->lora, rank }, rank);
	pass_scale(pass, a->lora, latent->q_scale, n, rank);
	project_present(pass, last, 2, a->lora);
}

/* Moves the elements of pairs half a length apart in the rotated values of each head of x, where
 * they are adjacent. */
static void deinterleave_heads(const struct pass *pass, float *x, size_t n_heads)
{
	const struct layer_ref *ref = pass->layer->ref;
	size_t first = ref->latent ? ref->latent->nope_dim : 0;

	rotation_deinterleave(pass, (struct rows_out){ x + first, ref->head_dim },
			      pass->sequence->n_tokens * n_heads, ref->rope->n);
}

/* Keys: the nope_dim values of each head, followed by the rope_dim values that all heads share.
 * Values: the rest of kv_expanded. */
static void join_kv(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	size_t nope_dim = ref->latent->nope_dim, rope_dim = ref->latent->rope_dim;
	size_t n_rows = pass->sequence->n_tokens * ref->n_heads;
	size_t stride = nope_dim + ref->value_dim;

	copy_rows(w, (struct rows_out){ a->k, ref->head_dim },
		  (struct rows_in){ a->kv_expanded, stride }, 1, n_rows, nope_dim);
	if (rope_dim)
		copy_rows(w, (struct rows_out){ a->k + nope_dim, ref->head_dim },
			  (struct rows_in){ a->k_rope, rope_dim }, ref->n_heads, n_rows, rope_dim);
	copy_rows(w, (struct rows_out){ a->v, ref->value_dim },
		  (struct rows_in){ a->kv_expanded + nope_dim, stride }, 1, n_rows, ref->value_dim);
}

/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): computes q of every head, and what
 * is cached, a latent vector and the values of k that are still to be rotated. */
static void project_latent(const struct pass *pass)
{
	const struct latent *latent = pass->layer->ref->latent;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	size_t n = pass->sequence->n_tokens, rank = latent->kv_lora_rank;
	size_t stride = rank + latent->rope_dim;
	const struct projection first[] = { { LINEAR_KV_A, a->lora },
					    { LINEAR_HEAD_GATE, a->head_gates },
					    { LINEAR_INDEX_K, indexer_keys(pass) },
					    { LINEAR_INDEX_GATE, w->pool.index_gates },
					    { LINEAR_INDEX_WEIGHTS, w->index.weights } };
	const struct copy_args rope = { .y = { a->k_rope, latent->rope_dim },
					.x = { a->lora + rank, stride },
					.repeat = 1,
					.n_rows = n,
					.n_cols = latent->rope_dim,
					.pairs = latent->interleaved };

	project_latent_q(pass);
	project_present(pass, first, 5, w->own->normed);
	norm_latent(pass, VECTOR_NORM_KV_A, latent, (struct rows_in){ a->lora, stride },
		    (struct rows_out){ a->kv_latent, rank }, rank);
	pass_scale(pass, a->kv_latent, latent->kv_scale, n, rank);
	norm_latent(pass, VECTOR_NORM_K_ROPE, latent, (struct rows_in){ a->lora + rank, stride },
		    (struct rows_out){ a->lora + rank, stride }, latent->rope_dim);
	if (latent->rope_dim)
		w->ops->copy(w->stream, &rope);
	if (latent->rope_dim && latent->interleaved)
		deinterleave_heads(pass, a->q, pass->layer->ref->n_heads);
}

/* Computes queries through fewer values, the head of keys, what pools are made of, and the
 * indexer's queries and weights. */
static void project_shared(const struct pass *pass)
{
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	const struct projection first[MOST_PROJECTIONS] = {
		{ LINEAR_Q_A, a->lora },
		{ LINEAR_K, a->k },
		{ LINEAR_POOL, w->pool.values },
		{ LINEAR_POOL_GATE, w->pool.gates },
		{ LINEAR_INDEX_K, w->pool.index_values },
		{ LINEAR_INDEX_GATE, w->pool.index_gates },
		{ LINEAR_INDEX_WEIGHTS, w->index.weights },
	};
	const struct projection last[] = { { LINEAR_Q_B, a->q }, { LINEAR_INDEX_Q, w->index.q } };
	const struct latent *latent = &pass->forward->model->latent;
	size_t rank = latent->q_lora_rank;

	a->q_stats = a->k_stats = NULL;
	project_present(pass, first, MOST_PROJECTIONS, w->own->normed);
	norm_latent(pass, VECTOR_NORM_Q_A, latent, (struct rows_in){ a->lora, rank },
		    (struct rows_out){ a->lora, rank }, rank);
	project_present(pass, last, 2, a->lora);
}

/* Norms each head of each token, or its heads together; does nothing if the layer has no such
 * norm. */
static void norm_heads(const struct pass *pass, enum vector_role role, float *x, size_t n_heads)
{
	const struct model *model = pass->forward->model;
	const struct layer_ref *ref = pass->layer->ref;
	const float *weight = pass->layer->vector[role];
	size_t together = model->arch->head_norms == HEADS_TOGETHER ? n_heads : 1;
	size_t n_cols = together * ref->head_dim;

	if (weight)
		pass_norm(pass, (struct rows_in){ x, n_cols }, weight,
			  (struct rows_out){ x, n_cols },
			  pass->sequence->n_tokens * n_heads / together, n_cols);
}

/* Norms each head of x, without weights. */
static void norm_plainly(const struct pass *pass, float *x, size_t n_heads)
{
	pass_norm_plain(pass, x, pass->sequence->n_tokens * n_heads, pass->layer->ref->head_dim);
}

static void norm_queries_and_keys(const struct pass *pass)
{
	struct attention_arrays *a = &pass->workspace->attention;

	if (pass->forward->model->arch->head_norms == HEADS_PLAIN_FIRST) {
		norm_plainly(pass, a->q, pass->layer->ref->n_heads);
		norm_plainly(pass, a->k, pass->layer->ref->n_kv_heads);
		return;
	}
	if (pass->forward->model->arch->head_norms == HEADS_PLAIN_QUERIES)
		norm_plainly(pass, a->q, pass->layer->ref->n_heads);
	norm_heads(pass, VECTOR_NORM_Q, a->q, pass->layer->ref->n_heads);
	norm_heads(pass, VECTOR_NORM_K, a->k, pass->layer->ref->n_kv_heads);
}

/* Makes an observation of an attention tensor (n_tokens, n_cols). */
static struct observation observation_of(const struct pass *pass, enum observed what, size_t slot,
					 const float *values, size_t n_cols)
{
	return (struct observation){ .what = what,
				     .layer = pass->layer->ref,
				     .worker = pass->workspace->number,
				     .stream = pass->workspace->stream,
				     .sequence = pass->sequence->index,
				     .values = values,
				     .n_rows = pass->sequence->n_tokens,
				     .n_cols = n_cols,
				     .slot = slot };
}

static void observe(const struct pass *pass, enum observed what, size_t slot, const float *values,
		    size_t n_cols)
{
	const struct observation observation = observation_of(pass, what, slot, values, n_cols);

	pass_observe(pass, &observation);
}

static void observe_qkv(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	const struct attention_arrays *a = &w->attention;
	void (*tell)(const struct pass *, const struct observation *) =
		rotation_is_last(pass) ? pass_observed : pass_observe;
	size_t slot = w->own->n_slots_used;
	const struct observation q =
		observation_of(pass, OBSERVED_Q, slot, a->q, ref->n_heads * ref->head_dim);
	const struct observation k =
		observation_of(pass, OBSERVED_K, slot + 1, a->k, ref->n_kv_heads * ref->head_dim);

	w->own->n_slots_used += 2;
	tell(pass, &q);
	tell(pass, &k);
	observe(pass, OBSERVED_V, w->own->n_slots_used++, a->v, ref->n_kv_heads * ref->value_dim);
}

/* Ends what project_latent() began: rotates, rounds as a cache in FP8 does, and computes k and v of
 * every head from the result. */
static void expand_latent(const struct pass *pass)
{
	const struct latent *latent = pass->layer->ref->latent;
	const struct layer *layer = pass->layer;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	size_t n = pass->sequence->n_tokens, slot = w->own->n_slots_used;

	if (layer->ref->rope) {
		rotation_put_angles(w, layer->ref->rope, n);
		rotation_run_on(pass, (struct rows_out){ a->k_rope, latent->rope_dim }, 1, NULL,
				NULL);
	}
	w->own->n_slots_used += 2;
	observe(pass, OBSERVED_CACHED, slot, a->kv_latent, latent->kv_lora_rank);
	if (latent->rope_dim)
		observe(pass, OBSERVED_CACHED, slot, a->k_rope, latent->rope_dim);
	observe(pass, OBSERVED_LATENT, slot + 1, a->kv_latent, latent->kv_lora_rank);
	if (layer->latent_scale)
		caches_round_latent(pass);
	pass_linear(pass, &layer->linear[LINEAR_KV_B], a->kv_latent, n, a->kv_expanded);
	join_kv(pass);
}

static void attend(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	const struct attention_arrays *a = &w->attention;
	size_t n = pass->sequence->n_tokens, chunk = ref->chunk, n_pools = pools_count(pass);
	const float *k = n_pools ? w->pool.keys : a->k, *v = n_pools ? w->pool.key_values : a->v;
	struct attention_args args = { .n_heads = ref->n_heads,
				       .n_kv_heads = ref->n_kv_heads,
				       .head_dim = ref->head_dim,
				       .value_dim = ref->value_dim,
				       .window = n_pools ? 0 : ref->window,
				       .n_before = n_pools,
				       .f16 = pass->forward->input == DT_BF16,
				       .scale = ref->attention_scale,
				       .softcap = model->attention_softcap,
				       .sinks = pass->layer->vector[VECTOR_SINKS],
				       .sets = n_pools ? w->index.sets : indexer_sets(pass),
				       .n_sets = n_pools ? 1 : model->indexer.n_sets,
				       .scratch = pass->workspace->scratch };

	for (size_t t = 0; t < n; t += args.n_tokens) {
		distances_set(pass, t, &args);
		args.n_tokens = chunk && n - t > chunk ? chunk : n - t;
		args.q = a->q + t * ref->n_heads * ref->head_dim;
		args.k = k + t * ref->n_kv_heads * ref->head_dim;
		args.v = v + t * ref->n_kv_heads * ref->value_dim;
		args.y = a->attn_out + t * ref->n_heads * ref->value_dim;
		w->ops->attention(w->stream, &args);
	}
}

void attention_run(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	size_t n = pass->sequence->n_tokens;
	bool latent = ref->latent;

	if (latent) {
		project_latent(pass);
		expand_latent(pass);
	} else if (model->arch->positions.turns_back) {
		project_shared(pass);
	} else {
		project_qkv(pass);
	}
	short_conv_run(pass, VECTOR_SHORT_CONV_K, a->k, ref->n_kv_heads * ref->head_dim);
	short_conv_run(pass, VECTOR_SHORT_CONV_V, a->v, ref->n_kv_heads * ref->value_dim);
	pass_scale(pass, a->k, model->multipliers.key, n, ref->n_kv_heads * ref->head_dim);
	pass_scale(pass, a->v, model->multipliers.value, n, ref->n_kv_heads * ref->value_dim);
	if (model->arch->head_norms != HEADS_AFTER_ROPE)
		norm_queries_and_keys(pass);
	pass_scale(pass, a->q, model->multipliers.query, n, ref->n_heads * ref->head_dim);
	if (ref->rope) {
		if (model->arch->positions.adjacent_pairs && !latent) {
			deinterleave_heads(pass, a->q, ref->n_heads);
			deinterleave_heads(pass, a->k, ref->n_kv_heads);
		}
		rotation_put_angles(w, ref->rope, n);
		rotation_run(pass);
		if (model->rotated_norm) {
			norm_plainly(pass, a->q, ref->n_heads);
			norm_plainly(pass, a->k, ref->n_kv_heads);
		}
	}
	indexer_run(pass);
	if (model->arch->head_norms == HEADS_AFTER_ROPE)
		norm_queries_and_keys(pass);
	if (model->arch->normed_values)
		norm_plainly(pass, a->v, rotation_key_heads(ref));
	if (ref->kv_source)
		caches_take(pass);
	if (ref->query_scale != 0)
		queries_grow(pass);
	if (model->arch->positions.turns_back)
		copy_rows(w, (struct rows_out){ a->v, ref->value_dim },
			  (struct rows_in){ a->k, ref->head_dim }, 1, n, ref->head_dim);
	observe_qkv(pass);
	caches_round(pass);
	if (ref->kv_place)
		caches_keep(pass);
	pools_run(pass);
	attend(pass);
	if (model->arch->positions.turns_back)
		rotation_back(pass);
	output_run(pass);
}
