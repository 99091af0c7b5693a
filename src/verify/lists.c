/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of the configuration: modules in high precision, groups and layers that are quantized,
 * embeddings that are.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/part_set.h"
#include "format/read_config.h"
#include "format/skip_match.h"
#include "model/tensor_name.h"
#include "select/skip_list.h"
#include "verify/steps.h"

/* --- reading --- */

static json_t *find_member(const json_t *config, const char *key)
{
	json_t *value = json_object_get(config, key);

	return value ? value : json_object_get(json_object_get(config, "quantization"), key);
}

static const json_t *find_skip_list(const json_t *config)
{
	static const char *const keys[] = { "ignored_layers", "modules_to_not_convert", "ignore",
					    "exclude_modules" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const json_t *list = find_member(config, keys[i]);

		if (json_is_array(list))
			return list;
	}
	return NULL;
}

/* Returns the strings of a list, or the keys of an object. */
static struct skip_match *arrange(const json_t *list)
{
	size_t n = json_is_object(list) ? json_object_size(list) : json_array_size(list);
	const char **texts = xcalloc(n, sizeof *texts);
	struct skip_match *match;
	const char *key;
	json_t *value;
	size_t i;

	n = 0;
	json_object_foreach((json_t *)list, key, value) texts[n++] = key;
	json_array_foreach(list, i, value) if (json_is_string(value)) texts[n++] =
		json_string_value(value);
	match = skip_match_make(texts, n);
	free(texts);
	return match;
}

/* Is it the name of a class of modules, which has all modules that no other group names? */
static bool is_class(const char *target)
{
	return !strcmp(target, "Linear") || !strcmp(target, "LinearBase") ||
	       !strcmp(target, "FusedMoE");
}

static void read_groups(struct verify_lists *lists, json_t *groups)
{
	const char *name;
	json_t *group;

	json_object_foreach(groups, name, group)
	{
		const json_t *targets = json_object_get(group, "targets"), *target;
		struct verify_group *read;
		size_t i;

		ARRAY_GROW(lists->groups, lists->n_groups);
		read = &lists->groups[lists->n_groups++];
		*read = (struct verify_group){ .group = group, .targets = arrange(targets) };
		json_array_foreach(targets, i, target) if (json_is_string(target)) read->all |=
			is_class(json_string_value(target));
	}
}

/* Finds the groups that FP8 weights belong to. */
static void mark_groups(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct verify_lists *lists = &verify->lists;
	size_t n_left = lists->n_groups;

	lists->fp8_groups = xcalloc(lists->n_groups + 1, sizeof *lists->fp8_groups);
	for (size_t i = 0; n_left && i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		const struct verify_group *group;
		char *module;

		if (!detection_is_weight(ref))
			continue;
		module = verify_module(ref->tensor->name);
		group = lists->n_groups > 1 ? lists_group(verify, module) : lists->groups;
		free(module);
		if (!group || lists->fp8_groups[group - lists->groups])
			continue;
		lists->fp8_groups[group - lists->groups] = true;
		n_left--;
	}
}

void lists_read(struct verify *verify)
{
	const json_t *config = verify->opened.detection->config;
	const json_t *layers = find_member(config, "quantized_layers");
	const json_t *tables = find_member(config, "modules_to_convert");
	struct verify_lists *lists = &verify->lists;

	lists->kept = find_skip_list(config);
	lists->skipped = arrange(lists->kept);
	lists->tables = arrange(tables);
	if (json_is_object(layers)) {
		lists->layer_list = layers;
		lists->layers = arrange(layers);
	}
	lists->chosen = !strcmp(config_quant_method(config), "compressed-tensors");
	read_groups(lists, json_object_get(config, "config_groups"));
	mark_groups(verify);
	lists->format = config_format(config);
	profile_make(&lists->profile, &verify->opened.model, PROFILE_ENGINE);
	if (lists->format)
		lists->on = profile_conditions(lists->format, &verify->opened.detection->scheme,
					       verify->opened.target);
}

