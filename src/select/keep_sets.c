/* SPDX-License-Identifier: Apache-2.0 */
#include "select/keep_sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "names/tensor_name.h"

/* A unit by the name of its module. */
struct entry {
	const char *name; /* of the weight; the first n bytes are the module's */
	size_t n;
	size_t unit;
};

/* The units of a selection, by name. */
struct unit_index {
	struct entry *entries;
	size_t n;
};

/* What an alternative makes of a set, while it is added up. */
struct sum {
	double kld;
	uint64_t n_bytes;
	size_t n_measured;
	bool refused; /* a unit of the set has no such recipe, or a group has units of others */
};

static int compare_names(const void *one, const void *other)
{
	const struct entry *a = one, *b = other;
	size_t n = a->n < b->n ? a->n : b->n;
	int order = memcmp(a->name, b->name, n);

	return order ? order : (a->n > b->n) - (a->n < b->n);
}

static void index_make(struct unit_index *index, const struct selection *selection)
{
	index->n = selection->n_units;
	index->entries = xcalloc(index->n, sizeof *index->entries);
	for (size_t u = 0; u < index->n; u++) {
		const char *name = selection->units[u].name;

		index->entries[u] = (struct entry){ name, module_len(name), u };
	}
	sort(index->entries, index->n, sizeof *index->entries, compare_names);
}

/* Returns the unit of the module whose name has n bytes, or SIZE_MAX. */
static size_t index_find(const struct unit_index *index, const char *module, size_t n)
{
	const struct entry wanted = { module, n, 0 };
	const struct entry *found =
		bsearch(&wanted, index->entries, index->n, sizeof wanted, compare_names);

	return found ? found->unit : SIZE_MAX;
}

static size_t find_unit(const struct keep_sets *sets, const char *module)
{
	return index_find(&sets->by[0], module, strlen(module));
}

static size_t root_of(struct keep_sets *sets, size_t u)
{
	size_t *parents = sets->parents;

	while (parents[u] != u)
		u = parents[u] = parents[parents[u]];
	return u;
}

/* Unites two sets; the smaller root stays. */
static void unite(struct keep_sets *sets, size_t a, size_t b)
{
	a = root_of(sets, a);
	b = root_of(sets, b);
	sets->parents[a > b ? a : b] = a < b ? a : b;
}

static void prepare(struct keep_sets *sets)
{
	size_t n = sets->selection->n_units, n_ways = sets->offer->n;

	sets->by = xcalloc(1 + n_ways, sizeof *sets->by);
	index_make(&sets->by[0], sets->selection);
	for (size_t a = 0; a < n_ways; a++)
		index_make(&sets->by[1 + a], &sets->offer->alternatives[a].selection);
	sets->same = xcalloc(n_ways, sizeof *sets->same);
	sets->known = xcalloc(n, sizeof *sets->known);
	sets->parents = xcalloc(n, sizeof *sets->parents);
	sets->set_of = xcalloc(n, sizeof *sets->set_of);
	for (size_t u = 0; u < n; u++) {
		sets->parents[u] = u;
		sets->set_of[u] = SIZE_MAX;
	}
}

static int refuse_model(const struct keep_sets *sets, const char *module, const char *what,
			struct err *err)
{
	return err_set(err, ERR_INPUT, "'%s' belongs to another model: '%s' %s", sets->path, module,
		       what);
}

/* Finds the unit of a module, and marks it.  *unit becomes SIZE_MAX where it is kept already. */
static int take_module(struct keep_sets *sets, const struct kld_module *module, size_t *unit,
		       struct err *err)
{
	const struct unit *found;
	size_t u = find_unit(sets, module->name);

	*unit = SIZE_MAX;
	if (u == SIZE_MAX)
		return refuse_model(sets, module->name, "is not in this one", err);
	found = &sets->selection->units[u];
	if (!found->recipe)
		return 0;
	if (found->rows != module->rows || found->cols != module->cols)
		return refuse_model(sets, module->name, "has another shape in this one", err);
	if (sets->known[u])
		return err_set(err, ERR_INPUT, "'%s' has '%s' in two groups", sets->path,
			       module->name);
	sets->known[u] = true;
	*unit = u;
	return 0;
}

/* Finds the units of a group, and unites them.  *first becomes one of them, or SIZE_MAX if all are
 * kept already. */
static int take_group(struct keep_sets *sets, const struct kld_group *group, size_t *first,
		      struct err *err)
{
	size_t n_kept = 0;

	*first = SIZE_MAX;
	for (size_t m = 0; m < group->n; m++) {
		size_t unit;

		if (take_module(sets, &group->modules[m], &unit, err))
			return -1;
		n_kept += unit == SIZE_MAX;
		if (*first == SIZE_MAX)
			*first = unit;
		else if (unit != SIZE_MAX)
			unite(sets, *first, unit);
	}
	if (n_kept == 0 || n_kept == group->n)
		return 0;
	return err_set(err, ERR_USAGE,
		       "only a part of group '%s' in '%s' would be quantized: repeat the options "
		       "of 'fp8conv sensitivity'",
		       group->name, sets->path);
}

