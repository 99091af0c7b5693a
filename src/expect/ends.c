/* SPDX-License-Identifier: Apache-2.0
 *
 * What a language model has outside of its layers: an embedding, a norm after the last layer, a
 * head unless it is tied.  Only classes that generate text are asked; a draft for
 * speculation uses the embeddings of another model.
 */
#include <stdlib.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "expect/steps.h"

/* What was found in names outside of layers. */
struct ends {
	const struct st_tensor *table; /* of hidden_size, one row for each token */
	const struct st_tensor *head;  /* "lm_head.weight" */
	const struct st_tensor *last_norm;
	size_t n_tables; /* several: of several models in one */
	bool embedding, any_head, norm, draft;
};

static bool generates(const struct model_config *config)
{
	static const char *const ends[] = { "ForCausalLM", "ForConditionalGeneration",
					    "LMHeadModel" };

	for (size_t i = 0; config->architecture && i < sizeof ends / sizeof *ends; i++)
		if (text_ends(config->architecture, ends[i]))
			return true;
	return false;
}

static bool is_draft(const char *name)
{
	return !strcmp(name, "fc.weight") || text_ends(name, "d2t") ||
	       text_ends(name, ".fc.weight");
}

/* Is the name that of a table with a row of hidden_size for each token? */
static bool is_table(const char *name)
{
	static const char *const words[] = { "embed_tokens.weight", "wte.weight",
					     "tok_embeddings.weight" };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (text_ends(name, words[i]))
			return true;
	return false;
}

static int n_dots(const char *name)
{
	int n = 0;

	while ((name = strchr(name, '.'))) {
		name++;
		n++;
	}
	return n;
}

static void look_at_matrix(const struct expect *expect, const struct st_tensor *tensor,
			   enum role role, struct ends *ends)
{
	uint64_t vocab = expect->config.size[CONFIG_VOCAB_SIZE];

	if (role == ROLE_LM_HEAD || role == ROLE_OUTPUT_HEAD) {
		ends->any_head |= strstr(tensor->name, "weight") != NULL;
		/* deeper ones are of a second model */
		if (text_ends(tensor->name, "lm_head.weight") && n_dots(tensor->name) < 3)
			ends->head = tensor;
	} else if (is_table(tensor->name)) {
		ends->n_tables++;
		ends->table = tensor;
		ends->embedding = true;
	} else if (tensor->shape[0] >= vocab / 2 && !strstr(tensor->name, "per_layer")) {
		/* not one of positions or types; ALBERT's is narrower than the layers */
		ends->embedding |= role == ROLE_EMBEDDING || role == ROLE_TABLE || vocab;
	}
}

/* Returns the length of the stack's path without its last n segments: "model." of "model.layers.".
 */
static size_t path_above(const struct stack *stack, int n)
{
	size_t len = stack->len;

	for (; n > 0 && len; n--)
		for (len--; len && stack->name[len - 1] != '.';)
			len--;
	return len;
}

/* Does the name begin with the path of the stack's parent, or of that one's, unless it is all of
 * the checkpoint? */
static bool is_beside(const struct stack *stack, const char *name, size_t *len)
{
	for (int n = 1; n <= 2; n++) {
		*len = path_above(stack, n);
		if ((n == 1 || *len) && strlen(name) > *len && !memcmp(name, stack->name, *len))
			return true;
	}
	return false;
}

/* Does the norm lie beside the layers of the language model, and is it none of embeddings, which
 * come before them? */
static bool is_last_norm(const struct expect *expect, const char *name)
{
	const char *word;
	size_t len;

	if (!is_beside(expect->main, name, &len))
		return false;
	word = name + len;
	/* LFM2's last norm is "embedding_norm" */
	return strstr(word, "embedding_norm.") == word ||
	       !(strstr(word, "emb") || strstr(word, "per_") || strstr(word, "model.") == word);
}

