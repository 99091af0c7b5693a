/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cache holds: keys and values in FP8, and those that stay for later layers, which have none
 * of their own.
 */
#include "forward/pass.h"

void caches_round(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	const struct attention_arrays *a = &pass->workspace->attention;
	const struct round_e4m3_args caches[] = {
		{ .x = a->k, .head_dim = ref->head_dim, .scales = pass->layer->key_scales },
		{ .x = a->v, .head_dim = ref->value_dim, .scales = pass->layer->value_scales },
	};

	for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
		struct round_e4m3_args args = caches[i];

		args.n_rows = pass->sequence->n_tokens;
		args.n_heads = ref->n_kv_heads;
		if (args.scales && !ref->kv_source)
			pass->workspace->ops->round_e4m3(pass->workspace->stream, &args);
	}
}

void caches_round_latent(const struct pass *pass)
{
	const struct latent *latent = pass->layer->ref->latent;
	const struct attention_arrays *a = &pass->workspace->attention;
	const struct round_e4m3_args parts[] = {
		{ .x = a->kv_latent, .head_dim = latent->kv_lora_rank },
		{ .x = a->k_rope, .head_dim = latent->rope_dim },
	};

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		struct round_e4m3_args args = parts[i];

		args.n_rows = pass->sequence->n_tokens;
		args.n_heads = 1;
		args.scales = pass->layer->latent_scale;
		if (args.head_dim)
			pass->workspace->ops->round_e4m3(pass->workspace->stream, &args);
	}
}

/* Copies keys and values between the workspace and the place in the sequence that the layer `from`
 * has for them. */
static void move(const struct pass *pass, const struct layer_ref *from, bool keep)
{
	const struct attention_arrays *a = &pass->workspace->attention;
	size_t n = pass->sequence->n_tokens;
	float *place = pass->sequence->residual + n * from->kv_place;
	const struct {
		float *values;
		size_t n_cols;
	} caches[] = { { a->k, from->n_kv_heads * from->head_dim },
		       { a->v, from->n_kv_heads * from->value_dim } };

	for (size_t i = 0; i < sizeof caches / sizeof *caches; i++) {
		size_t n_cols = caches[i].n_cols;
		const struct copy_args args = { .y = { keep ? place : caches[i].values, n_cols },
						.x = { keep ? caches[i].values : place, n_cols },
						.repeat = 1,
						.n_rows = n,
						.n_cols = n_cols };

		pass->workspace->ops->copy(pass->workspace->stream, &args);
		place += n * n_cols;
	}
}

void caches_keep(const struct pass *pass)
{
	move(pass, pass->layer->ref, true);
}

void caches_take(const struct pass *pass)
{
	move(pass, pass->layer->ref->kv_source, false);
}
