/* SPDX-License-Identifier: Apache-2.0
 *
 * The output's quantization_config, derived from the plan.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "format/edit_config.h"
#include "format/read_config.h"
#include "format/scale_names.h"
#include "format/skip_match.h"
#include "names/tensor_name.h"
#include "source/fp8_source.h"
#include "plan/engines.h"

#define AHEAD 8 /* prefetch distance: sorted names are scattered in memory */

/* Sorted paths of quantized modules. */
struct modules {
	size_t n;
	char **names;
	struct arena texts; /* of the names */
};

/* Adds module X of "X.weight". */
static void modules_add(struct modules *modules, const char *weight)
{
	ARRAY_GROW(modules->names, modules->n);
	modules->names[modules->n++] = arena_text(&modules->texts, weight, module_len(weight));
}

static void modules_sort(struct modules *modules)
{
	sort(modules->names, modules->n, sizeof *modules->names, text_compare);
}

static void modules_release(struct modules *modules)
{
	arena_release(&modules->texts);
	free(modules->names);
}

/* The modules of one recipe, with or without static inputs. */
struct recipe_set {
	const struct recipe *recipe;
	bool static_input;
	struct scheme scheme;
	struct modules modules;
};

struct recipe_sets {
	size_t n;
	struct recipe_set *list;
	struct modules tables; /* embeddings, by full path; one may stand there several times */
	size_t n_stacks;       /* units that are experts in one tensor */
};

static struct recipe_set *set_of(struct recipe_sets *sets, const struct unit *unit)
{
	struct recipe_set *set;

	for (size_t i = 0; i < sets->n; i++) {
		set = &sets->list[i];
		if (set->recipe == unit->recipe && set->static_input == unit->static_input)
			return set;
	}
	ARRAY_GROW(sets->list, sets->n);
	set = &sets->list[sets->n++];
	*set = (struct recipe_set){ .recipe = unit->recipe, .static_input = unit->static_input };
	return set;
}

/* Adds the table of a weight that is all or a part of it. */
static void add_table(struct modules *tables, const char *weight)
{
	char *table = scale_table(weight);

	modules_add(tables, table ? table : weight);
	free(table);
}

static void sets_fill(struct recipe_sets *sets, struct plan *plan)
{
	plan->skipped.profile = &plan->profile;
	plan->skipped.on = ON_RECIPES | FOR_ENGINES | profile_on_format(plan->format);
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		struct recipe_set *set;

		if (!unit->recipe) {
			skip_list_add(&plan->skipped, plan->format, unit->source->tensor,
				      unit->skip);
			continue;
		}
		if (unit->table) {
			add_table(&sets->tables, unit->name);
			continue;
		}
		sets->n_stacks += unit->stack != 0;
		set = set_of(sets, unit);
		set->scheme = scheme_from_qspec(plan->units[u].spec, unit->static_input);
		modules_add(&set->modules, unit->name);
	}
	for (size_t i = 0; i < sets->n; i++)
		modules_sort(&sets->list[i].modules);
	modules_sort(&sets->tables);
}

static bool names_lm_head(const char *module)
{
	return !strcmp(text_after(module, '.'), "lm_head");
}

/* Adds lm_head to the kept modules if the model has no tensor of that name: engines make the module
 * of a tied model, and would quantize it. */
static void keep_tied_head(struct plan *plan, const struct recipe_sets *sets)
{
	for (size_t i = 0; i < plan->skipped.n; i++)
		if (names_lm_head(plan->skipped.names[i]))
			return;
	for (size_t i = 0; i < sets->n; i++)
		for (size_t m = 0; m < sets->list[i].modules.n; m++)
			if (names_lm_head(sets->list[i].modules.names[m]))
				return;
	skip_list_add_module(&plan->skipped, "lm_head");
}

static void sets_release(struct recipe_sets *sets)
{
	for (size_t i = 0; i < sets->n; i++)
		modules_release(&sets->list[i].modules);
	modules_release(&sets->tables);
	free(sets->list);
}

/* Returns the sets in the form that formats take, the largest first.  The caller frees it before
 * `sets`. */
static struct module_set *sets_list(const struct recipe_sets *sets)
{
	struct module_set *list = xcalloc(sets->n ? sets->n : 1, sizeof *list);

