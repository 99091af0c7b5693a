/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused experts: the two tensors of a layer, in any shards, determine their layout.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "names/experts.h"
#include "names/tensor_name.h"
#include "select/steps.h"

#define MAX_MATRICES (1 << 20) /* of all fused experts; the largest models have 70,000 */

/* Returns the candidate of the tensor whose name is the first n bytes of name and a suffix, or
 * NULL. */
static struct candidate *find_sibling(const struct select *select, const char *name, size_t n,
				      const char *suffix)
{
	char *sibling = xasprintf("%.*s%s", (int)n, name, suffix);
	const struct tensor_ref *ref = checkpoint_find(select->checkpoint, sibling);

	free(sibling);
	return ref ? candidate_find(select, ref) : NULL;
}

static struct candidate *find_bias(const struct select *select, const struct candidate *c)
{
	const char *name = c->source->tensor->name;
	struct candidate *bias = find_sibling(select, name, module_len(name), "_bias");

	return bias ? bias : find_sibling(select, name, module_len(name), ".bias");
}

/* The two fused tensors of a layer; either may be missing or kept. */
struct split_layer {
	size_t gate_up, down; /* candidates, or NONE */
};

static bool is_split(const struct candidate *c)
{
	return candidate_is_fused(c) && c->stack != STACK_WHOLE;
}

static int layers_fill(struct split_layer *layers, size_t n, const struct select *select,
		       struct intern *prefixes, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		layers[i] = (struct split_layer){ NONE, NONE };
	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		const char *name = c->source->tensor->name;
		struct split_layer *layer;
		size_t *slot;

		if (!is_split(c))
			continue;
		layer = &layers[intern_add(prefixes, name, experts_layer_len(name))];
		slot = c->facts.role == ROLE_EXPERTS_GATE_UP ? &layer->gate_up : &layer->down;
		if (*slot != NONE)
			return err_set(err, ERR_INPUT,
				       "tensors '%s' and '%s' hold the same experts",
				       select->candidates[*slot].source->tensor->name, name);
		*slot = i;
	}
	return 0;
}

static int check_bias_shape(const struct candidate *c, const struct candidate *bias,
			    const struct experts_layout *layout, struct err *err)
{
	const struct st_tensor *tensor = bias->source->tensor;
	bool down = c->facts.role == ROLE_EXPERTS_DOWN;

	if (tensor->n_dims == 2 && tensor->shape[0] == layout->n_experts &&
	    tensor->shape[1] == (down ? layout->hidden : 2 * layout->width) &&
	    dtype_is_float(tensor->dtype))
		return 0;
	return err_set(err, ERR_INPUT,
		       "bias '%s' does not fit experts '%s': use --exclude to keep them",
		       tensor->name, c->source->tensor->name);
}

/* Experts with biases are GPT-OSS's: their gate and up take turns.  No size shows it, so that
 * anything else with biases is refused.  Low-bit ones are stored as [experts, out, in]. */
static int resolve_biases(struct select *select, const struct split_layer *layer,
			  struct experts_layout *layout, struct err *err)
{
	const size_t members[2] = { layer->gate_up, layer->down };
	struct candidate *biases[2] = { NULL };
	const struct candidate *with = NULL, *without = NULL;

	for (int m = 0; m < 2; m++) {
		const struct candidate *c = &select->candidates[members[m]];

		if (members[m] == NONE)
			continue;
		biases[m] = find_bias(select, c);
		if (!biases[m]) {
			without = c;
			continue;
		}
		with = c;
		if (check_bias_shape(c, biases[m], layout, err))
			return -1;
		biases[m]->bias_of = (uint32_t)members[m];
	}
	layout->interleaved = with != NULL;
	if (with && without)
		return err_set(err, ERR_INPUT,
			       "experts '%s' have biases, but '%s' have none: use --exclude to "
			       "keep them",
			       with->source->tensor->name, without->source->tensor->name);
	if (with && !layout->transposed && !with->low_bit)
		return err_set(err, ERR_INPUT,
			       "experts '%s' have biases, but are not transposed as GPT-OSS's "
			       "are, so that gate and up cannot be told apart: use --exclude to "
			       "keep them",
			       with->source->tensor->name);
	return 0;
}