static void look_at(struct expect *expect, const struct st_tensor *tensor, struct ends *ends)
{
	struct role_facts facts;

	if (strstr(tensor->name, "mtp") || strstr(tensor->name, "nextn"))
		expect->predicts = true;
	role_of_name(&facts, tensor->name);
	ends->draft |= is_draft(tensor->name);
	if (facts.tower)
		return;
	if (tensor->n_dims == 2)
		look_at_matrix(expect, tensor, facts.role, ends);
	if (facts.role == ROLE_NORM && is_last_norm(expect, tensor->name)) {
		ends->norm = true;
		if (text_ends(tensor->name, "model.norm.weight"))
			ends->last_norm = tensor;
	}
}

/* Have the layers of the language model norms with weights? */
static bool has_norms(const struct expect *expect)
{
	const struct expect_layer *layer = &expect->layers[expect->main->first];

	for (size_t i = 0; i < layer->n; i++) {
		uint32_t template = expect->members[layer->first + i].template;
		size_t len;
		const char *name = expect_template_name(expect, template, &len);

		/* directly in the layer, not in its attention */
		if (expect->templates[template].facts.role == ROLE_NORM && len > 7 &&
		    !memchr(name, '.', len - 7))
			return true;
	}
	return false;
}

static bool is_tied(const struct expect *expect)
{
	return !expect->config.tie_is_stated || expect->config.tie_word_embeddings;
}

/* Has config.json a vocabulary of that size, or none? */
static bool is_vocab(const json_t *object, uint64_t size, int depth)
{
	bool found = false;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		if (strstr(key, "vocab") && json_is_integer(value))
			found |= (uint64_t)json_integer_value(value) == size;
		else if (json_is_object(value) && depth)
			found |= is_vocab(value, size, depth - 1);
	}
	return found;
}

static void report_shape(struct expect *expect, const struct st_tensor *tensor, const char *key,
			 uint64_t size)
{
	expect_add(expect, EXPECT_SHAPE, tensor->name, 1,
		   "'%s' is %s, but %s of config.json is %" PRIu64, tensor->name,
		   st_shape(tensor).text, key, size);
}

/* Checks an embedding, head or last norm. */
static void check_shape(struct expect *expect, const struct st_tensor *tensor)
{
	const uint64_t hidden = expect->config.size[CONFIG_HIDDEN_SIZE];
	const uint64_t vocab = expect->config.size[CONFIG_VOCAB_SIZE];

	if (!tensor || !tensor->n_dims)
		return;
	if ((hidden || expect->config.bad[CONFIG_HIDDEN_SIZE]) &&
	    tensor->shape[tensor->n_dims - 1] != hidden)
		report_shape(expect, tensor, "hidden_size", hidden);
	else if (tensor->n_dims == 2 && (vocab || expect->config.bad[CONFIG_VOCAB_SIZE]) &&
		 !is_vocab(expect->root, tensor->shape[0], 2))
		report_shape(expect, tensor, "vocab_size", vocab);
}

/* An embedding that is not in the module of the layers is under a name that no loader has. */
static void check_place(struct expect *expect, const struct st_tensor *table)
{
	const struct stack *stack = expect->main;
	size_t len;

	if (table &&
	    (!is_beside(stack, table->name, &len) || !strncmp(table->name + len, "model.", 6)))
		expect_add(expect, EXPECT_NAME, table->name, 1,
			   "'%s' is not in the module '%.*s' of the layers: name it so",
			   table->name, (int)path_above(stack, 1), stack->name);
}

uint64_t expect_n_mtp(const struct expect *expect, const char **key)
{
	static const char *const keys[] = { "num_nextn_predict_layers", "mtp_num_hidden_layers",
					    "num_mtp_layers", "mtp_num_layers" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		json_int_t n = json_integer_value(json_object_get(expect->level, keys[i]));

		*key = keys[i];
		if (n > 0)
			return (uint64_t)n;
	}
	return 0;
}

