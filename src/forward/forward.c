/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/forward.h"

#include "forward/pass.h"

int forward_init(struct forward *forward, const struct executor_ops *executor,
		 const struct model *model, bool precision_f32, struct err *err)
{
	*forward = (struct forward){ .model = model, .round = !precision_f32 };
	forward->input = precision_f32 ? DT_F32 : executor->bf16_type();
	return executor->open(&forward->executor, err);
}

void forward_release(struct forward *forward)
{
	if (forward->executor)
		forward->executor->ops->close(forward->executor);
	*forward = (struct forward){ 0 };
}

size_t forward_slots(const struct model *model)
{
	size_t n_experts = 0;

	for (size_t i = 0; i < model->n_layers; i++)
		if (model->layers[i].n_experts > n_experts)
			n_experts = model->layers[i].n_experts;
	/* q, k and v; what latent attention caches; x and y of each matrix */
	return 3 + 2 + 2 * (N_LINEARS + n_experts * N_EXPERT_ROLES);
}

int forward_embed(const struct pass *pass, const float *table, size_t n_rows,
		  const uint32_t *token_rows, struct err *err)
{
	size_t n = pass->sequence->n_tokens, hidden = pass->forward->model->hidden;
	struct workspace *w = pass->workspace;

	w->ops->put(w->stream, w->normed, table, n_rows * hidden * sizeof *table);
	w->ops->put(w->stream, w->token_rows, token_rows, n * sizeof *token_rows);
	w->ops->gather(w->stream, pass->sequence->residual, w->normed, w->token_rows, n, hidden);
	if (w->ops->wait(w->stream, err))
		return err_wrap(err, "the embedding of sequence %zu", pass->sequence->index);
	return 0;
}

/* residual += norm_after(run(norm_before(residual))); most models have the first norm alone.  The
 * mlp of a parallel layer takes what attention took, which is still there. */
static int residual_block(const struct pass *pass, enum vector_role before, enum vector_role after,
			  int (*run)(const struct pass *, struct err *), struct err *err)
{
	const struct model *model = pass->forward->model;
	const struct sequence *sequence = pass->sequence;
	float *const *vector = pass->layer->vector;
	struct workspace *w = pass->workspace;

	if (vector[before])
		pass_norm_tokens(pass, sequence->residual, vector[before], w->normed);
	else if (!model->arch->parallel)
		pass_copy_tokens(pass, sequence->residual, w->normed);
	if (run(pass, err))
		return -1;
	if (vector[after])
		pass_norm_tokens(pass, w->out, vector[after], w->out);
	pass_scale(pass, w->out, model->multipliers.residual, sequence->n_tokens, model->hidden);
	w->ops->add(w->stream, sequence->residual, w->out, sequence->n_tokens * model->hidden);
	return 0;
}

/* The first step of a layer, by its mixer. */
static int (*const mixers[N_MIXERS])(const struct pass *pass, struct err *err) = {
	[MIXER_ATTENTION] = attention_run, [MIXER_DELTA] = delta_run,	[MIXER_MAMBA] = mamba_run,
	[MIXER_BOTH] = mamba_run_beside,   [MIXER_MAMBA1] = mamba1_run, [MIXER_CONV] = conv_run,
};

static int layer_failed(const struct pass *pass, struct err *err)
{
	return err_wrap(err, "the layer of '%s', sequence %zu", pass->layer->ref->mixer_module,
			pass->sequence->index);
}

int forward_layer(const struct pass *pass, struct err *err)
{
	const struct layer_ref *ref = pass->layer->ref;
	struct workspace *w = pass->workspace;
	const float *scale = pass->layer->vector[VECTOR_LAYER_SCALE];

	w->n_slots_used = 0;
	if ((ref->mixer != MIXER_NONE &&
	     residual_block(pass, VECTOR_NORM_ATTENTION, VECTOR_NORM_ATTENTION_OUT,
			    mixers[ref->mixer], err)) ||
	    (ref->has_mlp &&
	     residual_block(pass, VECTOR_NORM_MLP, VECTOR_NORM_MLP_OUT, mlp_run, err)))
		return layer_failed(pass, err);
	if (scale)
		pass_scale(pass, pass->sequence->residual, *scale, pass->sequence->n_tokens,
			   pass->forward->model->hidden);
	return w->ops->wait(w->stream, err) ? layer_failed(pass, err) : 0;
}
