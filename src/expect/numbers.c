/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a stack are numbered from 0 without a gap.  The language model has
 * num_hidden_layers; only layers of multi-token prediction have higher numbers.  An encoder has the
 * layers and the sizes that config.json gives it.
 */
#include <inttypes.h>
#include <string.h>

#include "expect/steps.h"

#define MIN_NAMES	3 /* of a layer: modules between activations have fewer, and skip numbers */
#define MIN_LAYERS	4 /* of a branch beside the language model */
#define MAX_PARTS_DEPTH 2 /* objects around that of an encoder */

/* Is the template a norm of the layer itself, as "input_layernorm.weight" or BERT's
 * "attention.output.LayerNorm.weight", and none in its attention? */
static bool is_outer_norm(const struct expect *expect, uint32_t template)
{
	static const char bert[] = "output.LayerNorm.";
	size_t len;
	const char *name = expect_template_name(expect, template, &len);
	const char *dot = memchr(name, '.', len), *end = name + len;

	if (!dot)
		return false;
	if (len > 3 && !memcmp(name, "ln", 2) && name[2] >= '0' && name[2] <= '9')
		return true; /* RWKV */
	if (expect->templates[template].facts.role != ROLE_NORM)
		return false;
	if (memmem(name, len, bert, sizeof bert - 1))
		return true;
	while (++dot < end && (*dot == '.' || (*dot >= '0' && *dot <= '9')))
		;
	return !memchr(dot, '.', (size_t)(end - dot));
}

/* Returns the smallest and the largest number of such norms in a layer of the stack. */
static void count_norms(const struct expect *expect, const struct stack *stack, size_t *least,
			size_t *most)
{
	*least = SIZE_MAX;
	*most = 0;
	for (size_t i = 0; i < stack->n; i++) {
		const struct expect_layer *layer = &expect->layers[stack->first + i];
		size_t n = 0;

		for (size_t m = 0; m < layer->n; m++)
			n += is_outer_norm(expect, expect->members[layer->first + m].template);
		*least = n < *least ? n : *least;
		*most = n > *most ? n : *most;
	}
}

/* Is the stack a cut of a model, as tests of names are: layers, or some of them, without their
 * norms? */
static bool is_cut(const struct expect *expect, const struct stack *stack, size_t least,
		   size_t most)
{
	uint64_t n_layers = expect->config.size[CONFIG_LAYERS];

	if (!n_layers)
		n_layers = (uint64_t)expect->layers[stack->first + stack->n - 1].number + 1;
	return !most || (stack->n < n_layers && (!least || (most == 1 && stack->n == 1)));
}

void expect_judge(struct expect *expect)
{
	for (size_t s = 0; s < expect->n_stacks; s++) {
		struct stack *stack = &expect->stacks[s];
		size_t n = 0, least, most;

		count_norms(expect, stack, &least, &most);
		stack->is_normed = least > 0;
		for (size_t i = 0; i < stack->n; i++)
			n += expect->layers[stack->first + i].n >= MIN_NAMES;
		stack->is_layers = n == stack->n && n;
		if (stack != expect->main)
			stack->is_uniform = stack->is_layers && n >= MIN_LAYERS;
		else if (is_cut(expect, stack, least, most))
			stack->is_layers = false;
		else
			stack->is_uniform = true;
	}
}

/* Is the layer one of multi-token prediction? */
static bool predicts(const struct expect *expect, const struct expect_layer *layer)
{
	for (size_t i = 0; i < layer->n; i++) {
		uint32_t template = expect->members[layer->first + i].template;
		size_t len;
		const char *name = expect_template_name(expect, template, &len);

		if (expect->templates[template].facts.role == ROLE_MTP ||
		    (len >= 5 && (!memcmp(name, "enorm", 5) || !memcmp(name, "hnorm", 5))))
			return true;
	}
	return false;
}

/* Adds "3", or "3 to 5", to a list. */
static void put_range(struct buf *text, uint64_t first, uint64_t last)
{
	buf_printf(text, "%s%" PRIu64, text->len ? ", " : "", first);
	if (last > first)
		buf_printf(text, " to %" PRIu64, last);
}

/* Lists the numbers below end that no layer has, and returns how many there are. */
static uint64_t list_missing(const struct expect *expect, const struct stack *stack, uint64_t end,
			     struct buf *text)
{
	uint64_t next = 0, n = 0;

	for (size_t i = 0; i <= stack->n; i++) {
		uint64_t number = i < stack->n ? expect->layers[stack->first + i].number : end;

		if (number > end)
			number = end;
		if (number > next) {
			if (text->len < 100)
				put_range(text, next, number - 1);
			n += number - next;
		}
		if (number + 1 > next)
			next = number + 1;
	}
	return n;
}

static void check_missing(struct expect *expect, const struct stack *stack, uint64_t end,
			  bool configured)
{
	const int len = (int)stack->len - 1;
	struct buf text = { 0 };
	uint64_t n = list_missing(expect, stack, end, &text);

	if (n && configured)
		expect_add(expect, EXPECT_LAYER, NULL, 1,
			   "layer%s %s of '%.*s' %s missing: config.json counts %" PRIu64
			   " layers, and %zu are here",
			   n == 1 ? "" : "s", text.data, len, stack->name, n == 1 ? "is" : "are",
			   end, stack->n);
	else if (n)
		expect_add(expect, EXPECT_LAYER, NULL, 1,
			   "layer%s %s of '%.*s' %s missing below layer %" PRIu64,
			   n == 1 ? "" : "s", text.data, len, stack->name, n == 1 ? "is" : "are",
			   end - 1);
	buf_release(&text);
}

