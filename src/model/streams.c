/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections (arXiv 2512.24880): the residual stream as several vectors, by config.json and
 * the tensors of the last norm, which without them takes the mean of the vectors; or of low rank,
 * where their weights are matrices of a layer.
 *
 * Source: transformers 5.23, modeling_deepseek_v4.py, modeling_glm5_next.py, modeling_qwen4_exp.py.
 */
#include "model/facts.h"
#include "model/steps.h"

#define MAX_ROUNDS 1000
#define MAX_RANK   65536

static int configure_low_rank(struct streams *streams, const json_t *facts, struct err *err)
{
	if (fact_size(facts, "hc_count", MODEL_MAX_STREAMS, &streams->n, err) ||
	    fact_size(facts, "hc_lowrank", MAX_RANK, &streams->rank, err))
		return -1;
	if (streams->n > 1)
		return 0;
	return err_set(err, ERR_INPUT, "config.json: 'hc_count' is not above 1");
}

int streams_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct streams *streams = &model->streams;

	streams->n = 1;
	if (json_object_get(facts, "hc_count"))
		return configure_low_rank(streams, facts, err);
	if (!json_object_get(facts, "hc_mult"))
		return 0;
	if (fact_size(facts, "hc_mult", MODEL_MAX_STREAMS, &streams->n, err) ||
	    fact_size(facts, "hc_sinkhorn_iters", MAX_ROUNDS, &streams->n_rounds, err))
		return -1;
	streams->eps = (float)fact_number(facts, "hc_eps", 0);
	if (streams->eps >= 0)
		return 0;
	return err_set(err, ERR_INPUT, "config.json: 'hc_eps' is %g, less than 0",
		       (double)streams->eps);
}

int search_layer_streams(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct streams *streams = &search->model->streams;
	size_t wide = streams->n * search->model->hidden;
	const struct expected expected[] = {
		{ LINEAR_MIX_DOWN, streams->rank, wide, 1 },
		{ LINEAR_MIX_UP, wide, streams->rank, 1 },
		{ LINEAR_MIX_INJECT, streams->n, wide, 1 },
		{ LINEAR_MLP_MIX_DOWN, streams->rank, wide, 1 },
		{ LINEAR_MLP_MIX_UP, wide, streams->rank, 1 },
		{ LINEAR_MLP_MIX_INJECT, streams->n, wide, 1 },
	};

	return streams->rank ? search_linears(search, prefix, layer, expected, COUNT(expected)) : 0;
}

/* The last layer has what mixes the vectors behind it. */
static int search_last(struct search *search, struct model *model)
{
	const char *name = search_vector_name(search, VECTOR_NORM_LAST_MIX);
	const char *body = model->place->body;
	size_t wide = model->streams.n * model->hidden;
	struct layer_ref *last = &model->layers[model->n_layers - 1];
	const struct expected expected[] = {
		{ LINEAR_LAST_MIX_DOWN, model->streams.rank, wide, 1 },
		{ LINEAR_LAST_MIX_UP, wide, model->streams.rank, 1 },
	};

	last->vector[VECTOR_NORM_LAST_MIX] = search_tensor(search, body, name, "");
	if (!last->vector[VECTOR_NORM_LAST_MIX])
		return search_missing(search, body, name, "");
	if (search_check_vector(last->vector[VECTOR_NORM_LAST_MIX], wide, search->err))
		return -1;
	return search_linears(search, body, last, expected, COUNT(expected));
}

int search_streams(struct search *search, struct model *model)
{
	const char *name = model->arch->last_mix, *body = model->place->body;
	struct streams *streams = &model->streams;
	const struct {
		const char *suffix;
		const struct tensor_ref **ref;
	} parts[] = { { "_fn", &streams->mix },
		      { "_base", &streams->base },
		      { "_scale", &streams->scale } };

	if (streams->rank)
		return search_last(search, model);
	if (!name)
		return 0;
	for (size_t i = 0; i < COUNT(parts); i++) {
		*parts[i].ref = search_tensor(search, body, name, parts[i].suffix);
		if (!*parts[i].ref)
			return search_missing(search, body, name, parts[i].suffix);
	}
	if (search_check_matrix(streams->mix, streams->n, streams->n * model->hidden,
				search->err) ||
	    search_check_vector(streams->base, streams->n, search->err))
		return -1;
	return search_check_vector(streams->scale, 1, search->err);
}
