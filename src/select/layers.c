/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines build the layers of the language model with its quantization.  Single modules outside of
 * them (a projection of embeddings, the first layer of a head) and the layers of a smaller model
 * inside the model (an audio encoder) are plain linear modules in most classes: they would load
 * codes as weights.  Both are kept, unless a row of the family says how engines load them.
 *
 * Source: vLLM 0.32, models/{colpali,colqwen3,roberta,medusa,cohere_asr,granite_speech}.py; SGLang
 * 0.5.23, models/llama_eagle3.py.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "select/steps.h"

#define MAX_DIGITS 6 /* of the number of a layer */

/* A list of layers: all names that begin with "model.layers.", of one model. */
struct layer_list {
	const char *name; /* not terminated */
	size_t n;
	uint64_t bytes;
	uint64_t n_layers;
	bool hidden; /* a matrix takes vectors of the language model's hidden size */
	bool kept;
};

struct layer_lists {
	struct intern names;
	struct layer_list *list;
	size_t last; /* that of the candidate before */
};

/* Could the candidate be quantized by its name? */
static bool is_matrix(const struct candidate *c)
{
	return c->linear && (c->facts.role == ROLE_LINEAR || candidate_is_fused(c));
}

/* Returns the length of the name up to its first number, with the dot; 0 without one.  *number
 * becomes that number. */
static size_t stack_len(const char *name, uint64_t *number)
{
	for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
		const char *at = dot + 1;

		for (*number = 0; at - dot <= MAX_DIGITS && *at >= '0' && *at <= '9'; at++)
			*number = 10 * *number + (uint64_t)(*at - '0');
		if (at > dot + 1 && *at == '.')
			return (size_t)(dot + 1 - name);
	}
	return 0;
}

/* Returns the stack of a candidate in a layer, or NULL. */
static struct layer_list *stack_of(struct layer_lists *stacks, const struct candidate *c,
				   uint64_t *number)
{
	const char *name = c->source->tensor->name;
	size_t known = stacks->names.n, n = stack_len(name, number);

	if (!n)
		return NULL;
	if (stacks->list && stacks->list[stacks->last].n == n &&
	    !memcmp(stacks->list[stacks->last].name, name, n))
		return &stacks->list[stacks->last];
	stacks->last = intern_add(&stacks->names, name, n);
	if (stacks->last == known) {
		ARRAY_GROW(stacks->list, known);
		stacks->list[known] = (struct layer_list){ .name = name, .n = n };
	}
	return &stacks->list[stacks->last];
}

static void stack_add(struct layer_list *stack, const struct candidate *c, uint64_t number,
		      uint64_t hidden)
{
	stack->bytes += st_tensor_size(c->source->tensor);
	stack->hidden |= c->cols == hidden;
	if (number >= stack->n_layers)
		stack->n_layers = number + 1;
}

static bool has_word(const struct layer_list *stack, const char *word)
{
	return memmem(stack->name, stack->n, word, strlen(word)) != NULL;
}

/* Could it be the language model's: as many layers as config.json says, of its hidden size? */
static bool may_be_main(const struct layer_list *stack, const struct model_config *config)
{
	uint64_t n_layers = config->size[CONFIG_LAYERS];

	return stack->hidden && (!n_layers || stack->n_layers == n_layers);
}

/* Returns the layers of the language model, or NULL: of several that may be, the decoder's, then
 * the largest. */
static struct layer_list *find_main(const struct layer_lists *stacks,
				    const struct model_config *config)
{
	struct layer_list *found = NULL;

	for (size_t i = 0; stacks->list && i < stacks->names.n; i++) {
		struct layer_list *stack = &stacks->list[i];
		bool decoder = config->is_encoder_decoder && has_word(stack, "decoder");

		if (!may_be_main(stack, config))
			continue;
		if (!found || (decoder && !has_word(found, "decoder")) ||
		    (decoder == (config->is_encoder_decoder && has_word(found, "decoder")) &&
		     stack->bytes > found->bytes))
			found = stack;
	}
	return found;
}

/* Returns the length of what the name has before its last word: "model." of "model.layers.". */
static size_t parent_len(const struct layer_list *stack)
{
	const char *dot = stack->n > 1 ? memrchr(stack->name, '.', stack->n - 1) : NULL;

	return dot ? (size_t)(dot + 1 - stack->name) : 0;
}

static bool is_beside(const struct layer_list *a, const struct layer_list *b)
{
	size_t n = parent_len(a);

	return parent_len(b) == n && !memcmp(a->name, b->name, n);
}

/* Whether the layers belong to the language model: they draft tokens for it, or have its hidden
 * size, and stand beside its own where config.json describes other models too. */
static bool is_own(const struct layer_list *stack, const struct layer_list *main,
		   const struct model_config *config)
{
	return stack == main || has_word(stack, "mtp") || has_word(stack, "nextn") ||
	       (stack->hidden && (!config->has_parts || is_beside(stack, main)));
}

/* Returns the number of stacks that are kept. */
static size_t mark_others(struct layer_lists *stacks, const struct model_config *config)
{
	const struct layer_list *main = find_main(stacks, config);
	size_t n = 0;

	for (size_t i = 0; main && stacks->list && i < stacks->names.n; i++) {
		stacks->list[i].kept = !is_own(&stacks->list[i], main, config);
		n += stacks->list[i].kept;
	}
	return n;
}

/* A row of the family that lets its module be quantized knows more. */
static bool is_free_to_keep(const struct candidate *c)
{
	return c->recipe && c->rule != RULE_USER && !c->profile.row && is_matrix(c);
}

void select_layers(struct select *select)
{
	const struct model_config *config = &select->config;
	struct layer_lists stacks = { 0 };
	bool any = config->model_type || config->architecture;
	size_t n_kept = 0;
	uint64_t number;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		struct layer_list *stack;

		if (!is_matrix(c) || !c->facts.in_layer)
			continue;
		any = true;
		stack = stack_of(&stacks, c, &number);
		if (stack)
			stack_add(stack, c, number, config->size[CONFIG_HIDDEN_SIZE]);
	}
	if (config->has_parts || !config->is_encoder_decoder)
		n_kept = mark_others(&stacks, config);
	for (size_t i = 0; i < select->n && any; i++) {
		struct candidate *c = &select->candidates[i];
		const struct layer_list *stack;

		if (!is_free_to_keep(c))
			continue;
		stack = c->facts.in_layer && n_kept ? stack_of(&stacks, c, &number) : NULL;
		if (!c->facts.in_layer)
			candidate_keep(c, "outside of the layers");
		else if (stack && stack->kept)
			candidate_keep(c, "not of the language model");
	}
	intern_release(&stacks.names);
	free(stacks.list);
}
