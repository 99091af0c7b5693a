/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells, layers and stacks out of names.  Names are in order, so that the layer of a name is nearly
 * always that of the name before it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "expect/steps.h"

#define N_RECENT 8

/* What the names before left behind. */
struct reader {
	struct intern stacks; /* "model.layers." */
	struct intern layers; /* a stack and a number */
	struct buf rest;
	const char *name; /* that was split last; NULL: none */
	struct layer_name split;
	const char *last; /* name of the layer that was found last */
	size_t last_len;  /* with the dot after its number */
	uint32_t layer;
	size_t n_recent; /* templates of the experts that the last name is of */
	struct {
		const char *end; /* of a name, after the expert's number */
		uint32_t template;
	} recent[N_RECENT];
};

static uint32_t add_stack(struct expect *expect, struct reader *reader, const char *name,
			  size_t len)
{
	size_t n = reader->stacks.n, number = intern_add(&reader->stacks, name, len);
	struct role_facts facts;
	char *path;

	if (number < n)
		return (uint32_t)number;
	path = xasprintf("%.*s0.linear.weight", (int)len, name);
	role_of_name(&facts, path);
	free(path);
	ARRAY_GROW(expect->stacks, n);
	expect->stacks[number] = (struct stack){ .name = name, .len = len, .tower = facts.tower };
	expect->n_stacks++;
	return (uint32_t)number;
}

static uint32_t find_layer(struct expect *expect, struct reader *reader, const char *name,
			   const struct layer_name *split)
{
	uint32_t key[2];
	size_t n = reader->layers.n, number;

	if (reader->last && split->rest == reader->last_len &&
	    !memcmp(reader->last, name, split->rest))
		return reader->layer;
	key[0] = add_stack(expect, reader, name, split->stack_len);
	key[1] = split->layer;
	number = intern_add(&reader->layers, key, sizeof key);
	if (number == n) {
		ARRAY_GROW(expect->layers, n);
		expect->layers[n] = (struct expect_layer){ .stack = key[0], .number = key[1] };
		expect->n_layers++;
	}
	reader->last = name;
	reader->last_len = split->rest;
	reader->layer = (uint32_t)number;
	return reader->layer;
}

static void add_cell(struct expect *expect, struct cell cell)
{
	if (expect->templates[cell.template].ignored)
		return;
	ARRAY_GROW(expect->cells, expect->n_cells);
	expect->cells[expect->n_cells++] = cell;
}

/* Is it a name of the experts that the last name is of, with an end that was seen?  Then splits it,
 * which is most of the work where a model has many experts. */
static bool find_recent(struct reader *reader, const char *name, uint32_t *template)
{
	struct layer_name *split = &reader->split;
	const char *begin = name + split->expert_at, *end = begin;
	uint32_t number = 0;

	if (!split->expert_at || strncmp(reader->name, name, split->expert_at) != 0) {
		reader->n_recent = 0;
		return false;
	}
	for (; *end >= '0' && *end <= '9' && end < begin + 9; end++)
		number = 10 * number + (uint32_t)(*end - '0');
	for (size_t i = 0; i < reader->n_recent && end > begin; i++)
		if (!strcmp(reader->recent[i].end, end)) {
			split->expert = number;
			*template = reader->recent[i].template;
			return true;
		}
	return false;
}

/* Returns the template of a name that was split. */
static uint32_t find_template(struct expect *expect, struct reader *reader,
			      const struct st_tensor *tensor)
{
	const struct layer_name *split = &reader->split;
	size_t n_templates = expect->names.n;
	uint32_t template;

	reader->rest.len = 0;
	layer_name_template(split, tensor->name, &reader->rest);
	template = expect_template(expect, reader->rest.data, reader->rest.len);
	if (template >= n_templates)
		expect_template_learn(expect, template, tensor, split);
	if (split->expert_at && reader->n_recent < N_RECENT) {
		reader->recent[reader->n_recent].end =
			strchrnul(tensor->name + split->expert_at, '.');
		reader->recent[reader->n_recent++].template = template;
	}
	return template;
}

static void read_name(struct expect *expect, struct reader *reader, uint32_t i)
{
	const struct st_tensor *tensor = expect->checkpoint->by_name[i].tensor;
	struct cell cell = { .tensor = i, .expert = EXPECT_NONE };
	struct layer_name *split = &reader->split;
	bool recent = find_recent(reader, tensor->name, &cell.template);
	const uint32_t *parts;

	if (!recent)
		layer_name_next(split, reader->name, tensor->name);
	reader->name = tensor->name;
	if (!split->expert_at || !split->expert) {
		ARRAY_GROW(expect->outline, expect->n_outline);
		expect->outline[expect->n_outline++] = expect->checkpoint->by_name[i];
	}
	if (!split->stack_len) {
		ARRAY_GROW(expect->outside, expect->n_outside);
		expect->outside[expect->n_outside++] = i;
		return;
	}
	cell.layer = find_layer(expect, reader, tensor->name, split);
	if (!recent)
		cell.template = find_template(expect, reader, tensor);
	expect->stacks[expect->layers[cell.layer].stack].bytes += st_tensor_size(tensor);
	if (split->expert_at)
		cell.expert = split->expert;
	parts = expect->templates[cell.template].parts;
	if (parts[0] == EXPECT_NONE) {
		add_cell(expect, cell);
		return;
	}
	for (int part = 0; part < 2 && parts[part] != EXPECT_NONE; part++) {
		cell.template = parts[part];
		add_cell(expect, cell);
	}
}

/* A layer and its place before they were sorted. */
struct placed {
	struct expect_layer layer;
	uint32_t place;
};

