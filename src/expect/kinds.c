/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of one kind have the same names.  A class is a set of names; the class of one layer, or of
 * a few at random, that lacks names of a larger one is a damaged layer of that class.  A class of
 * more layers is a kind of its own: hybrids, first dense layers, layers that share a cache.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "expect/steps.h"

#define MAX_CLASSES 64 /* of a stack; above, each layer is its own kind */
#define RARE	    8  /* layers that must have a name for each one that lacks it */

/* The layers of one class. */
struct class
{
	const struct expect_layer *first;
	size_t n;
	uint32_t *numbers; /* of the layers */
};

/* Do the numbers look chosen: a run at the begin or end of n_layers layers, or in equal steps? */
static bool are_regular(const uint32_t *numbers, size_t n, uint64_t n_layers)
{
	uint32_t step = n > 1 ? numbers[1] - numbers[0] : 0;

	for (size_t i = 1; i < n; i++)
		if (numbers[i] - numbers[i - 1] != step)
			return false;
	return n > 1 && (n > 2 || step != 1 || numbers[0] == 0 || numbers[n - 1] + 1 == n_layers);
}

/* Returns the name that a layer's tensor would have after that of another layer of its stack.  The
 * caller frees it. */
static char *name_in(const struct expect *expect, const struct expect_layer *layer,
		     const struct expect_member *like)
{
	const struct stack *stack = &expect->stacks[layer->stack];
	const char *name = expect_tensor(expect, like)->name;

	return xasprintf("%.*s%" PRIu32 ".%s", (int)stack->len, stack->name, layer->number,
			 strchr(name + stack->len, '.') + 1);
}

/* Returns the number of names that b has and a lacks, or SIZE_MAX where a has one that b lacks. */
static size_t n_lacking(const struct expect *expect, const struct expect_layer *a,
			const struct expect_layer *b)
{
	const struct expect_member *x = expect->members + a->first, *x_end = x + a->n;
	const struct expect_member *y = expect->members + b->first, *y_end = y + b->n;

	if (a->n >= b->n)
		return SIZE_MAX;
	for (; x < x_end; x++, y++) {
		while (y < y_end && y->template <x->template)
			y++;
		if (y == y_end || y->template != x->template)
			return SIZE_MAX;
	}
	return b->n - a->n;
}

/* Could a be a damaged b? */
static bool is_rare(const struct class *a, const struct class *b, uint64_t n_layers)
{
	if (a->n == 1)
		return true;
	return RARE * a->n <= b->n && !are_regular(a->numbers, a->n, n_layers);
}

/* Returns the first name that b has and a lacks. */
static const struct expect_member *first_lacking(const struct expect *expect,
						 const struct expect_layer *a,
						 const struct expect_layer *b)
{
	const struct expect_member *first = NULL;

	for (size_t i = 0; i < b->n; i++) {
		const struct expect_member *member = &expect->members[b->first + i];

		if (!expect_member(expect, a, member->template) &&
		    (!first || member->cell < first->cell))
			first = member;
	}
	return first;
}

static void report_lacking(struct expect *expect, const struct class *a, const struct class *b,
			   size_t n)
{
	const struct expect_layer *of = b->first;

	for (size_t i = 0; i < a->n; i++) {
		struct expect_layer layer = *a->first;
		char *name, more[64] = "";

		layer.number = a->numbers[i];
		name = name_in(expect, &layer, first_lacking(expect, &layer, of));
		if (n > 1)
			snprintf(more, sizeof more, " and %zu more of its layer", n - 1);
		expect_add(expect, EXPECT_TENSOR, name, n,
			   "'%s'%s %s missing, but %zu layer%s else like it, as %" PRIu32 ", %s %s",
			   name, more, n > 1 ? "are" : "is", b->n, b->n == 1 ? "" : "s", of->number,
			   b->n == 1 ? "has" : "have", n > 1 ? "them" : "it");
		free(name);
	}
}

/* Finds the class of which a is a damaged copy, and reports what it lacks. */
static bool check_subset(struct expect *expect, const struct class *classes, size_t n,
			 const struct class *a, uint64_t n_layers)
{
	const struct class *best = NULL;
	size_t least = SIZE_MAX;

	for (const struct class *b = classes; b < classes + n; b++) {
		size_t lacking;

		if (b == a || b->n < a->n || b->first->declared != a->first->declared ||
		    !is_rare(a, b, n_layers))
			continue;
		lacking = n_lacking(expect, a->first, b->first);
		if (lacking < least || (lacking < SIZE_MAX && lacking == least && b->n > best->n)) {
			best = b;
			least = lacking;
		}
	}
	if (best)
		report_lacking(expect, a, best, least);
	return best;
}

/* A segment that a layer has in the place of another one. */
struct renaming {
	size_t at; /* in the name */
	size_t old_len, new_len;
	const char *new;
};

