/* SPDX-License-Identifier: Apache-2.0 */
#include "forward/forward.h"

#include <stdlib.h>

#include "base/mem.h"
#include "forward/pass.h"

/* Opens the executor on the next device. */
static int add_device(struct forward *forward, const struct executor_ops *ops, struct err *err)
{
	struct executor *executor;

	if (ops->open(&executor, (int)forward->n_devices, err))
		return -1;
	ARRAY_GROW(forward->executors, forward->n_devices);
	forward->executors[forward->n_devices++] = executor;
	return 0;
}

int forward_init(struct forward *forward, const struct executor_ops *executor,
		 const struct model *model, bool precision_f32, struct err *err)
{
	*forward = (struct forward){ .model = model, .round = !precision_f32 };
	forward->input = precision_f32 ? DT_F32 : executor->bf16_type();
	if (add_device(forward, executor, err))
		return -1;
	forward->executor = forward->executors[0];
	return 0;
}

int forward_add_devices(struct forward *forward, size_t n_devices, struct err *err)
{
	while (forward->n_devices < n_devices)
		if (add_device(forward, forward->executor->ops, err))
			return -1;
	return 0;
}

void forward_release(struct forward *forward)
{
	for (size_t i = 0; i < forward->n_devices; i++)
		forward->executors[i]->ops->close(forward->executors[i]);
	free(forward->executors);
	*forward = (struct forward){ 0 };
}

size_t forward_matrices(const struct model *model)
{
	size_t n_experts = 0;

	for (size_t i = 0; i < model->n_layers; i++)
		if (layer_all_experts(&model->layers[i]) > n_experts)
			n_experts = layer_all_experts(&model->layers[i]);
	return N_LINEARS + n_experts * N_EXPERT_ROLES;
}

size_t forward_stream_width(const struct model *model, size_t n_tokens)
{
	const struct stream_places *stream = &model->stream;

	return stream->width + (stream->has_sets ? model->indexer.n_sets * KEY_WORDS(n_tokens) : 0);
}

size_t forward_slots(const struct model *model)
{
	/* q, k and v; what latent attention caches; x and y of each matrix */
	return 3 + 2 + 2 * forward_matrices(model);
}

/* The norm of embeddings.  Its weight, if it has one, is in own->out, as nothing else is yet. */
static void norm_embedding(const struct pass *pass, const float *weight)
{
	size_t n = pass->sequence->n_tokens, hidden = pass->forward->model->hidden;
	float *residual = pass->sequence->residual;
	struct workspace *w = pass->workspace;

	if (!weight) {
		pass_norm_plain(pass, residual, n, hidden);
		return;
	}
	w->ops->put(w->stream, w->own->out, weight, hidden * sizeof *weight);
	pass_norm(pass, (struct rows_in){ residual, hidden }, w->own->out,
		  (struct rows_out){ residual, hidden }, n * pass->forward->model->streams.n,
		  hidden);
}

int forward_embed(const struct pass *pass, const float *table, size_t n_rows,
		  const uint32_t *token_rows, const float *norm, struct err *err)
{
	size_t n = pass->sequence->n_tokens, hidden = pass->forward->model->hidden;
	struct workspace *w = pass->workspace;
	size_t n_streams = pass->forward->model->streams.n;
	struct copy_args gather = { .y = { pass->sequence->residual, n_streams * hidden },
				    .x = { w->own->normed, hidden },
				    .rows = w->token_rows,
				    .n_rows = n,
				    .n_cols = hidden };

	w->ops->put(w->stream, w->own->normed, table, n_rows * hidden * sizeof *table);
	w->ops->put(w->stream, w->token_rows, token_rows, n * sizeof *token_rows);
	for (size_t i = 0; i < n_streams; i++, gather.y.data += hidden)
		w->ops->copy(w->stream, &gather);
	if (pass->forward->model->arch->embedding_norm)
		norm_embedding(pass, norm);
	if (w->ops->wait(w->stream, err))
		return err_wrap(err, "the embedding of sequence %zu", pass->sequence->index);
	return 0;
}

int forward_embed_layers(const struct pass *pass, const float *table, size_t n_rows,
			 struct err *err)
{
	const struct model *model = pass->forward->model;
	size_t n = pass->sequence->n_tokens, n_cols = model->n_layers * model->layer_input_dim;
	float *inputs = pass->sequence->residual + n * model->stream.layer_inputs;
	struct workspace *w = pass->workspace;
	const struct copy_args gather = { .y = { inputs, n_cols },
					  .x = { w->fused_out, n_cols },
					  .rows = w->token_rows,
					  .n_rows = n,
					  .n_cols = n_cols };

	w->ops->put(w->stream, w->fused_out, table, n_rows * n_cols * sizeof *table);
	w->ops->copy(w->stream, &gather);
	if (w->ops->wait(w->stream, err))
		return err_wrap(err, "the layers' embeddings of sequence %zu",
				pass->sequence->index);
	return 0;
}

