/* SPDX-License-Identifier: Apache-2.0
 *
 * What the output says of itself: quantization_config, derived from the plan.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/sort.h"
#include "format/edit_config.h"
#include "model/tensor_name.h"
#include "convert/plan.h"

/* Sorted module paths. */
struct modules {
	size_t n;
	char **names;
	struct arena texts; /* of the names */
};

/* "X.weight" names module X. */
static void modules_add(struct modules *modules, const char *weight)
{
	ARRAY_GROW(modules->names, modules->n);
	modules->names[modules->n++] = arena_text(&modules->texts, weight, module_len(weight));
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void modules_sort(struct modules *modules)
{
	sort(modules->names, modules->n, sizeof *modules->names, compare_texts);
}

static void modules_release(struct modules *modules)
{
	arena_release(&modules->texts);
	free(modules->names);
}

/* One set of modules for each recipe in use, with and without static inputs. */
#define MAX_SETS 16
struct module_sets {
	size_t n;
	struct {
		const struct recipe *recipe;
		bool static_input;
	} keys[MAX_SETS];
	struct modules modules[MAX_SETS];
	struct module_set sets[MAX_SETS];
};

static size_t set_of(struct module_sets *sets, const struct unit *unit)
{
	size_t i = 0;

	while (i < sets->n && (sets->keys[i].recipe != unit->recipe ||
			       sets->keys[i].static_input != unit->static_input))
		i++;
	if (i == sets->n) {
		sets->keys[i].recipe = unit->recipe;
		sets->keys[sets->n++].static_input = unit->static_input;
	}
	return i;
}

static void sets_fill(struct module_sets *sets, struct modules *kept, const struct plan *plan)
{
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		size_t i;

		if (!unit->recipe) {
			if (unit->linear)
				modules_add(kept, unit->name);
			continue;
		}
		i = set_of(sets, unit);
		sets->sets[i].scheme = scheme_from_qspec(plan->units[u].spec, unit->static_input);
		modules_add(&sets->modules[i], unit->name);
	}
	modules_sort(kept);
	for (size_t i = 0; i < sets->n; i++) {
		modules_sort(&sets->modules[i]);
		sets->sets[i].modules = (const char *const *)sets->modules[i].names;
		sets->sets[i].n_modules = sets->modules[i].n;
	}
	/* The default set is the largest. */
	for (size_t i = 1; i < sets->n; i++) {
		if (sets->sets[i].n_modules > sets->sets[0].n_modules) {
			struct module_set first = sets->sets[0];

			sets->sets[0] = sets->sets[i];
			sets->sets[i] = first;
		}
	}
}

int plan_configuration(struct plan *plan, struct err *err)
{
	struct module_sets sets = { 0 };
	struct modules kept = { 0 };
	struct quantization quantization;
	struct buf config = { 0 };
	struct buf empty = { .data = (char *)"{\n}\n", .len = 4 };
	int rc = -1;

	sets_fill(&sets, &kept, plan);
	quantization = (struct quantization){ .sets = sets.sets,
					      .n_sets = sets.n,
					      .kept = (const char *const *)kept.names,
					      .n_kept = kept.n,
					      .kv_cache = plan->kv_cache,
					      .target = plan->target,
					      .tool_version = FP8CONV_VERSION };
	if (format_configure(plan->format, &quantization, &config, &plan->files.hf_quant_config,
			     err))
		goto out;
	if (config_set_quantization(plan->source.config.len ? &plan->source.config : &empty,
				    config.data, &plan->files.config, err)) {
		err_wrap(err, "'%s'", plan->source.path);
		goto out;
	}
	rc = 0;
out:
	for (size_t i = 0; i < sets.n; i++)
		modules_release(&sets.modules[i]);
	modules_release(&kept);
	buf_release(&config);
	return rc;
}