	for (size_t i = 0; i < sets->n; i++) {
		const struct modules *modules = &sets->list[i].modules;

		list[i] = (struct module_set){ .scheme = sets->list[i].scheme,
					       .modules = (const char *const *)modules->names,
					       .n_modules = modules->n };
		if (list[i].n_modules > list[0].n_modules) {
			struct module_set first = list[0];

			list[0] = list[i];
			list[i] = first;
		}
	}
	return list;
}

/* An entry of the list that some engine matches with a quantized module, whose codes it would then
 * read as weights. */
struct conflict {
	const char *entry; /* NULL: there is none */
	const char *module;
};

static void find_conflict(struct conflict *conflict, struct skip_match *match,
			  const struct modules *modules)
{
	for (size_t m = 0; m < modules->n && !conflict->entry; m++) {
		if (m + AHEAD < modules->n)
			__builtin_prefetch(modules->names[m + AHEAD]);
		conflict->entry = skip_match_conflict(match, modules->names[m]);
		conflict->module = modules->names[m];
	}
}

/* The prefixes of experts that stay in one tensor, by which engines look for them. */
static void add_prefixes(struct modules *prefixes, const struct plan *plan)
{
	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const struct unit *unit = &plan->selection.units[u];
		char *prefix;

		if (!unit->recipe || !unit->stack)
			continue;
		prefix = skip_experts_prefix(unit->name);
		modules_add(prefixes, prefix);
		free(prefix);
	}
}

static struct conflict list_conflict(const struct plan *plan, const struct recipe_sets *sets,
				     const struct modules *prefixes)
{
	const char *const *names = (const char *const *)plan->skipped.names;
	struct skip_match *match = skip_match_make(names, plan->skipped.n);
	struct conflict conflict = { 0 };

	find_conflict(&conflict, match, &sets->tables);
	for (size_t i = 0; i < sets->n; i++)
		find_conflict(&conflict, match, &sets->list[i].modules);
	find_conflict(&conflict, match, prefixes);
	skip_match_free(match);
	return conflict;
}

/* Do engines of the family build the module without quantization, whatever the list says? */
static bool is_bare(const struct plan *plan, const char *module)
{
	struct scheme scheme = scheme_from_qspec(&plan->spec, false);
	unsigned on = profile_conditions(plan->format, &scheme, plan->target);
	const struct profile_row *row = profile_find(&plan->profile, module, on).row;

	return row && row->action == PROFILE_BARE;
}

/* Leaves out of the list what engines know without it, where they would match it with a quantized
 * module; refuses the list if they would match another entry. */
static int check_list(struct plan *plan, const struct recipe_sets *sets, struct err *err)
{
	struct modules prefixes = { 0 };
	struct conflict conflict;

	if (sets->n_stacks)
		add_prefixes(&prefixes, plan);
	conflict = list_conflict(plan, sets, &prefixes);
	while (conflict.entry && is_bare(plan, conflict.entry)) {
		skip_list_remove(&plan->skipped, conflict.entry);
		conflict = list_conflict(plan, sets, &prefixes);
	}
	if (conflict.entry)
		err_set(err, ERR_USAGE,
			"'%s' is kept, and its name in the list of kept modules also matches "
			"'%s', which is quantized, in some engine: keep both with --exclude",
			conflict.entry, conflict.module);
	modules_release(&prefixes);
	return conflict.entry ? -1 : 0;
}

/* The low-bit weights that the output takes over, and what the source says of them. */
struct passed_source {
	json_t *config; /* its quantization_config, or NULL */
	json_t *whole;	/* its config.json, or NULL */
	struct modules modules;
};

/* Does the output have low-bit weights of the source? */
static bool passes_low_bit(const struct plan *plan)
{
	bool any = false;

	for (size_t u = 0; plan->selection.low_bit.n && !any && u < plan->selection.n_units; u++)
		any = plan->selection.units[u].passed;
	return any;
}

static int passed_read(struct passed_source *passed, const struct plan *plan, struct err *err)
{
	const struct checkpoint *source = &plan->source;
	const struct low_bit *low_bit = &plan->selection.low_bit;
	struct buf text = { 0 };
	int rc = -1;

	if (!passes_low_bit(plan))
		return 0;
	if (fp8_source_hf_quant_config(source, source->io, &text, err) ||
	    config_find_quantization(source, (struct json_text){ text.data, text.len },
				     &passed->config, err))
		goto out;
	if (source->config.len) {
		passed->whole = json_decode_python(
			(struct json_text){ source->config.data, source->config.len }, err);
		if (!passed->whole)
			goto out;
	}
	for (size_t i = 0; i < low_bit->n; i++)
		modules_add(&passed->modules, low_bit->list[i].tensor.name);
	modules_sort(&passed->modules);
	rc = 0;
out:
	buf_release(&text);
	return rc;
}