void forward_put_ngrams(const struct pass *pass, size_t number, const float *values)
{
	const struct model *model = pass->forward->model;
	size_t n = pass->sequence->n_tokens, dim = model->ngrams.dim;
	float *to = pass->sequence->residual + n * (model->stream.ngrams + number * dim);

	pass->workspace->ops->put(pass->workspace->stream, to, values, n * dim * sizeof *values);
}

#define NO_NORM N_VECTORS

/* A residual block is residual += norm_after(f(norm_before(residual))); most models have the first
 * norm alone.  The mlp of a parallel layer takes what attention took, which is still there.  With
 * hyper-connections, a sum of the vectors of the stream is normed, and all of them are mixed in the
 * end. */
static void block_begin(const struct pass *pass, enum vector_role before)
{
	const float *norm = before == NO_NORM ? NULL : pass->layer->vector[before];
	struct workspace *w = pass->workspace;
	const float *x = pass->sequence->residual;

	w->own->ready = (struct ready_input){ 0 };
	if (streams_are_mixed(pass))
		x = streams_begin(pass, before == VECTOR_NORM_ATTENTION ? VECTOR_MIX_ATTENTION
									: VECTOR_MIX_MLP);
	if (norm)
		pass_norm_tokens(pass, x, norm, w->own->normed);
	else if (!pass->forward->model->arch->parallel)
		pass_copy_tokens(pass, x, w->own->normed);
}

/* Convolution, norm and scale of a block's output. */
static void output_end(const struct pass *pass, enum vector_role after)
{
	const struct model *model = pass->forward->model;
	enum vector_role conv = after == VECTOR_NORM_ATTENTION_OUT ? VECTOR_SHORT_CONV_ATTENTION
								   : VECTOR_SHORT_CONV_MLP;
	bool convolved = after != VECTOR_NORM_LAYER_OUT && pass->layer->vector[conv];
	const float *norm = pass->layer->vector[after];
	struct workspace *w = pass->workspace;
	float factor = model->multipliers.residual;

	if (norm || convolved || factor != 1)
		pass_observe_out(pass);
	if (convolved)
		short_conv_run(pass, conv, w->own->out, model->hidden);
	if (norm)
		pass_norm_out(pass, norm);
	pass_scale(pass, w->own->out, factor, pass->sequence->n_tokens, model->hidden);
}

static void block_end(const struct pass *pass, enum vector_role after)
{
	const struct sequence *sequence = pass->sequence;
	struct workspace *w = pass->workspace;
	struct add_args add = { .x = sequence->residual,
				.y = w->own->out,
				.n_rows = 1,
				.n = sequence->n_tokens * pass->forward->model->hidden };

	output_end(pass, after);
	if (streams_are_mixed(pass)) {
		streams_end(pass);
		return;
	}
	add.y_stats = w->own->out_stats;
	w->ops->add(w->stream, &add);
	w->own->out_stats = NULL;
}

/* The input of a block that is a norm alone, rounded for the block's first products in the same
 * operation; ends: nothing else takes it.  after: NO_NORM, or the end of the block before, whose
 * output is added to the residual stream in that operation, too. */
static void block_begin_rounded(const struct pass *pass, enum vector_role before,
				enum vector_role after, bool ends)
{
	struct own_arrays *own = pass->workspace->own;
	const struct sequence *sequence = pass->sequence;
	struct rms_norm_args args =
		pass_norm_args(pass, sequence->residual, pass->layer->vector[before], own->normed);

	if (after != NO_NORM) {
		output_end(pass, after);
		args.sum = sequence->residual;
		args.add = own->out;
		args.add_stats = own->out_stats;
		own->out_stats = NULL;
	}
	args.rounded =
		pass_ready(pass, &own->ready, own->normed, args.n_rows * args.n_cols, own->rounded);
	if (args.rounded.codes && !pass_keeps(pass, ends))
		args.y.data = NULL;
	pass->workspace->ops->rms_norm(pass->workspace->stream, &args);
}

/* The first block's input.  Other mixers than attention do not begin with a product of it. */
static void mixer_begin(const struct pass *pass)
{
	const struct model *model = pass->forward->model;
	const struct layer *layer = pass->layer;
	bool latent = layer->ref->latent;

	if (layer->ref->mixer == MIXER_ATTENTION && layer->vector[VECTOR_NORM_ATTENTION] &&
	    !streams_are_mixed(pass))
		block_begin_rounded(pass, VECTOR_NORM_ATTENTION, NO_NORM,
				    !latent && !model->arch->parallel);
	else
		block_begin(pass, VECTOR_NORM_ATTENTION);
}

