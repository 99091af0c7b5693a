/* SPDX-License-Identifier: Apache-2.0 */
#include "select/keep_list.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

/* A unit by the name of its module. */
struct entry {
	const char *name; /* of the weight; the first n bytes are the module's */
	size_t n;
	size_t unit;
};

/* The choice while it is made.  Units of a set have the same root. */
struct chooser {
	struct selection *selection;
	const struct kld_table *table;
	const struct keep_params *params;
	size_t recipe;
	struct entry *entries; /* by name */
	size_t *parents;       /* by unit: another unit of its set, or itself */
	bool *known;	       /* by unit: the table has it */
	struct keep_choice *sets;
	size_t n_sets;
	size_t *set_of; /* by unit that is a root */
};

static int compare_names(const void *one, const void *other)
{
	const struct entry *a = one, *b = other;
	size_t n = a->n < b->n ? a->n : b->n;
	int order = memcmp(a->name, b->name, n);

	return order ? order : (a->n > b->n) - (a->n < b->n);
}

static size_t module_len(const char *weight)
{
	size_t n = strlen(weight);

	return n > 7 && !strcmp(weight + n - 7, ".weight") ? n - 7 : n;
}

static void index_units(struct chooser *chooser)
{
	const struct selection *selection = chooser->selection;
	size_t n = selection->n_units;

	chooser->entries = xcalloc(n, sizeof *chooser->entries);
	chooser->parents = xcalloc(n, sizeof *chooser->parents);
	chooser->known = xcalloc(n, sizeof *chooser->known);
	for (size_t u = 0; u < n; u++) {
		const char *name = selection->units[u].name;

		chooser->entries[u] = (struct entry){ name, module_len(name), u };
		chooser->parents[u] = u;
	}
	sort(chooser->entries, n, sizeof *chooser->entries, compare_names);
}

/* Returns the unit of a module, or SIZE_MAX. */
static size_t find_unit(const struct chooser *chooser, const char *module)
{
	const struct entry wanted = { module, strlen(module), 0 };
	const struct entry *found = bsearch(&wanted, chooser->entries, chooser->selection->n_units,
					    sizeof wanted, compare_names);

	return found ? found->unit : SIZE_MAX;
}

static size_t root_of(struct chooser *chooser, size_t u)
{
	size_t *parents = chooser->parents;

	while (parents[u] != u)
		u = parents[u] = parents[parents[u]];
	return u;
}

/* Unites two sets; the smaller root stays. */
static void unite(struct chooser *chooser, size_t a, size_t b)
{
	a = root_of(chooser, a);
	b = root_of(chooser, b);
	chooser->parents[a > b ? a : b] = a < b ? a : b;
}

static int refuse_model(const struct chooser *chooser, const char *module, const char *what,
			struct err *err)
{
	return err_set(err, ERR_INPUT, "'%s' belongs to another model: '%s' %s",
		       chooser->params->path, module, what);
}

/* Finds the unit of a module, and marks it.  *unit becomes SIZE_MAX where it is kept already. */
static int take_module(struct chooser *chooser, const struct kld_module *module, size_t *unit,
		       struct err *err)
{
	const struct unit *found;
	size_t u = find_unit(chooser, module->name);

	*unit = SIZE_MAX;
	if (u == SIZE_MAX)
		return refuse_model(chooser, module->name, "is not in this one", err);
	found = &chooser->selection->units[u];
	if (!found->recipe)
		return 0;
	if (found->rows != module->rows || found->cols != module->cols)
		return refuse_model(chooser, module->name, "has another shape in this one", err);
	if (chooser->known[u])
		return err_set(err, ERR_INPUT, "'%s' has '%s' in two groups", chooser->params->path,
			       module->name);
	chooser->known[u] = true;
	*unit = u;
	return 0;
}

/* Finds the units of a group, and unites them.  *first becomes one of them, or SIZE_MAX if all are
 * kept already. */
