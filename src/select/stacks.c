/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks: experts of a layer in tensors of three dimensions, which stay so in the output.  Each
 * expert is a matrix by itself: no tile crosses into the next one.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "select/steps.h"
#include "names/experts.h"

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
