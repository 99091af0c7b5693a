/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries that grow with their position.
 */
#include <math.h>

#include "forward/pass.h"

/* Returns the factor of a query by its position t. */
static float query_factor(const struct layer_ref *ref, size_t t)
{
	float ratio = (float)(t + ref->query_shift) / (float)ref->query_floor;

	return 1 + ref->query_scale *
			   (ref->query_ratio ? logf(fmaxf(ratio, 1)) : log1pf(floorf(ratio)));
}

void queries_grow(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	struct attention_arrays *a = &w->attention;
	size_t n = pass->sequence->n_tokens, n_cols = ref->n_heads * ref->head_dim;
	const struct scale_args args = {
		.x = { a->q, n_cols }, .factors = a->positions, .n_rows = n, .n_cols = n_cols
	};

	for (size_t t = a->n_positions; t < n; t++)
		w->host.positions[t] = query_factor(ref, t);
	if (n > a->n_positions) {
		w->ops->put(w->stream, a->positions, w->host.positions, n * sizeof(float));
		a->n_positions = n;
	}
	w->ops->scale(w->stream, &args);
	if (ref->extent)
		distances_grow(pass);
}
