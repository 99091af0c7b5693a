/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer of sparse attention: its sizes, and the layers that choose keys by it.  The keys are
 * as in transformers 5.23 (configuration_deepseek_v32.py, configuration_glm_moe_dsa.py,
 * configuration_minimax_m3_vl.py, configuration_glm5_next.py).
 */
#include <stdio.h>
#include <string.h>

#include "model/facts.h"
#include "model/steps.h"

#define MAX_HEADS 65536
#define MAX_KEYS  1000000000

/* The members of sparse_attention_config, which the releases of MiniMax-M3 have.  */
static const struct arch_facts inner_facts = {
	.keys = {
		{ "sparse_attention_freq", NULL },
		{ "sparse_block_size", NULL },
		{ "sparse_disable_index_value", NULL },
		{ "sparse_index_dim", NULL },
		{ "sparse_local_block", NULL },
		{ "sparse_num_index_heads", NULL },
		{ "sparse_topk_blocks", NULL },
	},
	.ignored = {
		{ "sparse_score_type", "\"max\"" },
		{ "use_sparse_attention", "true" },
	},
};

/* Returns a copy of the facts with the sizes that sparse_attention_config states, which come
 * first; NULL with err. */
static json_t *facts_of_releases(const json_t *facts, struct err *err)
{
	static const char *const names[][2] = {
		{ "index_n_heads", "sparse_num_index_heads" },
		{ "index_head_dim", "sparse_index_dim" },
		{ "index_block_size", "sparse_block_size" },
		{ "index_topk_blocks", "sparse_topk_blocks" },
		{ "index_local_blocks", "sparse_local_block" },
		{ "sparse_attention_freq", "sparse_attention_freq" },
		{ "sparse_disable_index_value", "sparse_disable_index_value" },
	};
	const json_t *object = json_object_get(facts, "sparse_attention_config");
	json_t *inner = facts_read(object, &inner_facts, err), *all;

	if (!inner)
		return NULL;
	all = json_copy((json_t *)facts);
	for (size_t i = 0; i < COUNT(names); i++)
		if (json_object_get(inner, names[i][1]))
			json_object_set(all, names[i][0], json_object_get(inner, names[i][1]));
	json_decref(inner);
	return all;
}

/* MiniMax-M3: each head chooses blocks of keys. */
static int configure_blocks(struct model *model, const json_t *facts, struct err *err)
{
	struct indexer *indexer = &model->indexer;

	if (fact_size(facts, "index_topk_blocks", MAX_KEYS, &indexer->n_chosen, err) ||
	    fact_size(facts, "index_block_size", MAX_KEYS, &indexer->block_size, err))
		return -1;
	indexer->layer_type = "minimax_m3_sparse";
	indexer->n_local = fact_count(facts, "index_local_blocks", 0);
	if (indexer->n_local <= indexer->n_chosen)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: 'index_local_blocks' is %zu, more than 'index_topk_blocks', "
		       "%zu",
		       indexer->n_local, indexer->n_chosen);
}

/* DeepSeek-V3.2: all heads together choose keys; GLM-5.3: pools of them. */
static int configure_keys(struct model *model, const json_t *facts, struct err *err)
{
	struct indexer *indexer = &model->indexer;
	size_t n;

	indexer->layer_type = "indexed_attention";
	indexer->block_size = 1;
	if (fact_size(facts, "index_topk", MAX_KEYS, &n, err))
		return -1;
	indexer->n_chosen = n;
	if (!json_object_get(facts, "index_kpool"))
		return 0;
	if (fact_size(facts, "index_kpool", MAX_KEYS, &indexer->pool_size, err))
		return -1;
	indexer->n_chosen = n / indexer->pool_size;
	if (n % indexer->pool_size == 0)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: 'index_topk' is %zu, not a multiple of 'index_kpool', %zu", n,
		       indexer->pool_size);
}

