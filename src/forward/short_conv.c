/* SPDX-License-Identifier: Apache-2.0
 *
 * Short convolutions: x += conv(x), a causal convolution of each channel.
 */
#include "forward/pass.h"

void short_conv_run(const struct pass *pass, enum vector_role role, float *x, size_t n_cols)
{
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens;
	const struct convolve_args args = {
		.activation = ACT_NONE,
		.x = { x, n_cols },
		.weight = { pass->layer->vector[role], n_cols },
		.width = pass->forward->model->short_conv_width,
		.n_tokens = n,
		.n_cols = n_cols,
		.y = { w->attention.attn_out, n_cols },
	};

	if (!args.weight.data)
		return;
	w->ops->convolve(w->stream, &args);
	pass_add(pass, x, w->attention.attn_out, n * n_cols);
}
