/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs that layers of Gemma 4's small models have of their own: made once, before the first
 * layer, and added behind the mlp of each layer, gated by the residual stream.
 */
#include <math.h>

#include "forward/pass.h"

/* Returns the inputs of all layers (tokens, layers, layer_input_dim). */
static float *inputs_of(const struct pass *pass)
{
	return pass->sequence->residual +
	       pass->sequence->n_tokens * pass->forward->model->stream.layer_inputs;
}

void layer_inputs_run(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens, dim = model->layer_input_dim;
	size_t n_rows = n * model->n_layers;
	float *inputs = inputs_of(pass), *projected = w->fused_out;

	pass_copy_tokens(pass, pass->sequence->residual, w->own->normed);
	pass_linear(pass, &pass->layer->linear[LINEAR_LAYER_INPUTS], w->own->normed, n, projected);
	pass_scale(pass, projected, 1 / sqrtf((float)model->hidden), n_rows, dim);
	pass_norm(pass, (struct rows_in){ projected, dim },
		  pass->layer->vector[VECTOR_NORM_LAYER_INPUTS],
		  (struct rows_out){ projected, dim }, n_rows, dim);
	pass_add(pass, inputs, projected, n_rows * dim);
	pass_scale(pass, inputs, sqrtf(0.5f), n_rows, dim);
}

void layer_input_run(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	const struct linear *l = pass->layer->linear;
	struct workspace *w = pass->workspace;
	size_t n = pass->sequence->n_tokens, dim = model->layer_input_dim;
	size_t i = (size_t)(pass->layer->ref - model->layers);
	const struct gate_args args = { .activation = model->activation,
					.gate = { w->mlp.gate, dim },
					.up = { inputs_of(pass) + i * dim, model->n_layers * dim },
					.n_rows = n,
					.n_cols = dim,
					.y = { w->mlp.gate, dim } };

	pass_linear(pass, &l[LINEAR_LAYER_GATE], w->own->normed, n, w->mlp.gate);
	w->ops->gate(w->stream, &args);
	pass_linear(pass, &l[LINEAR_LAYER_OUT], w->mlp.gate, n, w->own->out);
}