static int configure_heads(struct model *model, const json_t *facts, struct err *err)
{
	const char *weights = model->arch->linear[LINEAR_INDEX_WEIGHTS];
	struct indexer *indexer = &model->indexer;

	if (fact_size(facts, "index_n_heads", MAX_HEADS, &indexer->n_heads, err) ||
	    fact_size(facts, "index_head_dim", MODEL_MAX_HEAD_DIM, &indexer->head_dim, err))
		return -1;
	indexer->n_sets = weights && !*weights && !indexer->pool_size ? indexer->n_heads : 1;
	if (model->n_heads % indexer->n_sets)
		return err_set(err, ERR_INPUT,
			       "config.json: %zu heads ('num_attention_heads') are not a multiple "
			       "of %zu heads of the indexer ('index_n_heads')",
			       model->n_heads, indexer->n_sets);
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

/* Reads the choice of layer i from a list of words, or from a pattern with a letter for each
 * layer. */
static int read_listed(const struct model *model, const char *key, const json_t *list, size_t i,
		       enum layer_keys *keys, struct err *err)
{
	bool is_pattern = json_is_string(list);
	size_t n = is_pattern ? json_string_length(list) : json_array_size(list);
	const char *word = json_string_value(json_array_get(list, i));
	char letter[2] = { 0 }, place[60];

	if (n != model->n_layers)
		return fact_refuse_length(key, n, model->n_layers, err);
	if (is_pattern)
		word = memcpy(letter, &json_string_value(list)[i], 1);
	if (word && (!strcmp(word, "full") || !strcmp(word, "F"))) {
		*keys = KEYS_CHOSEN;
	} else if (word && (!strcmp(word, "shared") || !strcmp(word, "S"))) {
		*keys = KEYS_SHARED;
	} else {
		snprintf(place, sizeof place, "%s[%zu]", key, i);
		return fact_refuse(is_pattern ? key : place,
				   is_pattern ? list : json_array_get(list, i),
				   "which is not supported (supported: full, shared; in a pattern: "
				   "F, S)",
				   err);
	}
	return 0;
}

/* A layer that shares keys needs a layer with attention directly before it. */
static int check_shared(const struct model *model, const char *key, struct err *err)
{
	const struct layer_ref *layers = model->layers;

	if (layers[0].keys == KEYS_SHARED)
		return err_set(err, ERR_INPUT,
			       "config.json: by '%s', layer 0 shares the keys of a layer before "
			       "it, but it is the first",
			       key);
	for (size_t i = 1; i < model->n_layers; i++)
		if (layers[i].keys == KEYS_SHARED && layers[i - 1].keys == KEYS_ALL)
			return err_set(err, ERR_INPUT,
				       "config.json: by '%s', layer %zu shares the keys of layer "
				       "%zu, but by 'layer_types' that has none",
				       key, i, i - 1);
	return 0;
}

/* GLM-5: layers choose keys, or share the choice of the last one before them that does.  Layers
 * with linear attention do neither. */
static int choose_or_share(struct model *model, const json_t *facts, struct err *err)
{
	const char *key = "indexer_types";
	const json_t *list = json_object_get(facts, key);
	const json_t *types = json_object_get(facts, "layer_types");

	if (!list || json_is_null(list)) {
		key = "index_topk_pattern";
		list = json_object_get(facts, key);
	}
	if (!list || json_is_null(list)) {
		key = "index_topk_freq";
		list = NULL;
	}
	for (size_t i = 0; i < model->n_layers; i++) {
		enum layer_keys *keys = &model->layers[i].keys;
		const char *type = json_string_value(json_array_get(types, i));

		*keys = is_full(facts, i) ? KEYS_CHOSEN : KEYS_SHARED;
		if (list && read_listed(model, key, list, i, keys, err))
			return -1;
		if (type && !strcmp(type, "linear_attention"))
			*keys = KEYS_ALL;
		model->stream.has_sets |= *keys == KEYS_SHARED;
	}
	return check_shared(model, key, err);
}

/* layer_types names the layers that choose keys; or, in MiniMax-M3, a list has 1 for them. */
static int choose_listed(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *types = json_object_get(facts, "layer_types");
	const json_t *flags = json_object_get(facts, "sparse_attention_freq");
	const json_t *off = json_object_get(facts, "sparse_disable_index_value");

	if (!json_is_array(types) && flags && json_array_size(flags) != model->n_layers)
		return fact_refuse_length("sparse_attention_freq", json_array_size(flags),
					  model->n_layers, err);
	for (size_t i = 0; i < model->n_layers; i++) {
		const char *type = json_string_value(json_array_get(types, i));
		bool chosen = json_is_array(types)
				      ? type && !strcmp(type, model->indexer.layer_type)
				      : json_integer_value(json_array_get(flags, i)) != 0;

		model->layers[i].keys = chosen ? KEYS_CHOSEN : KEYS_ALL;
		if (chosen && off && json_integer_value(json_array_get(off, i)) != 1)
			return err_set(err, ERR_INPUT,
				       "config.json: 'sparse_disable_index_value' is not 1 for "
				       "layer %zu: an indexer with values is not supported",
				       i);
	}
	return 0;
}

/* The first values of an indexer's heads turn as attention's do. */
static int check_rotation(const struct model *model, struct err *err)
{
	const struct indexer *indexer = &model->indexer;

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct rope *rope = model->layers[i].rope;

		if (model->layers[i].keys == KEYS_CHOSEN && rope && rope->n > indexer->head_dim)
			return err_set(err, ERR_INPUT,
				       "config.json: '%s' is %zu, less than the %zu values of "
				       "heads ('%s') that turn in layer %zu",
				       indexer->n_joined ? "indexer_head_dim" : "index_head_dim",
				       indexer->head_dim, rope->n,
				       model->latent.kv_lora_rank ? "qk_rope_head_dim"
								  : "partial_rotary_factor",
				       i);
	}
	return 0;
}