void lists_release(struct verify *verify)
{
	struct verify_lists *lists = &verify->lists;

	for (size_t i = 0; i < lists->n_groups; i++)
		skip_match_free(lists->groups[i].targets);
	free(lists->groups);
	free(lists->fp8_groups);
	skip_match_free(lists->skipped);
	skip_match_free(lists->tables);
	skip_match_free(lists->layers);
	intern_release(&lists->conflicts);
	intern_release(&lists->experts);
	profile_release(&lists->profile);
	*lists = (struct verify_lists){ 0 };
}

/* --- questions --- */

bool lists_skip(const struct verify *verify, const char *module)
{
	return skip_match_lists(verify->lists.skipped, module) != NULL;
}

bool lists_table(const struct verify *verify, const char *module)
{
	return skip_match_conflict(verify->lists.tables, module) != NULL;
}

const struct verify_group *lists_group(const struct verify *verify, const char *module)
{
	const struct verify_lists *lists = &verify->lists;

	for (size_t i = 0; i < lists->n_groups; i++)
		if (skip_match_lists(lists->groups[i].targets, module))
			return &lists->groups[i];
	for (size_t i = 0; i < lists->n_groups; i++)
		if (lists->groups[i].all)
			return &lists->groups[i];
	return NULL;
}

bool lists_quantize(const struct verify *verify, const char *module)
{
	const struct verify_lists *lists = &verify->lists;

	if (lists->layers)
		return skip_match_lists(lists->layers, module) != NULL;
	return !lists->chosen || !lists->n_groups || lists_group(verify, module);
}

/* Returns an entry that matches a module, or the prefix by which engines look for a stack. */
static const char *find_conflict(const struct verify *verify, const struct st_tensor *tensor,
				 const char *module)
{
	const char *entry = skip_match_conflict(verify->lists.skipped, module);
	char *prefix;

	if (entry || tensor->n_dims != 3)
		return entry;
	prefix = skip_experts_prefix(tensor->name);
	entry = skip_match_conflict(verify->lists.skipped, prefix);
	free(prefix);
	return entry;
}

void lists_check_conflict(struct verify *verify, const struct tensor_ref *ref, const char *module)
{
	const char *entry = find_conflict(verify, ref->tensor, module);
	struct intern *conflicts = &verify->lists.conflicts;
	size_t n = conflicts->n;

	if (entry && intern_add(conflicts, entry, strlen(entry)) == n)
		problem_add(&verify->result->problems, PROBLEM_CONFIG_IGNORE, ref->tensor->name,
			    verify_file(verify, ref),
			    "the list of modules in high precision names '%s', which matches '%s' "
			    "(%s) in some engines: they read its codes as weights",
			    entry, module, dtype_name(ref->tensor->dtype));
}

/* --- entries that name nothing --- */

/* Is there a tensor below a module? */
static bool has_below(const struct checkpoint *checkpoint, const char *module)
{
	size_t low = 0, high = checkpoint->n_tensors, n = strlen(module);
	const char *name;

	while (low < high) {
		size_t middle = (low + high) / 2;

		name = checkpoint->by_name[middle].tensor->name;
		if (strncmp(name, module, n) < 0 || (!strncmp(name, module, n) && name[n] < '.'))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == checkpoint->n_tensors)
		return false;
	name = checkpoint->by_name[low].tensor->name;
	return !strncmp(name, module, n) && name[n] == '.';
}

/* Adds the prefixes of experts in high precision. */
static void find_experts(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct intern *experts = &verify->lists.experts;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct st_tensor *tensor = checkpoint->by_name[i].tensor;
		const struct role_facts facts = role_cache_find(&verify->roles, tensor->name);
		char *prefix;

		if (skip_need(tensor, &facts) != SKIP_EXPERTS)
			continue;
		prefix = skip_experts_prefix(tensor->name);
		intern_add(experts, prefix, strlen(prefix));
		free(prefix);
	}
}