static int take_group(struct chooser *chooser, const struct kld_group *group, size_t *first,
		      struct err *err)
{
	size_t n_kept = 0;

	*first = SIZE_MAX;
	for (size_t m = 0; m < group->n; m++) {
		size_t unit;

		if (take_module(chooser, &group->modules[m], &unit, err))
			return -1;
		n_kept += unit == SIZE_MAX;
		if (*first == SIZE_MAX)
			*first = unit;
		else if (unit != SIZE_MAX)
			unite(chooser, *first, unit);
	}
	if (n_kept == 0 || n_kept == group->n)
		return 0;
	return err_set(err, ERR_USAGE,
		       "only a part of group '%s' in '%s' would be quantized: repeat the options "
		       "of 'fp8conv sensitivity'",
		       group->name, chooser->params->path);
}

/* Every unit that is quantized must be in the table. */
static int check_known(struct chooser *chooser, struct err *err)
{
	const struct kld_recipe *recipe = &chooser->table->recipes[chooser->recipe];
	const struct selection *selection = chooser->selection;

	for (size_t i = 0; i < recipe->n_unmeasured; i++) {
		size_t u = find_unit(chooser, recipe->unmeasured[i]);

		if (u != SIZE_MAX)
			chooser->known[u] = true;
	}
	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe && !chooser->known[u])
			return err_set(err, ERR_USAGE,
				       "'%s' would be quantized, but '%s' does not measure it: "
				       "repeat the options of 'fp8conv sensitivity'",
				       selection->units[u].name, chooser->params->path);
	return 0;
}

static void add_group(struct chooser *chooser, const struct kld_group *group, size_t root)
{
	struct keep_choice *set;

	if (chooser->set_of[root] == SIZE_MAX) {
		chooser->set_of[root] = chooser->n_sets;
		ARRAY_GROW(chooser->sets, chooser->n_sets);
		chooser->sets[chooser->n_sets++] = (struct keep_choice){
			.name = xstrdup(group->name), .kld = group->mean, .unit = root
		};
		return;
	}
	set = &chooser->sets[chooser->set_of[root]];
	set->kld += group->mean;
	if (strlen(set->name) < 64) {
		char *name = xasprintf("%s+%s", set->name, group->name);

		free(set->name);
		set->name = name;
	}
}

/* Makes sets of groups whose matrices engines merge, with their bytes. */
static void make_sets(struct chooser *chooser, const size_t *firsts, struct keep_list *list)
{
	const struct selection *selection = chooser->selection;
	const struct kld_table *table = chooser->table;

	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe || selection->units[u].part)
			unite(chooser, u, selection->units[u].next_joint);
	chooser->set_of = xmalloc(selection->n_units * sizeof *chooser->set_of);
	memset(chooser->set_of, 0xFF, selection->n_units * sizeof *chooser->set_of);
	for (size_t g = 0; g < table->n_groups; g++)
		if (firsts[g] != SIZE_MAX)
			add_group(chooser, &table->groups[g], root_of(chooser, firsts[g]));
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		uint64_t n = unit->rows * unit->cols * sizeof(uint16_t);
		size_t set = chooser->set_of[root_of(chooser, u)];

		if (!unit->recipe)
			continue;
		list->all_bytes += n;
		if (set != SIZE_MAX)
			chooser->sets[set].n_bytes += n;
	}
	for (size_t i = 0; i < chooser->n_sets; i++)
		list->kld_before += chooser->sets[i].kld;
	list->kld = list->kld_before;
}

/* Compares divergence per byte, the largest first; equal ones by their places. */
static int compare_worth(const void *one, const void *other)
{
	const struct keep_choice *a = one, *b = other;
	double x = a->kld / (double)a->n_bytes, y = b->kld / (double)b->n_bytes;

	if (x != y)
		return x < y ? 1 : -1;
	return (a->unit > b->unit) - (a->unit < b->unit);
}

