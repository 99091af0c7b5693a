/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer of sparse attention: its sizes, and the layers that choose keys by it.  The keys are
 * as in transformers 5.23 (configuration_deepseek_v32.py, configuration_glm_moe_dsa.py).
 */
#include <string.h>

#include "model/steps.h"

#define MAX_HEADS 65536
#define MAX_KEYS  1000000000

int indexer_configure(struct model *model, const json_t *facts, struct err *err)
{
	struct indexer *indexer = &model->indexer;
	size_t rope_dim = model->latent.rope_dim;

	if (!json_object_get(facts, "index_topk"))
		return 0;
	if (fact_size(facts, "index_topk", MAX_KEYS, &indexer->n_chosen, err) ||
	    fact_size(facts, "index_n_heads", MAX_HEADS, &indexer->n_heads, err) ||
	    fact_size(facts, "index_head_dim", MODEL_MAX_HEAD_DIM, &indexer->head_dim, err))
		return -1;
	indexer->block_size = 1;
	indexer->n_sets = 1;
	if (indexer->head_dim < rope_dim)
		return err_set(
			err, ERR_INPUT,
			"config.json: 'index_head_dim' is %zu, less than the %zu values that "
			"are rotated ('qk_rope_head_dim')",
			indexer->head_dim, rope_dim);
	return 0;
}

/* Whether layer i has an indexer by the number of layers that share one, which is in force where no
 * list names them. */
static bool is_full(const json_t *facts, size_t i)
{
	size_t every = fact_count(facts, "index_topk_freq", 1);
	size_t offset = fact_count(facts, "index_skip_topk_offset", 2);
	size_t from = i + 1 > offset ? i + 1 - offset : 0;

	return from % (every ? every : 1) == 0;
}

/* Reads the choice of a layer by a word, or by the letter of a pattern. */
static int read_choice(const char *key, const char *word, enum layer_keys *keys, struct err *err)
{
	if (!strcmp(word, "full") || !strcmp(word, "F"))
		*keys = KEYS_CHOSEN;
	else if (!strcmp(word, "shared") || !strcmp(word, "S"))
		*keys = KEYS_SHARED;
	else
		return err_set(err, ERR_INPUT,
			       "config.json: '%s' has '%s', which is not supported (supported: "
			       "full, shared; in a pattern: F, S)",
			       key, word);
	return 0;
}

/* Reads the choice of layer i from a list of words, or from a pattern with a letter for each
 * layer. */
static int read_listed(const struct model *model, const char *key, const json_t *list, size_t i,
		       enum layer_keys *keys, struct err *err)
{
	bool is_pattern = json_is_string(list);
	size_t n = is_pattern ? json_string_length(list) : json_array_size(list);
	const char *word = json_string_value(json_array_get(list, i));
	char letter[2] = { 0 };

	if (n != model->n_layers)
		return err_set(err, ERR_INPUT, "config.json has %zu '%s' for %zu layers", n, key,
			       model->n_layers);
	if (is_pattern)
		letter[0] = json_string_value(list)[i];
	return read_choice(key, is_pattern ? letter : word ? word : "null", keys, err);
}

/* A layer shares the choice of the last one before it that has an indexer. */
static int check_shared(const struct model *model, const char *key, struct err *err)
{
	if (model->layers[0].keys != KEYS_SHARED)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: by '%s', layer 0 shares the keys of a layer before it, but it "
		       "is the first",
		       key);
}

int indexer_configure_layers(struct model *model, const json_t *facts, struct err *err)
{
	const char *key = "indexer_types";
	const json_t *list = json_object_get(facts, key);

	if (!model->indexer.n_chosen)
		return 0;
	if (!list || json_is_null(list)) {
		key = "index_topk_pattern";
		list = json_object_get(facts, key);
	}
	if (!list || json_is_null(list))
		list = NULL;
	for (size_t i = 0; i < model->n_layers; i++) {
		enum layer_keys *keys = &model->layers[i].keys;

		*keys = is_full(facts, i) ? KEYS_CHOSEN : KEYS_SHARED;
		if (list && read_listed(model, key, list, i, keys, err))
			return -1;
		model->stream.has_sets |= *keys == KEYS_SHARED;
	}
	return check_shared(model, list ? key : "index_topk_freq", err);
}
