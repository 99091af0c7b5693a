/* SPDX-License-Identifier: Apache-2.0 */
#include "select/skip_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "names/experts.h"
#include "names/tensor_name.h"
#include "select/engine_names.h"

#define EXPERTS_MIN 32 /* rows and columns of an expert's matrix */

static bool is_value(enum dtype dtype)
{
	return dtype_is_float(dtype) || dtype_is_any_fp8(dtype) || dtype == DT_F64;
}

static int count_above_one(const struct st_tensor *tensor)
{
	int n = 0;

	for (int i = 0; i < tensor->n_dims; i++)
		n += tensor->shape[i] > 1;
	return n;
}

bool skip_looks_like_experts(const struct st_tensor *tensor, const struct role_facts *facts)
{
	return tensor->n_dims == 3 && is_value(tensor->dtype) && !facts->tower && !facts->free &&
	       tensor->shape[1] >= EXPERTS_MIN && tensor->shape[2] >= EXPERTS_MIN;
}

enum skip_need skip_need(const struct st_tensor *tensor, const struct role_facts *facts)
{
	if (tensor->n_dims < 2 || tensor->n_dims > 3 || !is_value(tensor->dtype) || facts->free)
		return SKIP_FREE;
	if (!facts->weight && count_above_one(tensor) < 2)
		return SKIP_FREE;
	if (facts->tower)
		return SKIP_MODULE;
	if (facts->in_experts || (facts->in_any_experts && tensor->n_dims == 3) ||
	    skip_looks_like_experts(tensor, facts))
		return SKIP_EXPERTS;
	return SKIP_MODULE;
}

static void add_text(struct skip_list *list, const char *name, size_t n)
{
	ARRAY_GROW(list->names, list->n);
	list->names[list->n++] = arena_text(&list->texts, name, n);
}

/* A base model is saved without the prefix under which engines build it. */
static void add_prefixed(struct skip_list *list, const char *name)
{
	static const char *const stacks[] = { "layers.", "h.", "blocks.", "encoder." };

	for (size_t i = 0; i < sizeof stacks / sizeof *stacks; i++) {
		char *prefixed;

		if (strncmp(name, stacks[i], strlen(stacks[i])) != 0)
			continue;
		prefixed = xasprintf("model.%s", name);
		add_text(list, prefixed, strlen(prefixed));
		free(prefixed);
	}
}

/* Adds a name as it is and as engines have it. */
static void add(struct skip_list *list, const char *name, size_t n)
{
	const struct profile_row *row = NULL;
	const char *own;

	add_text(list, name, n);
	if (!list->profile)
		return;
	own = list->names[list->n - 1];
	add_prefixed(list, own);
	while ((row = profile_next(list->profile, PROFILE_NAME, list->on, row))) {
		char *renamed = engine_name_by(list->profile, row, own);

		if (renamed)
			add_text(list, renamed, strlen(renamed));
		free(renamed);
	}
}

char *skip_experts_prefix(const char *name)
{
	size_t n = experts_prefix_len(name);
	struct path path;
	const char *dot;

	if (n)
		return xstrndup(name, n - 1);
	path_split(&path, name);
	for (int i = 0; i < path.owner; i++)
		if (segment_ends(&path.segments[i], "experts"))
			return xstrndup(name, (size_t)(path.segments[i + 1].text - 1 - name));
	dot = memrchr(name, '.', module_len(name));
	return dot ? xasprintf("%.*s.experts", (int)(dot - name), name) : xstrdup("experts");
}

const char *const *skip_experts_endings(const struct format *format)
{
	static const char *const prefix[] = { "", NULL };

	return format && format->kept_experts ? format->kept_experts : prefix;
}

/* Adds the entry that each engine needs for such a module, if there is one. */
static void add_entry(struct skip_list *list, const char *tensor)
{
	for (int e = ENGINE_ANY + 1; list->profile && e < N_ENGINES; e++) {
		unsigned other = FOR_ENGINES & ~profile_on_engine((enum engine)e);
		char *entry = engine_entry_of(list->profile, list->on & ~other, tensor);

		if (entry)
			add_text(list, entry, strlen(entry));
		free(entry);
	}
}

static void add_experts(struct skip_list *list, const struct format *format, const char *name)
{
	char *prefix = skip_experts_prefix(name);
	size_t known = list->experts.n;

	if (intern_add(&list->experts, prefix, strlen(prefix)) == known) {
		for (const char *const *end = skip_experts_endings(format); *end; end++) {
			char *entry = xasprintf("%s%s", prefix, *end);

			add(list, entry, strlen(entry));
			free(entry);
		}
		add_entry(list, name);
	}
	free(prefix);
}

/* Whether the prefix of the experts stands for all their matrices, so that a list needs no name of
 * each. */
static bool prefix_suffices(const struct format *format, const char *name)
{
	struct path path;

	path_split(&path, name);
	return path.numbered_expert && !(format && format->kept_experts);
}

void skip_list_add(struct skip_list *list, const struct format *format,
		   const struct st_tensor *tensor, enum skip_need need)
{
	if (need == SKIP_FREE)
		return;
	if (need == SKIP_EXPERTS)
		add_experts(list, format, tensor->name);
	if (need == SKIP_MODULE)
		add_entry(list, tensor->name);
	if (need == SKIP_MODULE || !prefix_suffices(format, tensor->name))
		add(list, tensor->name, module_len(tensor->name));
}

void skip_list_add_module(struct skip_list *list, const char *module)
{
	add_entry(list, module);
	add(list, module, strlen(module));
}

void skip_list_remove(struct skip_list *list, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->names[i], name) != 0)
			list->names[n++] = list->names[i];
	list->n = n;
}

void skip_list_sort(struct skip_list *list)
{
	size_t n = 0;

	sort(list->names, list->n, sizeof *list->names, text_compare);
	for (size_t i = 0; i < list->n; i++)
		if (!n || strcmp(list->names[n - 1], list->names[i]) != 0)
			list->names[n++] = list->names[i];
	list->n = n;
}

void skip_list_release(struct skip_list *list)
{
	arena_release(&list->texts);
	intern_release(&list->experts);
	free(list->names);
	*list = (struct skip_list){ 0 };
}