/* Returns the part of it that formats take, which is valid as long as `passed`. */
static struct passed passed_weights(const struct passed_source *passed, const struct plan *plan)
{
	const char *experts = json_member_text(passed->whole, "expert_dtype");

	/* DeepSeek-V4's experts are fp4 where nothing is said. */
	if (!*experts && !strcmp(json_member_text(passed->whole, "model_type"), "deepseek_v4"))
		experts = "fp4";
	return (struct passed){ .config = passed->config,
				.expert_dtype = experts,
				.kind = low_bit_kind(&plan->selection.low_bit),
				.modules = (const char *const *)passed->modules.names,
				.n_modules = passed->modules.n };
}

/* Sets the members of config.json by which engines of the family know FP8: "expert_dtype=fp8".
 * They stay as they are where experts stay low-bit. */
static int set_members(struct plan *plan, struct err *err)
{
	struct scheme scheme = scheme_from_qspec(&plan->spec, false);
	unsigned on = profile_conditions(plan->format, &scheme, plan->target);
	const struct profile_row *row = NULL;
	int rc = 0;

	if (passes_low_bit(plan))
		return 0;
	/* DeepSeek-V4's word for experts that are MXFP4 no more; its row sets it again. */
	if (low_bit_total(plan).n && config_remove(&plan->files.config, "expert_dtype", err))
		return -1;
	while (!rc && (row = profile_next(&plan->profile, PROFILE_CONFIG, on, row))) {
		const char *equals = strchr(row->pattern, '=');
		char *name = xstrndup(row->pattern, (size_t)(equals - row->pattern));
		char *value = xasprintf("\"%s\"", equals + 1);

		rc = config_set_member(&plan->files.config, name, value, err);
		free(name);
		free(value);
	}
	return rc;
}

/* Without a config.json beside the source none is invented: loaders would take it for that of a
 * model.  params.json says the same where engines read it. */
static int write_config(struct plan *plan, const struct scheme *scheme, struct buf *quantization,
			struct err *err)
{
	if (plan_params(plan, scheme, quantization->data, err))
		return -1;
	if (!plan->source.config.len) {
		plan->files.quantization = *quantization;
		*quantization = (struct buf){ 0 };
		return 0;
	}
	if (config_set_quantization(&plan->source.config, quantization->data, &plan->files.config,
				    err) ||
	    set_members(plan, err))
		return err_wrap(err, "'%s'", plan->source.path);
	return 0;
}

int plan_configuration(struct plan *plan, struct err *err)
{
	struct recipe_sets sets = { 0 };
	struct passed_source passed = { 0 };
	struct module_set *list = NULL;
	struct quantization quantization;
	struct buf config = { 0 };
	int rc = -1;

	sets_fill(&sets, plan);
	keep_tied_head(plan, &sets);
	skip_list_sort(&plan->skipped);
	if (check_list(plan, &sets, err) || passed_read(&passed, plan, err))
		goto out;
	list = sets_list(&sets);
	quantization = (struct quantization){ .sets = list,
					      .n_sets = sets.n,
					      .kept = (const char *const *)plan->skipped.names,
					      .n_kept = plan->skipped.n,
					      .tables = (const char *const *)sets.tables.names,
					      .n_tables = sets.tables.n,
					      .kv_cache = plan->kv_cache,
					      .kv_heads = plan->kv_heads,
					      .weight_only = plan->weight_only,
					      .target = plan->target,
					      .tool_version = FP8CONV_VERSION,
					      .passed = passed_weights(&passed, plan) };
	if (format_configure(plan->format, &quantization, &config, &plan->files.hf_quant_config,
			     err) ||
	    plan_engines(plan, &quantization, err))
		goto out;
	rc = write_config(plan, &list[0].scheme, &config, err);
out:
	free(list);
	json_decref(passed.config);
	json_decref(passed.whole);
	modules_release(&passed.modules);
	sets_release(&sets);
	buf_release(&config);
	return rc;
}