/* Every unit that is quantized must be in the table. */
static int check_known(struct keep_sets *sets, struct err *err)
{
	const struct kld_recipe *recipe = &sets->offer->table->recipes[sets->offer->recipe];
	const struct selection *selection = sets->selection;

	for (size_t i = 0; i < recipe->n_unmeasured; i++) {
		size_t u = find_unit(sets, recipe->unmeasured[i]);

		if (u != SIZE_MAX)
			sets->known[u] = true;
	}
	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe && !sets->known[u])
			return err_set(err, ERR_USAGE,
				       "'%s' would be quantized, but '%s' does not measure it: "
				       "repeat the options of 'fp8conv sensitivity'",
				       selection->units[u].name, sets->path);
	return 0;
}

/* Finds the units that an alternative quantizes too, as the same matrices, and unites what is
 * merged there. */
static void find_same(struct keep_sets *sets, size_t a)
{
	const struct selection *selection = sets->selection;
	const struct selection *other = &sets->offer->alternatives[a].selection;

	sets->same[a] = xcalloc(selection->n_units, sizeof *sets->same[a]);
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		size_t v = index_find(&sets->by[1 + a], unit->name, module_len(unit->name));
		const struct unit *found = v == SIZE_MAX ? NULL : &other->units[v];
		size_t next;

		sets->same[a][u] = SIZE_MAX;
		if (!unit->recipe || !found || !found->recipe || found->rows != unit->rows ||
		    found->cols != unit->cols || found->stack != unit->stack)
			continue;
		sets->same[a][u] = v;
		found = &other->units[found->next_joint];
		next = index_find(&sets->by[0], found->name, module_len(found->name));
		if (next != SIZE_MAX && selection->units[next].recipe)
			unite(sets, u, next);
	}
}

static void unite_joint(struct keep_sets *sets)
{
	const struct selection *selection = sets->selection;

	for (size_t u = 0; u < selection->n_units; u++)
		if (selection->units[u].recipe || selection->units[u].part)
			unite(sets, u, selection->units[u].next_joint);
	for (size_t a = 0; a < sets->offer->n; a++)
		find_same(sets, a);
}

/* Adds a group of the job's recipe to its set. */
static void add_group(struct keep_sets *sets, const struct kld_group *group, size_t root)
{
	struct keep_group_set *set;

	if (sets->set_of[root] == SIZE_MAX) {
		sets->set_of[root] = sets->n;
		ARRAY_GROW(sets->list, sets->n);
		set = &sets->list[sets->n++];
		*set = (struct keep_group_set){ .name = xstrdup(group->name), .root = root };
		set->options = xcalloc(2 + sets->offer->n, sizeof *set->options);
		set->ways = xcalloc(2 + sets->offer->n, sizeof *set->ways);
		set->n_options = 1;
	} else {
		set = &sets->list[sets->set_of[root]];
		if (strlen(set->name) < 64) {
			char *name = xasprintf("%s+%s", set->name, group->name);

			free(set->name);
			set->name = name;
		}
	}
	set->options[0].kld += group->mean;
	set->n_measured += group->n;
}

/* Returns the bytes of a unit's codes and scales by a recipe. */
static uint64_t unit_bytes(const struct unit *unit, const struct recipe *recipe, bool static_input)
{
	const struct qspec *spec = &recipe->weight;
	uint64_t tiles = (uint64_t)tile_count(unit_matrix_rows(unit), spec->tile.rows) *
			 tile_count(unit->cols, spec->tile.cols);

	return unit->rows * unit->cols +
	       unit_matrices(unit) * tiles * scale_size(spec->scale_type) +
	       (static_input ? sizeof(float) : 0);
}

/* Adds the bytes of all units to their sets, and to the sums of alternatives. */
static void add_bytes(struct keep_sets *sets, struct sum *sums)
{
	const struct selection *selection = sets->selection;

	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		size_t s = sets->set_of[root_of(sets, u)];
		uint64_t bf16 = unit->rows * unit->cols * sizeof(uint16_t), fp8;

		if (!unit->recipe)
			continue;
		fp8 = unit_bytes(unit, unit->recipe, unit->static_input);
		sets->bf16_bytes += bf16;
		sets->fp8_bytes += fp8;
		if (s == SIZE_MAX)
			continue;
		sets->list[s].bf16_bytes += bf16;
		sets->list[s].options[0].n_bytes += (int64_t)fp8;
		for (size_t a = 0; a < sets->offer->n; a++) {
			struct sum *sum = &sums[s * sets->offer->n + a];
			size_t v = sets->same[a][u];
			const struct selection *other = &sets->offer->alternatives[a].selection;

			if (v == SIZE_MAX)
				sum->refused = true;
			else
				sum->n_bytes += unit_bytes(unit, other->units[v].recipe, false);
		}
	}
}

/* Adds a group of an alternative to the set that has all its units.  sums: of this alternative, at
 * a distance of offer->n; seen: the units of earlier groups. */