/* DeepSeek-V4: pools_configure() has set which layers choose pools of keys. */
static int configure_pools(struct model *model, const json_t *facts, struct err *err)
{
	if (configure_keys(model, facts, err) || configure_heads(model, facts, err))
		return -1;
	model->indexer.layer_type = "compressed_sparse_attention";
	return check_rotation(model, err);
}

/* Qwen3.8: the indexer's keys are means of pools. */
static int configure_means(struct model *model, const json_t *facts, struct err *err)
{
	struct indexer *indexer = &model->indexer;
	size_t budget = 0, n_key_heads = 0;

	if (fact_size(facts, "indexer_n_heads", MAX_HEADS, &indexer->n_heads, err) ||
	    fact_size(facts, "indexer_kv_heads", MAX_HEADS, &n_key_heads, err) ||
	    fact_size(facts, "indexer_head_dim", MODEL_MAX_HEAD_DIM, &indexer->head_dim, err) ||
	    fact_size(facts, "indexer_budget", MAX_KEYS, &budget, err) ||
	    fact_size(facts, "indexer_compress_ratio", MAX_KEYS, &indexer->pool_size, err))
		return -1;
	if (n_key_heads != 1)
		return err_set(err, ERR_INPUT, "config.json: 'indexer_kv_heads' is %zu, not 1",
			       n_key_heads);
	if (budget % indexer->pool_size)
		return err_set(err, ERR_INPUT,
			       "config.json: 'indexer_budget' is %zu, not a multiple of "
			       "'indexer_compress_ratio', %zu",
			       budget, indexer->pool_size);
	indexer->layer_type = "indexed_attention";
	indexer->n_chosen = budget / indexer->pool_size;
	indexer->n_joined = (indexer->n_heads + 1) * indexer->head_dim;
	indexer->n_sets = indexer->block_size = 1;
	return 0;
}

/* Gives an indexer to all layers whose type is not linear_attention. */
static int choose_means(struct model *model, const json_t *facts, struct err *err)
{
	const json_t *types = json_object_get(facts, "layer_types");
	size_t interval = fact_count(facts, "full_attention_interval", 0);
	bool any = false;

	for (size_t i = 0; i < model->n_layers; i++) {
		const char *type = json_string_value(json_array_get(types, i));
		bool linear = json_is_array(types) ? type && !strcmp(type, "linear_attention")
						   : interval && (i + 1) % interval;

		model->layers[i].keys = linear ? KEYS_ALL : KEYS_CHOSEN;
		any |= !linear;
	}
	if (!any)
		return 0;
	if (configure_means(model, facts, err))
		return -1;
	return check_rotation(model, err);
}

static int configure(struct model *model, const json_t *facts, struct err *err)
{
	bool blocks = json_object_get(facts, "index_topk_blocks");

	if (blocks ? configure_blocks(model, facts, err) : configure_keys(model, facts, err))
		return -1;
	if (configure_heads(model, facts, err))
		return -1;
	if (blocks || model->arch->positions.indexed_types ? choose_listed(model, facts, err)
							   : choose_or_share(model, facts, err))
		return -1;
	return check_rotation(model, err);
}

int indexer_configure(struct model *model, const json_t *facts, struct err *err)
{
	json_t *all;
	int rc;

	if (model->arch->positions.mean_index)
		return choose_means(model, facts, err);
	if (!json_object_get(facts, "index_topk") && !json_object_get(facts, "index_topk_blocks"))
		return 0;
	if (json_object_get(facts, "compress_rope_theta"))
		return configure_pools(model, facts, err);
	all = facts_of_releases(facts, err);
	rc = all ? configure(model, all, err) : -1;
	json_decref(all);
	return rc;
}