/* Layers that config.json does not count. */
static void check_beyond(struct expect *expect, const struct stack *stack, uint64_t end)
{
	const char *key;
	uint64_t n_mtp = expect_n_mtp(expect, &key);

	for (size_t i = 0; i < stack->n; i++) {
		const struct expect_layer *layer = &expect->layers[stack->first + i];

		if (layer->number < end)
			continue;
		if (predicts(expect, layer) || layer->number - end < n_mtp)
			expect->predicts = true;
		if (expect->predicts)
			continue;
		expect_add(expect, EXPECT_LAYER, NULL, 1,
			   "layer %" PRIu32
			   " of '%.*s' is one too many: config.json counts %" PRIu64
			   " layers, from 0 on",
			   layer->number, (int)stack->len - 1, stack->name, end);
		return;
	}
}

/* Has a tensor that size?  A width of layers is that of their vectors. */
static bool has_size(const struct st_tensor *tensor, uint64_t size, bool vector)
{
	for (int i = 0; i < tensor->n_dims && (!vector || tensor->n_dims == 1); i++)
		if (tensor->shape[i] == size || (!vector && tensor->shape[i] == 2 * size))
			return true;
	return false;
}

/* Has a tensor that size that is not in the language model's layers? */
static bool tower_has(const struct expect *expect, uint64_t size, bool vector)
{
	for (size_t l = 0; l < expect->n_layers; l++) {
		const struct expect_layer *layer = &expect->layers[l];

		if (expect->main == &expect->stacks[layer->stack])
			continue;
		for (size_t m = 0; m < layer->n; m++)
			if (has_size(expect_tensor(expect, &expect->members[layer->first + m]),
				     size, vector))
				return true;
	}
	for (size_t i = 0; i < expect->n_outside; i++)
		if (has_size(expect->checkpoint->by_name[expect->outside[i]].tensor, size, vector))
			return true;
	return false;
}

/* Checks the layers and sizes that config.json gives an encoder. */
static void check_tower(struct expect *expect, const char *part, const json_t *object)
{
	static const char *const counts[] = { "num_hidden_layers", "depth", "encoder_layers",
					      "num_layers" };
	static const struct {
		const char *key;
		bool vector;
	} dims[] = { { "hidden_size", true },
		     { "d_model", true },
		     { "embed_dim", true },
		     { "intermediate_size", false },
		     { "encoder_ffn_dim", false } };
	bool any = false, found = false;
	json_int_t n = 0;
	size_t i = 0;

	for (; i < 4 && !(n = json_integer_value(json_object_get(object, counts[i]))); i++)
		;
	for (size_t s = 0; s < expect->n_stacks; s++) {
		any |= expect->stacks[s].tower && expect->stacks[s].is_layers;
		found |= expect->stacks[s].tower && expect->stacks[s].n == (uint64_t)n;
	}
	if (!any)
		return;
	if (n > 0 && !found)
		expect_add(expect, EXPECT_LAYER, NULL, 1,
			   "%s of %s in config.json is %" PRId64
			   ", but no stack of an encoder has as many layers",
			   counts[i], part, (int64_t)n);
	for (i = 0; i < sizeof dims / sizeof *dims; i++) {
		n = json_integer_value(json_object_get(object, dims[i].key));
		if (n > 0 && !tower_has(expect, (uint64_t)n, dims[i].vector) &&
		    (i || !json_object_get(object, "embed_dim")))
			expect_add(expect, EXPECT_SHAPE, NULL, 1,
				   "%s of %s in config.json is %" PRId64
				   ", but no tensor of an encoder has it",
				   dims[i].key, part, (int64_t)n);
	}
}

static void check_towers(struct expect *expect, const json_t *object, int depth)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value)
	{
		if (!json_is_object(value))
			continue;
		if (!strcmp(key, "vision_config") || !strcmp(key, "audio_config"))
			check_tower(expect, key, value);
		else if (depth < MAX_PARTS_DEPTH)
			check_towers(expect, value, depth + 1);
	}
}

void expect_numbers(struct expect *expect)
{
	uint64_t n_layers = expect->config.size[CONFIG_LAYERS];

	if (expect_has_pairs(expect))
		n_layers = 0;
	if (expect->main && expect->main->is_uniform && !n_layers &&
	    expect->config.bad[CONFIG_LAYERS])
		expect_add(expect, EXPECT_LAYER, NULL, 1,
			   "num_hidden_layers of config.json is 0, but %zu layers are here",
			   expect->main->n);
	for (size_t i = 0; i < expect->n_stacks; i++) {
		const struct stack *stack = &expect->stacks[i];
		uint64_t end = (uint64_t)expect->layers[stack->first + stack->n - 1].number + 1;
		bool configured = stack == expect->main && n_layers;

		if (!stack->is_layers || (stack->n == 1 && !configured))
			continue;
		check_missing(expect, stack, configured ? n_layers : end, configured);
		if (configured)
			check_beyond(expect, stack, n_layers);
	}
	check_towers(expect, expect->root, 0);
}
