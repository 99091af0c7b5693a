/* SPDX-License-Identifier: Apache-2.0
 *
 * The precision of each component: a table that people read before they take a model.
 */
#include "cli/report/card.h"

#include <stdlib.h>

#include "base/intern.h"
#include "base/mem.h"
#include "cli/print/units.h"
#include "report/escape.h"

/* Groups of one line: FP8 weights below one module, tensors that are kept for one reason. */
struct card_component {
	const struct tensor_group *first;
	struct buf names; /* of their modules, as Markdown */
	size_t n_names;
	size_t n_tensors;
	uint64_t n_bytes, n_scale_bytes;
};

#define MAX_COMPONENTS 100
#define MAX_NAMES      6

/* Returns the length of the module above the one that owns a weight. */
static size_t parent_length(const char *pattern)
{
	size_t n = module_len(pattern);

	while (n && pattern[n - 1] != '.')
		n--;
	return n ? n - 1 : 0;
}

/* Makes what the groups of a component have in common. */
static void component_key(struct buf *key, const struct tensor_group *group)
{
	size_t n = group->fp8 ? parent_length(group->pattern) : 0;

	key->len = 0;
	buf_printf(key, "%d %d %zu %zu ", group->fp8, (int)group->dtype, (size_t)group->tile.rows,
		   (size_t)group->tile.cols);
	if (group->fp8)
		buf_add(key, group->pattern, n);
	else if (group->reason)
		buf_puts(key, group->reason);
}

static void add_name(struct card_component *component, const struct tensor_group *group)
{
	size_t n = module_len(group->pattern), begin = parent_length(group->pattern);
	char *name;

	component->n_names++;
	if (component->n_names == MAX_NAMES + 1)
		buf_puts(&component->names, ", ...");
	if (component->n_names > MAX_NAMES)
		return;
	if (component->names.len)
		buf_puts(&component->names, ", ");
	begin += begin && group->pattern[begin] == '.';
	name = xstrndup(group->pattern + begin, n - begin);
	escape_markdown_code(&component->names, name);
	free(name);
}

/* Returns the components, a new array; groups beyond the last one are not in it. */
static struct card_component *list_components(const struct summary *summary, size_t *n)
{
	struct card_component *list = xcalloc(MAX_COMPONENTS, sizeof *list);
	struct intern keys = { 0 };
	struct buf key = { 0 };

	*n = 0;
	for (size_t g = 0; g < summary->n; g++) {
		const struct tensor_group *group = &summary->groups[g];
		size_t c;

		component_key(&key, group);
		c = intern_add(&keys, key.data, key.len);
		if (c >= MAX_COMPONENTS)
			continue;
		if (c == *n)
			list[(*n)++] = (struct card_component){ .first = group };
		add_name(&list[c], group);
		list[c].n_tensors += group->n_tensors;
		list[c].n_bytes += group->n_bytes;
		list[c].n_scale_bytes += group->n_scale_bytes;
	}
	intern_release(&keys);
	buf_release(&key);
	return list;
}

static void put_component(struct buf *out, const struct card_component *component)
{
	const struct tensor_group *group = component->first;
	size_t n = parent_length(group->pattern);

	buf_puts(out, "| ");
	if (group->fp8 && n) {
		char *parent = xstrndup(group->pattern, n);

		escape_markdown_code(out, parent);
		buf_puts(out, ": ");
		free(parent);
	}
	buf_add(out, component->names.data, component->names.len);
	buf_printf(out, " | %zu | ", component->n_tensors);
	report_put_type(out, group);
	if (group->fp8) {
		buf_puts(out, ", ");
		report_put_tile(out, group);
	}
	buf_puts(out, " | ");
	units_size(out, component->n_bytes);
	buf_puts(out, " | ");
	if (component->n_scale_bytes)
		units_size(out, component->n_scale_bytes);
	buf_puts(out, " | ");
	if (!group->fp8)
		escape_markdown(out, group->reason ? group->reason : "unknown");
	buf_puts(out, " |\n");
}

static void put_scales(struct buf *out, const struct summary *summary)
{
	static const struct {
		enum scale_role role;
		const char *name;
	} rows[] = { { SCALE_OF_INPUT, "static scales of activations" },
		     { SCALE_OF_CACHE, "scales of the KV cache" } };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (!summary->n_scales[rows[i].role])
			continue;
		buf_printf(out, "| %s | %zu | | | ", rows[i].name, summary->n_scales[rows[i].role]);
		units_size(out, summary->scale_bytes[rows[i].role]);
		buf_puts(out, " | |\n");
	}
}

void card_put_precision(struct buf *out, const struct summary *summary)
{
	size_t n;
	struct card_component *list = list_components(summary, &n);

	buf_puts(out, "## Precision by component\n\n"
		      "| component | tensors | precision | bytes | scales | kept because |\n"
		      "|---|--:|---|--:|--:|---|\n");
	for (size_t c = 0; c < n; c++) {
		put_component(out, &list[c]);
		buf_release(&list[c].names);
	}
	put_scales(out, summary);
	if (n == MAX_COMPONENTS)
		buf_puts(out, "\nThe table ends here; `" REPORT_PAGE_NAME "` has the rest.\n");
	buf_putc(out, '\n');
	free(list);
}