static void add_measured(struct keep_sets *sets, struct sum *sums, bool *seen,
			 const struct kld_group *group)
{
	size_t first = SIZE_MAX, n = sets->offer->n;
	bool whole = true;

	for (size_t m = 0; m < group->n; m++) {
		const struct kld_module *module = &group->modules[m];
		size_t u = find_unit(sets, module->name);
		const struct unit *unit = u == SIZE_MAX ? NULL : &sets->selection->units[u];
		size_t s = unit && unit->recipe ? sets->set_of[root_of(sets, u)] : SIZE_MAX;

		whole &= s != SIZE_MAX && (!m || s == first) && !seen[u] &&
			 unit->rows == module->rows && unit->cols == module->cols;
		first = m ? first : s;
		if (s != SIZE_MAX)
			seen[u] = true;
	}
	if (first == SIZE_MAX)
		return;
	sums[first * n].refused |= !whole;
	sums[first * n].kld += group->mean;
	sums[first * n].n_measured += group->n;
}

static void add_option(struct keep_group_set *set, size_t way, double kld, uint64_t n_bytes)
{
	set->options[set->n_options] = (struct keep_option){ kld, (int64_t)n_bytes };
	set->ways[set->n_options++] = way;
}

static void make_options(struct keep_sets *sets)
{
	const struct keep_offer *offer = sets->offer;
	const struct kld_table *table = sets->offer->table;
	struct sum *sums = xcalloc(sets->n * offer->n, sizeof *sums);

	add_bytes(sets, sums);
	for (size_t a = 0; a < offer->n; a++) {
		bool *seen = xcalloc(sets->selection->n_units, sizeof *seen);

		for (size_t g = 0; g < table->n_groups; g++)
			if (table->groups[g].recipe == offer->alternatives[a].in_table)
				add_measured(sets, sums + a, seen, &table->groups[g]);
		free(seen);
	}
	for (size_t s = 0; s < sets->n; s++) {
		struct keep_group_set *set = &sets->list[s];

		if (offer->bf16)
			add_option(set, KEEP_WAY_BF16, 0, set->bf16_bytes);
		for (size_t a = 0; a < offer->n; a++) {
			const struct sum *sum = &sums[s * offer->n + a];

			if (!sum->refused && sum->n_measured == set->n_measured)
				add_option(set, a, sum->kld, sum->n_bytes);
		}
	}
	free(sums);
}

int keep_sets_make(struct keep_sets *sets, struct err *err)
{
	const struct kld_table *table = sets->offer->table;
	size_t *firsts = xcalloc(table->n_groups + 1, sizeof *firsts);
	int rc = 0;

	prepare(sets);
	for (size_t g = 0; g < table->n_groups && !rc; g++) {
		firsts[g] = SIZE_MAX;
		if (table->groups[g].recipe == sets->offer->recipe)
			rc = take_group(sets, &table->groups[g], &firsts[g], err);
	}
	rc = rc ? rc : check_known(sets, err);
	if (!rc) {
		unite_joint(sets);
		for (size_t g = 0; g < table->n_groups; g++)
			if (firsts[g] != SIZE_MAX)
				add_group(sets, &table->groups[g], root_of(sets, firsts[g]));
		make_options(sets);
	}
	free(firsts);
	return rc;
}

/* Keeps a unit, for the same reason as all of its set. */
static void keep_unit(struct selection *selection, size_t u)
{
	struct unit *unit = &selection->units[u];

	selection_keep(selection, u, KEEP_REASON);
	free(unit->reason);
	unit->reason = xstrdup(KEEP_REASON);
	unit->rule = RULE_USER;
}

void keep_sets_take(struct keep_sets *sets, const struct keep_group_set *set, size_t option)
{
	struct selection *selection = sets->selection;
	size_t way = set->ways[option], *units = NULL, n = 0;

	for (size_t u = set->root; u < selection->n_units; u++) {
		if (!selection->units[u].recipe || root_of(sets, u) != set->root)
			continue;
		ARRAY_GROW(units, n);
		units[n++] = u;
	}
	for (size_t i = 0; i < n; i++) {
		size_t u = units[i];

		if (way == KEEP_WAY_BF16)
			keep_unit(selection, u);
		else
			selection_switch(selection, u, &sets->offer->alternatives[way].selection,
					 sets->same[way][u], KEEP_REASON);
	}
	free(units);
}

void keep_sets_release(struct keep_sets *sets)
{
	for (size_t i = 0; i < sets->n; i++) {
		free(sets->list[i].name);
		free(sets->list[i].options);
		free(sets->list[i].ways);
	}
	for (size_t a = 0; sets->by && a < sets->offer->n; a++) {
		free(sets->by[1 + a].entries);
		free(sets->same[a]);
	}
	if (sets->by)
		free(sets->by[0].entries);
	free(sets->by);
	free(sets->same);
	free(sets->known);
	free(sets->parents);
	free(sets->set_of);
	free(sets->list);
}
