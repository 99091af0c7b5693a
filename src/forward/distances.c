/* SPDX-License-Identifier: Apache-2.0
 *
 * Biases of scores by distance: what LINEAR_DISTANCES made weighs the profiles of the layer.
 */
#include "forward/pass.h"

void distances_grow(const struct pass *pass)
{
	size_t n_cols = pass->layer->linear[LINEAR_DISTANCES].ref->n;
	struct workspace *w = pass->workspace;
	const struct scale_args args = { .x = { w->attention.distances, n_cols },
					 .factors = w->attention.positions,
					 .n_rows = pass->sequence->n_tokens,
					 .n_cols = n_cols };

	w->ops->scale(w->stream, &args);
}

void distances_set(const struct pass *pass, size_t first, struct attention_args *args)
{
	const struct linear_ref *linear = pass->layer->linear[LINEAR_DISTANCES].ref;

	if (!pass->layer->ref->extent)
		return;
	args->distances.weights = pass->workspace->attention.distances + first * linear->n;
	args->distances.profiles = pass->layer->vector[VECTOR_DISTANCES];
	args->distances.n_profiles = pass->forward->model->distances.n_profiles;
	args->distances.extent = pass->layer->ref->extent;
}