/* Is a set to be kept, after those before it? */
static bool is_wanted(const struct keep_params *params, const struct keep_list *list,
		      const struct keep_choice *set)
{
	if (set->kld <= 0)
		return false;
	if (params->max_kld > 0)
		return list->kld > params->max_kld;
	return (double)(list->kept_bytes + set->n_bytes) <=
	       params->budget * (double)list->all_bytes;
}

/* Keeps every unit of a set, for the same reason. */
static void keep_set(struct chooser *chooser, size_t root)
{
	struct selection *selection = chooser->selection;
	size_t *units = NULL, n = 0;

	for (size_t u = root; u < selection->n_units; u++) {
		if (!selection->units[u].recipe || root_of(chooser, u) != root)
			continue;
		ARRAY_GROW(units, n);
		units[n++] = u;
	}
	for (size_t i = 0; i < n; i++)
		selection_keep(selection, units[i], KEEP_REASON);
	for (size_t i = 0; i < n; i++) {
		struct unit *unit = &selection->units[units[i]];

		free(unit->reason);
		unit->reason = xstrdup(KEEP_REASON);
		unit->rule = RULE_USER;
	}
	free(units);
}

static int refuse_empty(const struct keep_params *params, struct err *err)
{
	if (params->max_kld > 0)
		return err_set(
			err, ERR_USAGE,
			"nothing would be quantized: by '%s' any group alone has a KLD above "
			"%g: give a larger --max-kld",
			params->path, params->max_kld);
	return err_set(err, ERR_USAGE,
		       "nothing would be quantized: every group fits the budget: give a smaller "
		       "--budget");
}

static int choose(struct chooser *chooser, struct keep_list *list, struct err *err)
{
	const struct keep_params *params = chooser->params;

	sort(chooser->sets, chooser->n_sets, sizeof *chooser->sets, compare_worth);
	list->kept = xcalloc(chooser->n_sets + 1, sizeof *list->kept);
	for (size_t i = 0; i < chooser->n_sets; i++) {
		struct keep_choice *set = &chooser->sets[i];

		if (!is_wanted(params, list, set))
			continue;
		list->kept_bytes += set->n_bytes;
		list->kld -= set->kld;
		list->kept[list->n++] = *set;
		set->name = NULL;
		keep_set(chooser, set->unit);
	}
	return list->kept_bytes < list->all_bytes ? 0 : refuse_empty(params, err);
}

static int run(struct chooser *chooser, struct keep_list *list, struct err *err)
{
	const struct kld_table *table = chooser->table;
	size_t *firsts = xmalloc((table->n_groups + 1) * sizeof *firsts);
	int rc = 0;

	index_units(chooser);
	for (size_t g = 0; g < table->n_groups && !rc; g++) {
		firsts[g] = SIZE_MAX;
		if (table->groups[g].recipe == chooser->recipe)
			rc = take_group(chooser, &table->groups[g], &firsts[g], err);
	}
	rc = rc ? rc : check_known(chooser, err);
	if (!rc) {
		make_sets(chooser, firsts, list);
		rc = choose(chooser, list, err);
	}
	free(firsts);
	return rc;
}

int keep_list_make(struct keep_list *list, struct selection *selection,
		   const struct kld_table *table, size_t recipe, const struct keep_params *params,
		   struct err *err)
{
	struct chooser chooser = {
		.selection = selection, .table = table, .params = params, .recipe = recipe
	};
	int rc;

	*list = (struct keep_list){ 0 };
	memcpy(list->file_sha256, table->file_sha256, sizeof list->file_sha256);
	rc = run(&chooser, list, err);
	for (size_t i = 0; i < chooser.n_sets; i++)
		free(chooser.sets[i].name);
	free(chooser.sets);
	free(chooser.entries);
	free(chooser.parents);
	free(chooser.known);
	free(chooser.set_of);
	return rc;
}

void keep_list_release(struct keep_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->kept[i].name);
	free(list->kept);
	*list = (struct keep_list){ 0 };
}
