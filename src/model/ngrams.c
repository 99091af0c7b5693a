/* SPDX-License-Identifier: Apache-2.0
 *
 * N-gram embeddings of layers: their sizes in config.json, the parts of their tables, and the
 * integers by which ids are hashed.
 *
 * Source: transformers 5.23, modeling_qwen4_exp.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/facts.h"
#include "model/steps.h"

#define MAX_SIZE 1000000

/* The layers of ple_layer_ids, which counts from 1.  Their order there has no meaning. */
static int read_layers(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *list = json_object_get(facts, "ple_layer_ids"), *value;
	size_t i;

	json_array_foreach(list, i, value)
	{
		json_int_t layer = json_is_integer(value) ? json_integer_value(value) : 0;

		if (layer < 1 || layer > (json_int_t)model->n_layers)
			return err_set(err, ERR_INPUT,
				       "config.json: 'ple_layer_ids' has an element that is not a "
				       "layer from 1 to %zu",
				       model->n_layers);
		model->layers[layer - 1].ngrams = 1;
	}
	for (i = 0; i < model->n_layers; i++)
		if (model->layers[i].ngrams)
			model->layers[i].ngrams = ++model->ngrams.n;
	return 0;
}

/* The token before the first one: eos_token_id, or the first of a list. */
static int read_eos(struct ngrams *ngrams, const json_t *facts, struct err *err)
{
	const json_t *stated = json_object_get(facts, "eos_token_id");
	const json_t *first = json_is_array(stated) ? json_array_get(stated, 0) : stated;

	if (!json_is_integer(first))
		return err_set(err, ERR_INPUT,
			       "config.json: 'eos_token_id' is not an integer or a list of them, "
			       "but layers have n-gram embeddings ('ple_layer_ids')");
	ngrams->eos = json_integer_value(first);
	return 0;
}

int ngrams_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct ngrams *ngrams = &model->ngrams;
	size_t per_ngram = 0;

	if (read_layers(model, facts, err))
		return -1;
	if (!ngrams->n)
		return 0;
	ngrams->dim = model->hidden;
	if (fact_size(facts, "ngram_size", MAX_NGRAM, &ngrams->size, err) ||
	    fact_size(facts, "heads_per_ngram", MAX_SIZE, &per_ngram, err) ||
	    fact_size(facts, "ple_conv_kernel_size", MAX_SIZE, &ngrams->conv_width, err) ||
	    (json_is_number(json_object_get(facts, "ple_embed_dim")) &&
	     fact_size(facts, "ple_embed_dim", MAX_SIZE, &ngrams->dim, err)) ||
	    read_eos(ngrams, facts, err))
		return -1;
	ngrams->n_heads = (ngrams->size - 1) * per_ngram;
	ngrams->tables = xcalloc(ngrams->n, sizeof *ngrams->tables);
	if (ngrams->size < 2)
		return err_set(err, ERR_INPUT, "config.json: 'ngram_size' is not above 1");
	if (ngrams->dim % ngrams->n_heads)
		return err_set(err, ERR_INPUT,
			       "config.json: 'ple_embed_dim' is %zu, not a multiple of the %zu "
			       "heads of n-grams ('ngram_size', 'heads_per_ngram')",
			       ngrams->dim, ngrams->n_heads);
	return 0;
}

/* Finds the vector of I64 below the layer's embedding. */
static int find_integers(struct search *search, const char *base, const char *name, size_t n,
			 const struct tensor_ref **ref)
{
	*ref = search_tensor(search, base, name, "");
	if (!*ref)
		return search_missing(search, base, name, "");
	if ((*ref)->tensor->dtype != DT_I64)
		return err_set(
			search->err, ERR_INPUT,
			"tensor '%s' has the unsupported type %s: integers of a hash must be "
			"I64",
			(*ref)->tensor->name, dtype_name((*ref)->tensor->dtype));
	return search_check_vector(*ref, n, search->err);
}

/* Finds the parts of a table, one below another. */
static int find_shards(struct search *search, const char *base, struct ngram_table *table)
{
	const struct ngrams *ngrams = &search->model->ngrams;

	for (;;) {
		char name[60];
		const struct tensor_ref *shard;

		snprintf(name, sizeof name, "ngram_embedding.shard_%zu.weight", table->n_shards);
		shard = search_tensor(search, base, name, "");
		if (!shard && !table->n_shards)
			return search_missing(search, base, name, "");
		if (!shard)
			return 0;
		if (search_check_matrix(shard, 0, ngrams->dim / ngrams->n_heads, search->err))
			return -1;
		ARRAY_GROW(table->shards, table->n_shards);
		table->shards[table->n_shards++] = shard;
	}
}

static int find_table(struct search *search, const char *base, struct ngram_table *table)
{
	const struct ngrams *ngrams = &search->model->ngrams;

	if (find_integers(search, base, "layer_multipliers", ngrams->size, &table->multipliers) ||
	    find_integers(search, base, "ngram_heads_vocab_sizes", ngrams->n_heads,
			  &table->sizes) ||
	    find_integers(search, base, "ngram_heads_offsets", ngrams->n_heads, &table->offsets))
		return -1;
	return find_shards(search, base, table);
}

int search_ngrams(struct search *search, const char *prefix, struct layer_ref *layer)
{
	const struct model *model = search->model;
	size_t dim = model->ngrams.dim, hidden = model->hidden;
	const struct expected expected[] = {
		{ LINEAR_NGRAM_KEY, model->streams.n * hidden, dim, 1 },
		{ LINEAR_NGRAM_VALUE, hidden, dim, 1 },
	};
	const char *hash = search_vector_name(search, VECTOR_NGRAM_HASH);
	const char *last = strrchr(hash, '.');
	char *base;
	int rc;

	if (!layer->ngrams)
		return 0;
	base = xasprintf("%s%.*s.", prefix, last ? (int)(last - hash) : 0, hash);
	rc = find_table(search, base, &model->ngrams.tables[layer->ngrams - 1]);
	free(base);
	return rc ? rc : search_linears(search, prefix, layer, expected, COUNT(expected));
}

void ngrams_release(struct model *model)
{
	for (size_t i = 0; model->ngrams.tables && i < model->ngrams.n; i++)
		free(model->ngrams.tables[i].shards);
	free(model->ngrams.tables);
}