static void check_mtp(struct expect *expect)
{
	const char *key;
	uint64_t n = expect_n_mtp(expect, &key);

	if (n && !expect->predicts)
		expect_add(expect, EXPECT_MTP, NULL, 1,
			   "config.json has %s %" PRIu64
			   ", but no layer of multi-token prediction is here",
			   key, n);
}

void expect_ends(struct expect *expect)
{
	struct ends ends = { 0 };

	if (!expect->main)
		return;
	for (size_t i = 0; i < expect->n_outside; i++)
		look_at(expect, expect->checkpoint->by_name[expect->outside[i]].tensor, &ends);
	for (size_t i = 0; i < expect->n_stacks && !expect->predicts; i++)
		expect->predicts =
			memmem(expect->stacks[i].name, expect->stacks[i].len, "mtp", 3) ||
			memmem(expect->stacks[i].name, expect->stacks[i].len, "nextn", 5);
	if (!expect->main->is_uniform || !generates(&expect->config) || ends.draft)
		return;
	check_mtp(expect);
	if (!ends.embedding)
		expect_add(expect, EXPECT_TENSOR, NULL, 1, "the embedding of the model is missing");
	if (!ends.norm && has_norms(expect) && !expect_has_pairs(expect) &&
	    !expect_may_lack(expect, EXPECT_LAST_NORM))
		expect_add(expect, EXPECT_TENSOR, NULL, 1,
			   "the norm after the last layer is missing");
	if (!ends.any_head && !is_tied(expect) && !expect_has_pairs(expect))
		expect_add(expect, EXPECT_TENSOR, NULL, 1,
			   "lm_head is missing, and tie_word_embeddings of config.json is false");
	if (ends.n_tables > 1)
		return;
	if (!expect_has_pairs(expect))
		check_place(expect, ends.table);
	check_shape(expect, ends.table);
	check_shape(expect, ends.head);
	check_shape(expect, ends.last_norm);
}

/* --- wrapped names --- */

#define NAME_THEM "name them as the model's class does"

/* Parts of names that a wrapper of torch, peft or a parallel trainer adds, and what to do. */
static const struct {
	const char *word, *advice;
} wrappers[] = {
	{ "_orig_mod.", "convert with --rename 's/_orig_mod\\.//g'" },
	{ "base_model.model.", NAME_THEM },
	{ "_fsdp_wrapped_module.", "convert with --rename 's/_fsdp_wrapped_module\\.//g'" },
	{ "_checkpoint_wrapped_module.",
	  "convert with --rename 's/_checkpoint_wrapped_module\\.//g'" },
	{ ".modules_to_save.", NAME_THEM },
};

/* Is the word in a name outside of layers, of a stack or of a template? */
static bool is_anywhere(const struct expect *expect, const char *word)
{
	const size_t n = strlen(word);

	for (size_t i = 0; i < expect->n_outside; i++)
		if (strstr(expect->checkpoint->by_name[expect->outside[i]].tensor->name, word))
			return true;
	for (size_t i = 0; i < expect->n_stacks; i++)
		if (memmem(expect->stacks[i].name, expect->stacks[i].len, word, n))
			return true;
	return expect->names.n && memmem(expect->names.keys.data, expect->names.keys.len, word, n);
}

void expect_wrapped(struct expect *expect)
{
	for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
		const struct st_tensor *first = NULL;
		size_t n = 0;

		if (!is_anywhere(expect, wrappers[i].word))
			continue;
		for (size_t t = 0; t < expect->checkpoint->n_tensors; t++) {
			const struct st_tensor *tensor = expect->checkpoint->by_name[t].tensor;

			if (strstr(tensor->name, wrappers[i].word) && !n++)
				first = tensor;
		}
		if (n)
			expect_add(expect, EXPECT_NAME, first->name, n,
				   "'%s' has '%s' in its name, as have %zu tensors in all: %s",
				   first->name, wrappers[i].word, n, wrappers[i].advice);
	}
}