/* Do the names differ in one segment? */
static bool find_renaming(const struct expect *expect, uint32_t old, uint32_t new,
			  struct renaming *renaming)
{
	size_t n_old, n_new, i = 0;
	const char *a = expect_template_name(expect, old, &n_old);
	const char *b = expect_template_name(expect, new, &n_new);

	for (size_t end = 0; end < n_old && end < n_new && a[end] == b[end]; end++)
		if (a[end] == '.')
			i = end + 1;
	renaming->at = i;
	for (renaming->old_len = 0;
	     i + renaming->old_len < n_old && a[i + renaming->old_len] != '.';)
		renaming->old_len++;
	for (renaming->new_len = 0;
	     i + renaming->new_len < n_new && b[i + renaming->new_len] != '.';)
		renaming->new_len++;
	renaming->new = b + i;
	return n_old - renaming->old_len == n_new - renaming->new_len &&
	       !memcmp(a + i + renaming->old_len, b + i + renaming->new_len,
		       n_old - i - renaming->old_len);
}

/* Returns the member of `layer` that has the name of a template after the renaming, or NULL. */
static const struct expect_member *renamed(struct expect *expect, const struct expect_layer *layer,
					   uint32_t template, const struct renaming *renaming,
					   const char *old)
{
	struct buf name = { 0 };
	const struct expect_member *found = NULL;
	size_t n;
	const char *text = expect_template_name(expect, template, &n);

	if (n >= renaming->at + renaming->old_len &&
	    !memcmp(text, old, renaming->at + renaming->old_len)) {
		buf_add(&name, text, renaming->at);
		buf_add(&name, renaming->new, renaming->new_len);
		buf_add(&name, text + renaming->at + renaming->old_len,
			n - renaming->at - renaming->old_len);
		found = expect_member(expect, layer, expect_template(expect, name.data, name.len));
	}
	buf_release(&name);
	return found;
}

/* Has layer a all that it lacks of b under names with one other segment? */
static bool is_renamed(struct expect *expect, const struct expect_layer *a,
		       const struct expect_layer *b, uint32_t old, uint32_t new)
{
	struct renaming renaming;
	char *new_segment, *old_name;
	const char *old_text;
	size_t n;
	bool all = true;

	if (a->n != b->n || !find_renaming(expect, old, new, &renaming))
		return false;
	/* names may move when the new one is looked up */
	new_segment = xstrndup(renaming.new, renaming.new_len);
	old_text = expect_template_name(expect, old, &n);
	old_name = xstrndup(old_text, n);
	renaming.new = new_segment;
	for (size_t i = 0; i < b->n && all; i++) {
		uint32_t template = expect->members[b->first + i].template;

		all = expect_member(expect, a, template) ||
		      renamed(expect, a, template, &renaming, old_name);
	}
	free(new_segment);
	free(old_name);
	return all;
}

/* Reports layer a if it is layer b with another segment. */
static bool check_renamed(struct expect *expect, const struct expect_layer *a,
			  const struct class *b)
{
	const struct expect_member *old = first_lacking(expect, a, b->first);

	for (size_t i = 0; old && i < a->n; i++) {
		const struct expect_member *new = &expect->members[a->first + i];
		char *name;

		if (expect_member(expect, b->first, new->template) ||
		    !is_renamed(expect, a, b->first, old->template, new->template))
			continue;
		name = name_in(expect, a, old);
		expect_add(expect, EXPECT_TENSOR, name, 1,
			   "'%s' is missing: layer %" PRIu32 " has '%s' in its place, and %zu "
			   "layers else like it do not",
			   name, a->number, expect_tensor(expect, new)->name, b->n);
		free(name);
		return true;
	}
	return false;
}

/* Is a the only layer that config.json describes as it does? */
static bool is_lone(const struct expect *expect, const struct class *classes, size_t n,
		    const struct class *a)
{
	const uint64_t n_layers = expect->config.size[CONFIG_LAYERS];

	if (n_layers && a->first->number >= n_layers)
		return false; /* of multi-token prediction */
	for (const struct class *b = classes; b < classes + n; b++)
		if (b != a && b->first->declared == a->first->declared)
			return false;
	return a->n == 1;
}

/* Does every layer outside of class a have the template? */
static bool others_have(const struct expect *expect, const struct class *classes, size_t n,
			const struct class *a, uint32_t template)
{
	for (const struct class *b = classes; b < classes + n; b++)
		if (b != a && !expect_member(expect, b->first, template))
			return false;
	return true;
}

/* Is the template a norm directly in the layer? */
static bool is_own_norm(const struct expect *expect, uint32_t template)
{
	size_t len;
	const char *name = expect_template_name(expect, template, &len);

	return expect->templates[template].facts.role == ROLE_NORM && len > 7 &&
	       !memchr(name, '.', len - 7);
}