/* The end of the first block, and the second one's input. */
static void mlp_begin(const struct pass *pass)
{
	const struct layer *layer = pass->layer;
	bool mixed = layer->ref->mixer != MIXER_NONE;

	if (layer->ref->has_mlp && !layer->ref->n_experts && layer->vector[VECTOR_NORM_MLP] &&
	    !streams_are_mixed(pass)) {
		block_begin_rounded(pass, VECTOR_NORM_MLP,
				    mixed ? VECTOR_NORM_ATTENTION_OUT : NO_NORM, true);
		return;
	}
	if (mixed)
		block_end(pass, VECTOR_NORM_ATTENTION_OUT);
	if (layer->ref->has_mlp)
		block_begin(pass, VECTOR_NORM_MLP);
}

/* What computes the first block of a layer. */
static void (*const mixers[N_MIXERS])(const struct pass *pass) = {
	[MIXER_ATTENTION] = attention_run, [MIXER_DELTA] = delta_run,	[MIXER_MAMBA] = mamba_run,
	[MIXER_BOTH] = mamba_run_beside,   [MIXER_MAMBA1] = mamba1_run, [MIXER_CONV] = conv_run,
};

/* Computes the first block, and the second one up to the experts. */
static void layer_begin(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;

	pass->workspace->own->n_slots_used = 0;
	pass->workspace->own->out_stats = NULL;
	pass->workspace->own->ready = (struct ready_input){ 0 };
	if (ref->linear[LINEAR_LAYER_INPUTS].weight)
		layer_inputs_run(pass);
	if (ref->ngrams)
		ngrams_run(pass);
	if (ref->mixer != MIXER_NONE) {
		mixer_begin(pass);
		mixers[ref->mixer](pass);
	}
	mlp_begin(pass);
	if (ref->has_mlp && ref->n_experts)
		experts_begin(pass);
	else if (ref->has_mlp)
		mlp_run(pass);
}

static void layer_end(const struct pass *pass)
{
	const struct layer_ref *ref = pass->layer->ref;
	const float *scale = pass->layer->vector[VECTOR_LAYER_SCALE];

	if (ref->n_experts)
		experts_end(pass);
	if (ref->has_mlp)
		block_end(pass, VECTOR_NORM_MLP_OUT);
	if (ref->linear[LINEAR_LAYER_GATE].weight) {
		block_begin(pass, NO_NORM);
		layer_input_run(pass);
		block_end(pass, VECTOR_NORM_LAYER_OUT);
	}
	if (ref->linear[LINEAR_LAST_MIX_DOWN].weight)
		low_rank_last(pass);
	if (scale)
		pass_scale(pass, pass->sequence->residual, *scale, pass->sequence->n_tokens,
			   pass->forward->model->hidden);
}

/* Gives the n sequences of a group their parts of the arrays, one after the other. */
static void share_arrays(const struct pass *pass, size_t n)
{
	const struct model *model = pass->forward->model;
	size_t latent = pass->layer->ref->linear[LINEAR_LATENT_IN].n, first = 0;
	struct own_arrays *group = pass->workspace->group;
	const struct own_arrays *all = &group[0];

	for (size_t i = 0; i < n; first += pass->sequence[i++].n_tokens) {
		group[i].first_token = first;
		group[i].normed = all->normed + first * model->hidden;
		group[i].rounded = all->rounded + first * model->hidden;
		group[i].out = all->out + first * model->hidden;
		if (all->mixes)
			group[i].mixes = all->mixes + first * streams_n_mixes(model);
		if (!pass->layer->ref->n_experts)
			continue;
		if (latent) {
			group[i].latent_in = all->latent_in + first * latent;
			group[i].latent_out = all->latent_out + first * latent;
		}
		group[i].shared_scores = all->shared_scores + first;
	}
}

/* Returns the pass of sequence i of a group, and gives it the workspace. */
static struct pass take_turn(const struct pass *pass, size_t i)
{
	struct pass turn = *pass;

	turn.sequence = &pass->sequence[i];
	turn.workspace->own = &turn.workspace->group[i];
	return turn;
}

static int layer_failed(const struct pass *pass, struct err *err)
{
	return err_wrap(err, "the layer of '%s', sequence %zu", pass->layer->ref->mixer_module,
			pass->sequence->index);
}

static void begin_each(const struct pass *pass, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct pass turn = take_turn(pass, i);

		layer_begin(&turn);
	}
}

static void end_each(const struct pass *pass, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct pass turn = take_turn(pass, i);

		layer_end(&turn);
	}
}

static int run_experts(const struct pass *pass, size_t n, struct err *err)
{
	const struct pass first = take_turn(pass, 0);

	if (pass->layer->ref->n_experts && experts_run(&first, n, err))
		return layer_failed(&first, err);
	return 0;
}

int forward_group(const struct pass *pass, size_t n, struct err *err)
{
	struct workspace *w = pass->workspace;

	share_arrays(pass, n);
	begin_each(pass, n);
	if (run_experts(pass, n, err))
		return -1;
	end_each(pass, n);
	return w->ops->wait(w->stream, err) ? layer_failed(pass, err) : 0;
}

int forward_layer(const struct pass *pass, struct err *err)
{
	return forward_group(pass, 1, err);
}
