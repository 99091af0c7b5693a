/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of one name have one shape in layers of one kind, and in all experts of a layer.  One
 * layer that differs from all others is damaged; where several differ, the model chose so (its
 * layers have sizes of their own, or two kinds of attention share names).
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "expect/steps.h"

/* A tensor of a layer, to be compared with tensors of the same name. */
struct one {
	uint32_t declared, template, stack;
	uint32_t number; /* of its layer */
	uint32_t tensor; /* in by_name */
	bool branch;	 /* not of the language model */
};

COMPARISON(by_name, struct one,
	   ORDER(x->stack, y->stack) ?: ORDER(x->declared, y->declared)
		   ?: ORDER(x->template, y->template))

static const struct st_tensor *tensor_of(const struct expect *expect, uint32_t tensor)
{
	return expect->checkpoint->by_name[tensor].tensor;
}

static void report(struct expect *expect, const struct st_tensor *odd, const struct st_tensor *like,
		   const char *of)
{
	expect_add(expect, EXPECT_SHAPE, odd->name, 1,
		   "'%s' is %s, but '%s' and the same tensor of %s are %s", odd->name,
		   st_shape(odd).text, like->name, of, st_shape(like).text);
}

/* Compares n tensors of one name, at least one. */
static void compare(struct expect *expect, const struct one *ones, size_t n, const char *of)
{
	const struct st_tensor *major = tensor_of(expect, ones[0].tensor), *odd = NULL;
	size_t votes = 0, n_odd = 0;

	/* the shape of more than half, if there is one, wins this vote */
	for (size_t i = 0; i < n; i++) {
		const struct st_tensor *tensor = tensor_of(expect, ones[i].tensor);

		if (!votes)
			major = tensor;
		votes += st_same_shape(major, tensor) ? 1 : (size_t)-1;
	}
	for (size_t i = 0; i < n; i++) {
		const struct st_tensor *tensor = tensor_of(expect, ones[i].tensor);

		/* experts in one tensor have 3 */
		if (!expect_is_plain(tensor) ||
		    (major->n_dims != tensor->n_dims && major->n_dims + tensor->n_dims > 3))
			return;
		if (st_same_shape(major, tensor))
			continue;
		odd = tensor;
		n_odd++;
		/* the first layer of an encoder has the width of its input */
		if (ones[i].number == 0 && ones[i].branch)
			return;
	}
	if (n_odd == 1)
		report(expect, odd, major, of);
}

/* Compares the experts of a layer, of which there are several. */
static void compare_experts(struct expect *expect, const struct expect_member *member)
{
	const struct cell *cell = &expect->cells[member->cell];
	struct one *ones;
	size_t n = 0;

	if (cell->expert == EXPECT_NONE)
		return;
	ones = xcalloc(member->n, sizeof *ones);
	for (; n < member->n && cell + n < expect->cells + expect->n_cells; n++)
		ones[n].tensor = cell[n].tensor;
	compare(expect, ones, n, "the other experts");
	free(ones);
}

void expect_shapes(struct expect *expect)
{
	struct one *ones = NULL;
	size_t n = 0;

	for (uint32_t l = 0; l < expect->n_layers; l++)
		for (size_t m = 0; m < expect->layers[l].n; m++) {
			const struct expect_layer *layer = &expect->layers[l];
			const struct stack *stack = &expect->stacks[layer->stack];
			const struct expect_member *member = &expect->members[layer->first + m];

			if (!stack->is_uniform)
				continue;
			compare_experts(expect, member);
			ARRAY_GROW(ones, n);
			ones[n++] = (struct one){ layer->declared,
						  member->template,
						  layer->stack,
						  layer->number,
						  expect->cells[member->cell].tensor,
						  stack != expect->main };
		}
	sort(ones, n, sizeof *ones, by_name);
	for (size_t i = 0, run; i < n; i += run) {
		for (run = 1; i + run < n && !by_name(&ones[i], &ones[i + run]); run++)
			;
		compare(expect, ones + i, run, run > 2 ? "the other layers" : "its layer");
	}
	free(ones);
}