/* Has layer a a part of the module that the template's module is in, and nothing in it that the
 * others have not?  A norm may be in the layer itself: kinds may have theirs under other names.
 * An indexer beside the modules of attention (index_q_proj) counts as a module of its own. */
static bool has_rest(const struct expect *expect, const struct class *classes, size_t n,
		     const struct class *a, uint32_t template)
{
	static const char indexer[] = "index_";
	size_t len, has = 0, n_parent;
	const char *name = expect_template_name(expect, template, &len);

	n_parent = len - (sizeof ".weight" - 1);
	while (n_parent && name[n_parent - 1] != '.')
		n_parent--;
	if (n_parent && !strncmp(name + n_parent, indexer, sizeof indexer - 1))
		n_parent += sizeof indexer - 1;
	if (!n_parent && !is_own_norm(expect, template))
		return false;
	for (size_t i = 0; i < a->first->n; i++) {
		const struct expect_member *member = &expect->members[a->first->first + i];
		size_t n_other;
		const char *other = expect_template_name(expect, member->template, &n_other);

		if (n_other < n_parent || memcmp(name, other, n_parent) != 0 ||
		    (!n_parent && !is_own_norm(expect, member->template)))
			continue;
		if (!others_have(expect, classes, n, a, member->template))
			return false;
		has++;
	}
	return has || !n_parent;
}

static bool is_weight(const struct expect *expect, uint32_t template)
{
	static const char end[] = ".weight";
	size_t len, n = sizeof end - 1;
	const char *name = expect_template_name(expect, template, &len);

	return len > n && !memcmp(name + len - n, end, n);
}

/* Compares a layer that is alone of its kind with all others, module by module: kinds of layers
 * differ in whole modules.  Layers that share keys or values lack their weights. */
static void check_lone(struct expect *expect, const struct class *classes, size_t n,
		       const struct class *a)
{
	const struct class *b = classes + (a == classes);

	if (json_is_true(json_object_get(expect->level, "attention_k_eq_v")) ||
	    json_integer_value(json_object_get(expect->level, "num_kv_shared_layers")))
		return;
	for (size_t i = 0; i < b->first->n; i++) {
		const struct expect_member *member = &expect->members[b->first->first + i];
		const struct role_facts *facts = &expect->templates[member->template].facts;
		char *name;

		if ((facts->role != ROLE_NORM && facts->role != ROLE_LINEAR &&
		     facts->role != ROLE_ROUTER) ||
		    !is_weight(expect, member->template) ||
		    expect_member(expect, a->first, member->template) ||
		    !others_have(expect, classes, n, a, member->template) ||
		    !has_rest(expect, classes, n, a, member->template))
			continue;
		name = name_in(expect, a->first, member);
		expect_add(expect, EXPECT_TENSOR, name, 1,
			   "'%s' is missing, but all other layers, as %" PRIu32 ", have it", name,
			   b->first->number);
		free(name);
	}
}

static void check_classes(struct expect *expect, const struct class *classes, size_t n,
			  uint64_t n_layers)
{
	for (const struct class *a = classes; a < classes + n; a++) {
		if (expect->stacks[a->first->stack].is_normed && n_layers > 2 && n > 1 &&
		    is_lone(expect, classes, n, a))
			check_lone(expect, classes, n, a);
		if (check_subset(expect, classes, n, a, n_layers) || a->n > 1)
			continue;
		for (const struct class *b = classes; b < classes + n; b++)
			if (b->n > 1 && b->first->declared == a->first->declared &&
			    check_renamed(expect, a->first, b))
				break;
	}
}

/* Fills classes; returns their number, or 0 where there are too many. */
static size_t make_classes(const struct expect *expect, const struct stack *stack,
			   struct class *classes)
{
	size_t n = 0;

	for (size_t i = 0; i < stack->n; i++) {
		const struct expect_layer *layer = &expect->layers[stack->first + i];
		size_t c = 0;

		while (c < n && classes[c].first->class != layer->class)
			c++;
		if (c == MAX_CLASSES)
			return 0;
		if (c == n)
			classes[n++] = (struct class){ .first = layer };
		ARRAY_GROW(classes[c].numbers, classes[c].n);
		classes[c].numbers[classes[c].n++] = layer->number;
	}
	return n;
}

void expect_kinds(struct expect *expect)
{
	for (size_t s = 0; s < expect->n_stacks; s++) {
		const struct stack *stack = &expect->stacks[s];
		struct class classes[MAX_CLASSES] = { 0 };
		size_t n;

		if (!stack->is_uniform)
			continue;
		n = make_classes(expect, stack, classes);
		check_classes(expect, classes, n, stack->n);
		for (size_t i = 0; i < MAX_CLASSES; i++)
			free(classes[i].numbers);
	}
}