/* Is it a name by which engines look for experts that are there? */
static bool names_experts(struct verify *verify, const char *entry)
{
	struct intern *experts = &verify->lists.experts;
	size_t n = strlen(entry);

	for (const char *const *end = skip_experts_endings(verify->lists.format); *end; end++) {
		size_t n_end = strlen(*end), before;

		if (n < n_end || strcmp(entry + n - n_end, *end) != 0)
			continue;
		before = experts->n;
		if (intern_add(experts, entry, n - n_end) < before)
			return true;
	}
	return false;
}

/* An embedding, a norm or a convolution that the checkpoint lacks, the head of a tied model, and
 * what the table of families keeps. */
static bool is_known(struct verify *verify, const struct profile *profile, const char *entry)
{
	char *weight = xasprintf("%s.weight", entry);
	bool free_name = role_cache_find(&verify->roles, weight).free;
	const struct profile_row *row = profile_find(profile, weight, verify->lists.on).row;

	free(weight);
	return free_name || !strcmp(entry, "lm_head") ||
	       (row && (row->action == PROFILE_KEEP || row->action == PROFILE_BARE));
}

static bool names_something(struct verify *verify, const struct profile *profile, const char *entry)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	return checkpoint_find(checkpoint, entry) || has_below(checkpoint, entry) ||
	       is_known(verify, profile, entry) || names_experts(verify, entry);
}

/* Entries that name no module from its start. */
struct rest {
	size_t n;
	const char **entries; /* in the order of the list */
	struct part_set set;  /* the same */
	struct intern ends;   /* those that are the end of a module's path */
};

/* Looks up the ends of all modules, at each dot, instead of all modules for each entry. */
static void find_ends(struct rest *rest, const struct checkpoint *checkpoint)
{
	part_set_init(&rest->set, rest->n);
	for (size_t i = 0; i < rest->n; i++)
		part_set_add(&rest->set, rest->entries[i], strlen(rest->entries[i]));
	for (size_t i = 0; rest->n && i < checkpoint->n_tensors; i++) {
		const char *name = checkpoint->tensors[i].tensor->name;
		const char *end = name + module_len(name), *dot = name;

		while ((dot = memchr(dot, '.', (size_t)(end - dot)))) {
			dot++;
			if (part_set_get(&rest->set, dot, (size_t)(end - dot)))
				intern_add(&rest->ends, dot, (size_t)(end - dot));
		}
	}
}

/* Reports the entries that are not the end of a path either. */
static void report_rest(struct verify *verify, struct rest *rest)
{
	struct part_text none = { 0 };
	size_t n_ends;

	find_ends(rest, verify->opened.checkpoint);
	n_ends = rest->ends.n;
	for (size_t i = 0; i < rest->n; i++) {
		const char *entry = rest->entries[i];

		if (intern_add(&rest->ends, entry, strlen(entry)) >= n_ends)
			problem_add(
				&verify->result->problems, PROBLEM_CONFIG_IGNORE, NULL,
				"config.json",
				"the list of modules in high precision names '%s', which is not in "
				"the model",
				entry);
	}
	part_set_release(&rest->set, &none);
	intern_release(&rest->ends);
	free(rest->entries);
}

void lists_check_entries(struct verify *verify)
{
	struct rest rest = { 0 };
	struct profile profile;
	const json_t *entry;
	size_t i;

	profile_make(&profile, &verify->opened.model, PROFILE_VENDOR);
	if (verify->lists.kept)
		find_experts(verify);
	json_array_foreach(verify->lists.kept, i, entry)
	{
		const char *text = json_string_value(entry);

		if (!text)
			problem_add(&verify->result->problems, PROBLEM_CONFIG_IGNORE, NULL,
				    "config.json",
				    "the list of modules in high precision has an entry that is "
				    "not a string");
		else if (strncmp(text, "re:", 3) && !strpbrk(text, "*?[") &&
			 !names_something(verify, &profile, text)) {
			ARRAY_GROW(rest.entries, rest.n);
			rest.entries[rest.n++] = text;
		}
	}
	report_rest(verify, &rest);
	profile_release(&profile);
}