/* ERR_INPUT where the matrices of FP8 experts do not begin with a scale of their own. */
static int check_scales(const struct candidate *c, const struct experts_layout *layout,
			struct err *err)
{
	const struct weight_scale *scale = c->source_scale;
	const char *why;

	if (!scale || !scale->scale)
		return 0;
	if (layout->transposed)
		why = "are transposed";
	else if (layout->interleaved)
		why = "have rows of gate and up in turn";
	else if (c->facts.role != ROLE_EXPERTS_DOWN && scale->tile.rows != WHOLE &&
		 layout->width % scale->tile.rows)
		why = "have blocks of both gate and up";
	else
		return 0;
	return err_set(err, ERR_INPUT,
		       "FP8 experts '%s' %s, which --requantize cannot read: use 'fp8conv "
		       "dequantize' first",
		       c->source->tensor->name, why);
}

static void set_layout(struct candidate *c, const struct experts_layout *layout)
{
	bool down = c->facts.role == ROLE_EXPERTS_DOWN;
	struct slice slice;

	c->layout = xmalloc(sizeof *c->layout);
	*c->layout = *layout;
	c->facts.parallel = down ? PARALLEL_ROW : PARALLEL_COLUMN;
	experts_matrix(layout, down ? EXPERT_DOWN : EXPERT_GATE, 0, &c->rows, &c->cols, &slice);
}

static int layer_resolve(struct select *select, const struct split_layer *layer, struct err *err)
{
	size_t members[2] = { layer->gate_up, layer->down };
	struct experts_tensor tensors[2] = { { 0 } };
	struct experts_layout layout;

	for (int m = 0; m < 2; m++) {
		const struct candidate *c;

		if (members[m] == NONE)
			continue;
		c = &select->candidates[members[m]];
		if (!c->recipe)
			return 0; /* the other tensor is kept too */
		tensors[m] = (struct experts_tensor){ c->source->tensor->name,
						      c->source->tensor->shape };
	}
	if (experts_layout_find(&layout, &tensors[0], &tensors[1], &select->config, err) ||
	    resolve_biases(select, layer, &layout, err))
		return -1;
	for (int m = 0; m < 2; m++) {
		if (members[m] == NONE)
			continue;
		if (check_scales(&select->candidates[members[m]], &layout, err))
			return -1;
		set_layout(&select->candidates[members[m]], &layout);
	}
	return 0;
}

/* Limits the memory of the plan before it is made: a few bytes of a file can declare 65,536
 * experts. */
static int check_count(const struct select *select, struct err *err)
{
	uint64_t n = 0;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];

		if (!c->layout)
			continue;
		n += candidate_n_units(select, c);
		if (n > MAX_MATRICES)
			return err_set(err, ERR_INPUT,
				       "experts '%s' and the experts before them are %" PRIu64
				       " matrices, more than %d: use --exclude to keep them",
				       c->source->tensor->name, n, MAX_MATRICES);
	}
	return 0;
}

int select_experts(struct select *select, struct err *err)
{
	struct intern prefixes = { 0 };
	struct split_layer *layers;
	size_t n_fused = 0;
	int rc;

	for (size_t i = 0; select->any_fused && i < select->n; i++)
		n_fused += is_split(&select->candidates[i]);
	if (!n_fused)
		return 0;
	layers = xcalloc(n_fused, sizeof *layers);
	rc = layers_fill(layers, n_fused, select, &prefixes, err);
	for (size_t i = 0; !rc && i < prefixes.n; i++)
		rc = layer_resolve(select, &layers[i], err);
	free(layers);
	intern_release(&prefixes);
	return rc ? rc : check_count(select, err);
}

