/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyper-connections (arXiv 2512.24880): the residual stream as several vectors, by config.json and
 * the tensors of the last norm, which without them takes the mean of the vectors.
 *
 * Source: transformers 5.23, modeling_deepseek_v4.py and modeling_glm5_next.py.
 */
#include "model/facts.h"
#include "model/steps.h"

#define MAX_ROUNDS 1000

int streams_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct streams *streams = &model->streams;

	streams->n = 1;
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