COMPARISON(by_number, struct placed,
	   ORDER(x->layer.stack, y->layer.stack) ?: ORDER(x->layer.number, y->layer.number))

/* Sorts the layers, and lets cells and stacks know. */
static void sort_layers(struct expect *expect)
{
	struct placed *placed = xcalloc(expect->n_layers, sizeof *placed);
	uint32_t *places = xcalloc(expect->n_layers, sizeof *places);

	for (size_t i = 0; i < expect->n_layers; i++)
		placed[i] = (struct placed){ expect->layers[i], (uint32_t)i };
	sort(placed, expect->n_layers, sizeof *placed, by_number);
	for (size_t i = 0; i < expect->n_layers; i++) {
		struct stack *stack = &expect->stacks[placed[i].layer.stack];

		expect->layers[i] = placed[i].layer;
		places[placed[i].place] = (uint32_t)i;
		if (!stack->n++)
			stack->first = i;
	}
	for (size_t i = 0; i < expect->n_cells; i++)
		expect->cells[i].layer = places[expect->cells[i].layer];
	free(places);
	free(placed);
}

static uint32_t key_of(const struct cell *cell, bool by_layer)
{
	return by_layer ? cell->layer : cell->template;
}

/* Sorts cells by a key below n, and keeps the order of equal ones. */
static void sort_cells(struct expect *expect, bool by_layer, size_t n)
{
	size_t *ends = xcalloc(n + 1, sizeof *ends);
	struct cell *sorted = xreallocarray(NULL, expect->n_cells + 1, sizeof *sorted);

	for (size_t i = 0; i < expect->n_cells; i++)
		ends[key_of(&expect->cells[i], by_layer) + 1]++;
	for (size_t i = 0; i < n; i++)
		ends[i + 1] += ends[i];
	for (size_t i = 0; i < expect->n_cells; i++)
		sorted[ends[key_of(&expect->cells[i], by_layer)]++] = expect->cells[i];
	free(ends);
	free(expect->cells);
	expect->cells = sorted;
}

/* Counts a cell in its member; cells of one member follow each other. */
static void count_cell(const struct expect *expect, struct expect_member *member, size_t i)
{
	const struct tensor_ref *by_name = expect->checkpoint->by_name;
	const struct cell *cell = &expect->cells[i];
	const struct st_tensor *tensor = by_name[cell->tensor].tensor;
	uint32_t n = 1, end = 1;

	if (cell->expert != EXPECT_NONE)
		end = cell->expert + 1;
	else if (expect->templates[cell->template].expert && tensor->n_dims > 1)
		n = end = tensor->shape[0] < EXPECT_NONE ? (uint32_t)tensor->shape[0] : EXPECT_NONE;
	/* a survey keeps both tensors of one name */
	if (i != member->cell && !strcmp(tensor->name, by_name[cell[-1].tensor].tensor->name))
		return;
	member->n += n;
	member->end = end > member->end ? end : member->end;
}

static void make_members(struct expect *expect)
{
	struct expect_member *member = NULL;
	size_t n = 0;

	for (size_t i = 0; i < expect->n_cells; i++) {
		const struct cell *cell = &expect->cells[i];
		struct expect_layer *layer = &expect->layers[cell->layer];

		if (!member || !layer->n || member->template != cell->template) {
			if (!layer->n++)
				layer->first = n;
			ARRAY_GROW(expect->members, n);
			member = &expect->members[n++];
			*member = (struct expect_member){ cell->template, (uint32_t)i, 0, 0 };
		}
		count_cell(expect, member, i);
	}
}

/* The language model's stack has the most bytes. */
static void find_main(struct expect *expect)
{
	for (size_t i = 0; i < expect->n_stacks; i++) {
		const struct stack *stack = &expect->stacks[i];

		if (!stack->tower && (!expect->main || stack->bytes > expect->main->bytes))
			expect->main = stack;
	}
}

/* Sets the kinds and classes of layers. */
static void classify(struct expect *expect)
{
	struct intern classes = { 0 };
	struct buf key = { 0 };

	find_main(expect);
	for (size_t i = 0; i < expect->n_layers; i++) {
		struct expect_layer *layer = &expect->layers[i];

		if (expect->main && &expect->stacks[layer->stack] == expect->main)
			layer->declared = expect_declared(expect, layer->number);
		key.len = 0;
		buf_add(&key, &layer->declared, sizeof layer->declared);
		buf_add(&key, &layer->stack, sizeof layer->stack);
		for (size_t m = 0; m < layer->n; m++)
			buf_add(&key, &expect->members[layer->first + m].template,
				sizeof(uint32_t));
		layer->class = (uint32_t)intern_add(&classes, key.data, key.len);
	}
	buf_release(&key);
	intern_release(&classes);
}

void expect_layers(struct expect *expect)
{
	struct reader reader = { 0 };

	for (size_t i = 0; i < expect->checkpoint->n_tensors; i++)
		read_name(expect, &reader, (uint32_t)i);
	sort_layers(expect);
	sort_cells(expect, false, expect->names.n);
	sort_cells(expect, true, expect->n_layers);
	make_members(expect);
	classify(expect);
	intern_release(&reader.stacks);
	intern_release(&reader.layers);
	buf_release(&reader.rest);
}

const struct expect_member *expect_member(const struct expect *expect,
					  const struct expect_layer *layer, uint32_t template)
{
	const struct expect_member *members = &expect->members[layer->first];
	size_t i;

	SEARCH(i, layer->n, template > members[i].template);
	if (i < layer->n && members[i].template == template)
		return &members[i];
	return NULL;
}
