/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/entries.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/part_set.h"
#include "names/tensor_name.h"
#include "select/engine_names.h"
#include "select/skip_list.h"
#include "verify/tensors.h"

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

/* The conditions of rows by which engines name modules: any engine's name is one. */
#define ANY_NAME (ON_RECIPES | ON_FORMATS | FOR_ENGINES)

/* Adds the prefix of experts, as it is and as engines have it. */
static void add_experts(struct verify *verify, const char *prefix)
{
	const struct profile *profile = &verify->lists.profile;
	struct intern *experts = &verify->lists.experts;
	const struct profile_row *row = NULL;
	size_t n = experts->n;

	if (intern_add(experts, prefix, strlen(prefix)) < n)
		return;
	while ((row = profile_next(profile, PROFILE_NAME, ANY_NAME, row))) {
		char *name = engine_name_by(profile, row, prefix);

		if (name)
			intern_add(experts, name, strlen(name));
		free(name);
	}
}

/* Adds the prefixes of experts in high precision. */
static void find_experts(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct st_tensor *tensor = checkpoint->by_name[i].tensor;
		const struct role_facts facts = role_cache_find(&verify->roles, tensor->name);
		char *prefix;

		if (skip_need(tensor, &facts) != SKIP_EXPERTS)
			continue;
		prefix = skip_experts_prefix(tensor->name);
		add_experts(verify, prefix);
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

/* Is it an entry that an engine needs for a family? */
static bool is_entry(const struct profile *profile, const char *entry)
{
	const struct profile_row *row = NULL;

	while ((row = profile_next(profile, PROFILE_ENTRY, ANY_NAME, row)))
		if (!strcmp(row->said, entry))
			return true;
	return false;
}

/* An embedding, a norm or a convolution that the checkpoint lacks, the head of a tied model, and
 * what the table of families keeps or adds. */
static bool is_known(struct verify *verify, const struct profile *profile, const char *entry)
{
	char *weight = xasprintf("%s.weight", entry);
	bool free_name = role_cache_find(&verify->roles, weight).free;
	const struct profile_row *row = profile_find(profile, weight, verify->lists.on).row;

	free(weight);
	return free_name || !strcmp(entry, "lm_head") || is_entry(profile, entry) ||
	       (row && (row->action == PROFILE_KEEP || row->action == PROFILE_BARE));
}

static bool names_own(struct verify *verify, const struct profile *profile, const char *entry)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	return checkpoint_find(checkpoint, entry) || has_below(checkpoint, entry) ||
	       is_known(verify, profile, entry) || names_experts(verify, entry);
}

/* The same for a base model, which engines build below "model". */
static bool names_something(struct verify *verify, const struct profile *profile, const char *entry)
{
	static const char prefix[] = "model.";

	return names_own(verify, profile, entry) ||
	       (!strncmp(entry, prefix, strlen(prefix)) &&
		names_own(verify, profile, entry + strlen(prefix)));
}

/* Entries that name no module from its start. */
struct rest {
	size_t n;
	const char **entries; /* in the order of the list */
	struct part_set set;  /* the same */
	struct intern ends;   /* those that are the end of a module's path */
};

/* Looks up the names that engines have for a module, and of those above it. */
static void find_renamed(struct rest *rest, const struct profile *profile, const char *module)
{
	const struct profile_row *row = NULL;

	while ((row = profile_next(profile, PROFILE_NAME, ANY_NAME, row))) {
		char *name = engine_name_by(profile, row, module);

		for (const char *end = name; end && *end; end += *end == '.') {
			end = strchrnul(end, '.');
			if (part_set_get(&rest->set, name, (size_t)(end - name)))
				intern_add(&rest->ends, name, (size_t)(end - name));
		}
		free(name);
	}
}

/* Looks up the whole segments from `begin` to each dot before `end`, which SGLang takes anywhere in
 * a module. */
static void find_within(struct rest *rest, const char *begin, const char *end)
{
	for (const char *dot = begin; (dot = memchr(dot, '.', (size_t)(end - dot))); dot++)
		if (part_set_get(&rest->set, begin, (size_t)(dot - begin)))
			intern_add(&rest->ends, begin, (size_t)(dot - begin));
}

/* Looks up the ends of all modules, at each dot, instead of all modules for each entry. */
static void find_ends(struct rest *rest, const struct checkpoint *checkpoint,
		      const struct profile *profile, bool within)
{
	bool renamed = profile_next(profile, PROFILE_NAME, ANY_NAME, NULL);

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
			if (within)
				find_within(rest, dot, end);
		}
		if (renamed) {
			char *module = verify_module(name);

			find_renamed(rest, profile, module);
			free(module);
		}
	}
}

/* Reports the entries that are not the end of a path either. */
static void report_rest(struct verify *verify, struct rest *rest)
{
	struct part_text none = { 0 };
	size_t n_ends;

	find_ends(rest, verify->opened.checkpoint, &verify->lists.profile,
		  verify->opened.target == ENGINE_SGLANG);
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

void verify_entries(struct verify *verify)
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