/* --- stacks: experts of a layer in tensors of three dimensions, which stay so in the output.  Each
 * expert is a matrix by itself: no tile crosses into the next one --- */

void candidate_stack(struct candidate *c, enum stack_mode mode)
{
	const struct st_tensor *tensor = c->source->tensor;
	enum experts_content content = experts_content(tensor->name);

	if (tensor->n_dims != 3 || content == EXPERTS_UNKNOWN)
		return;
	c->stack = mode;
	c->facts.role = content == EXPERTS_DOWN ? ROLE_EXPERTS_DOWN : ROLE_EXPERTS_GATE_UP;
	c->facts.parallel = content == EXPERTS_DOWN	 ? PARALLEL_ROW
			    : content == EXPERTS_GATE_UP ? PARALLEL_GATE_UP
							 : PARALLEL_COLUMN;
}

/* The stacks of a layer. */
struct stacked_layer {
	const struct candidate *first; /* NULL: none yet */
	struct experts_layout layout;  /* of the first */
	bool gate_up, down;	       /* some hold gate or up, some down */
};

static int refuse_pair(const struct candidate *a, const struct candidate *b, struct err *err)
{
	const struct st_tensor *x = a->source->tensor, *y = b->source->tensor;

	return err_set(err, ERR_INPUT,
		       "experts '%s' %s and '%s' %s do not fit each other: use --exclude to keep "
		       "the experts unchanged",
		       x->name, st_shape(x).text, y->name, st_shape(y).text);
}

static int layer_add(struct stacked_layer *layer, struct candidate *c, struct err *err)
{
	const struct st_tensor *tensor = c->source->tensor;
	const struct experts_tensor experts = { tensor->name, tensor->shape };
	struct experts_layout layout;

	if (experts_stack_sizes(&layout, &experts, err))
		return -1;
	if (!layer->first) {
		layer->first = c;
		layer->layout = layout;
	}
	layer->gate_up |= c->facts.role == ROLE_EXPERTS_GATE_UP;
	layer->down |= c->facts.role == ROLE_EXPERTS_DOWN;
	c->rows = tensor->shape[1];
	c->cols = tensor->shape[2];
	if (layout.n_experts != layer->layout.n_experts || layout.hidden != layer->layout.hidden ||
	    layout.width != layer->layout.width)
		return refuse_pair(layer->first, c, err);
	return 0;
}

/* Gate and up agree in any order of their dimensions, and down agrees with itself: without the
 * others, config decides. */
static int layer_check(const struct stacked_layer *layer, const struct model_config *config,
		       struct err *err)
{
	uint64_t hidden = config->size[CONFIG_HIDDEN_SIZE];

	if (!layer->first || (layer->gate_up && layer->down) || !hidden ||
	    layer->layout.hidden == hidden)
		return 0;
	return err_set(err, ERR_INPUT,
		       "experts '%s' of width %" PRIu64 " do not fit hidden_size %" PRIu64
		       " of config.json: use --exclude to keep the experts unchanged",
		       layer->first->source->tensor->name, layer->layout.hidden, hidden);
}

static bool is_stack(const struct candidate *c)
{
	return c->stack == STACK_WHOLE && c->recipe;
}

int select_stacks(struct select *select, struct err *err)
{
	struct intern prefixes = { 0 };
	struct stacked_layer *layers;
	size_t n = 0;
	int rc = 0;

	for (size_t i = 0; select->any_fused && i < select->n; i++)
		n += is_stack(&select->candidates[i]);
	layers = xcalloc(n, sizeof *layers);
	for (size_t i = 0; i < select->n && n && !rc; i++) {
		struct candidate *c = &select->candidates[i];
		const char *name = c->source->tensor->name;

		if (is_stack(c))
			rc = layer_add(
				&layers[intern_add(&prefixes, name, experts_layer_len(name))], c,
				err);
	}
	for (size_t i = 0; i < prefixes.n && !rc; i++)
		rc = layer_check(&layers[i], &select->config, err);
	intern_release(&prefixes);
	free(layers);
	return rc;
}
