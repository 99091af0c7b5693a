/* SPDX-License-Identifier: Apache-2.0
 *
 * The decisions of an evaluation before it computes: the models, the data, the memory.
 */
#include <string.h>

#include "eval/eval.h"
#include "sweep/weights.h"
#include "tokenizer/tokenizer.h"

#define DEFAULT_SEQ_LEN 512

static int model_open_at(struct eval_model *model, const struct eval_params *params,
			 const char *path, struct err *err)
{
	const char *renamed = params->source ? params->source : params->input;

	if (checkpoint_open(&model->checkpoint, params->io, path, params->n_threads, err) ||
	    (path == renamed && checkpoint_rename(&model->checkpoint, &params->renames, err)))
		return -1;
	return weights_open_model(&model->model, &model->view, &model->checkpoint, "", err);
}

static void eval_model_release(struct eval_model *model)
{
	model_release(&model->model);
	low_bit_view_release(&model->view);
	checkpoint_release(&model->checkpoint);
}

/* The models go through their layers together, and predict the same tokens. */
static int check_models(const struct eval_plan *plan, const struct eval_params *params,
			struct err *err)
{
	const struct model *p = &plan->source.model, *q = &plan->out.model;
	const struct {
		const char *what;
		size_t of_p, of_q;
	} sizes[] = {
		{ "layers", p->n_layers, q->n_layers },
		{ "tokens in the vocabulary", p->head.n, q->head.n },
		{ "hidden values", p->hidden, q->hidden },
		{ "heads", p->n_heads, q->n_heads },
	};

	if (p->arch != q->arch)
		return err_set(err, ERR_INPUT,
			       "'%s' is not the source of '%s': their architectures are %s and %s",
			       params->source, params->input, p->arch->name, q->arch->name);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if (sizes[i].of_p != sizes[i].of_q)
			return err_set(err, ERR_INPUT,
				       "'%s' is not the source of '%s': it has %zu %s, not %zu",
				       params->source, params->input, sizes[i].of_p, sizes[i].what,
				       sizes[i].of_q);
	return 0;
}

static int open_models(struct eval_plan *plan, const struct eval_params *params, struct err *err)
{
	if (model_open_at(&plan->out, params, params->input, err))
		return -1;
	plan->has_source = params->source;
	if (!plan->has_source)
		return 0;
	if (model_open_at(&plan->source, params, params->source, err))
		return -1;
	return check_models(plan, params, err);
}

static int check_stride(const struct eval_plan *plan, const struct eval_params *params, size_t len,
			struct err *err)
{
	if (!params->stride)
		return 0;
	if ((size_t)params->stride > len)
		return err_set(err, ERR_USAGE, "option '--stride': %d is more than --seq-len (%zu)",
			       params->stride, len);
	for (size_t i = 0; i < plan->data.n; i++)
		if (plan->data.sequences[i].len != len)
			return err_set(err, ERR_USAGE,
				       "option '--stride' needs text: sequence %zu of the data has "
				       "a length of its own",
				       i);
	return 0;
}

/* A sequence of one token has none to predict. */
static int check_targets(const struct eval_plan *plan, struct err *err)
{
	for (size_t i = 0; i < plan->data.n; i++)
		if (plan->data.sequences[i].len > 1)
			return 0;
	return err_set(err, ERR_INPUT,
		       "the data has no token to predict: every sequence has one token");
}

/* The tokenizer is OUT's, or else the source's. */
static int open_data(struct eval_plan *plan, const struct eval_params *params, struct err *err)
{
	size_t len = params->seq_len ? (size_t)params->seq_len : DEFAULT_SEQ_LEN;
	struct dataset_params data = {
		.io = params->io,
		.paths = params->data,
		.n_paths = params->n_data,
		.seq_len = len,
		.stride = (size_t)params->stride,
		.vocab_size = plan->out.model.head.n,
		.max_sequences = params->passes ? (size_t)params->passes : SIZE_MAX,
		.stop = params->stop,
	};
	struct tokenizer *tokenizer = NULL;
	int rc = dataset_tokenizer(&tokenizer, params->io, plan->out.checkpoint.directory, err);

	if (!rc && !tokenizer && plan->has_source)
		rc = dataset_tokenizer(&tokenizer, params->io, plan->source.checkpoint.directory,
				       err);
	data.tokenizer = tokenizer;
	rc = rc ? rc : dataset_open(&plan->data, &data, err);
	rc = rc ? rc : check_stride(plan, params, len, err);
	rc = rc ? rc : check_targets(plan, err);
	tokenizer_free(tokenizer);
	plan->first_counted = params->stride ? len - (size_t)params->stride : 0;
	return rc;
}

/* Finds how inputs are cast, unless --activations is bf16, and how caches are. */
static int open_casts(struct eval_plan *plan, const struct eval_params *params, struct err *err)
{
	const struct model *model = &plan->out.model;
	struct source source;
	int rc = 0;

	source_init(&source, params->io, &plan->out.checkpoint, params->backend, -1);
	if (!params->activations || strcmp(params->activations, "bf16") != 0)
		rc = engine_inputs_make(&plan->inputs, model, &source, err);
	if (!rc && params->kv_cache)
		rc = cache_scales_read(&plan->caches, model, &source, err);
	source_release(&source);
	return rc;
}

static int plan_sweep(struct eval_plan *plan, const struct eval_params *params, struct err *err)
{
	struct sweep_model source = { .model = &plan->source.model };
	struct sweep_model out = { .model = &plan->out.model };
	struct sweep_params sweep = {
		.io = params->io,
		.data = &plan->data,
		.executor = params->backend->executor,
		.is_f32 = params->precision && !strcmp(params->precision, "f32"),
		.batch = 1,
		.n_threads = params->n_threads,
		.max_memory = params->max_memory,
		.now = params->now,
		.group = params->group,
	};

	/* --by-layer compares products of two models: both take all rows of a sequence at once */
	source.casts = params->by_layer;
	out.casts = params->by_layer || plan->inputs.n;
	if (plan->has_source)
		sweep.models[sweep.n_models++] = source;
	sweep.models[sweep.n_models++] = out;
	return sweep_plan_make(&plan->sweep, &sweep, err);
}

int eval_plan_make(struct eval_plan *plan, const struct eval_params *params, struct err *err)
{
	*plan = (struct eval_plan){ 0 };
	if (open_models(plan, params, err) || open_data(plan, params, err) ||
	    open_casts(plan, params, err) || plan_sweep(plan, params, err)) {
		eval_plan_release(plan);
		return -1;
	}
	return 0;
}

void eval_plan_release(struct eval_plan *plan)
{
	cache_scales_release(&plan->caches);
	engine_inputs_release(&plan->inputs);
	dataset_release(&plan->data);
	eval_model_release(&plan->source);
	eval_model_release(&plan->out);
	*plan = (struct eval_plan){ 0 };
}
