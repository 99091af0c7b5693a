/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/lists.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "format/part_set.h"
#include "format/read_config.h"
#include "format/skip_match.h"
#include "select/engine_names.h"
#include "select/skip_list.h"
#include "verify/matchers.h"
#include "verify/tensors.h"

/* --- reading --- */

static json_t *find_member(const json_t *config, const char *key)
{
	json_t *value = json_object_get(config, key);

	return value ? value : json_object_get(json_object_get(config, "quantization"), key);
}

static const json_t *find_skip_list(const json_t *config)
{
	static const char *const keys[] = { "ignored_layers", "modules_to_not_convert", "ignore",
					    "exclude_modules", "exclude" };

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

/* Keeps the entries of the list once more: all as they are, and the regular expressions, with "re:"
 * and without it. */
static void arrange_exact(struct verify_lists *lists)
{
	const char **texts = xcalloc(json_array_size(lists->kept), sizeof *texts);
	char **bare = xcalloc(json_array_size(lists->kept), sizeof *bare);
	json_t *value;
	size_t i, n = 0, n_bare = 0;

	part_set_init(&lists->entries, json_array_size(lists->kept));
	part_set_init(&lists->undotted, json_array_size(lists->kept));
	json_array_foreach(lists->kept, i, value)
	{
		const char *text = json_string_value(value);
		size_t len = text ? strlen(text) : 0, whole = len;

		if (!text)
			continue;
		part_set_add(&lists->entries, text, len);
		while (whole && text[whole - 1] == '.')
			whole--;
		if (whole < len)
			part_set_add(&lists->undotted, text, whole);
		if (!strncmp(text, "re:", 3))
			texts[n++] = text;
		else if (strpbrk(text, "*?[](){}^$|+\\"))
			bare[n_bare++] = xasprintf("re:(?:%s)(?:(?<=\\.)|(?=\\.|\\z))", text);
	}
	lists->patterns = skip_match_make(texts, n);
	lists->bare = skip_match_make((const char *const *)bare, n_bare);
	lists->bare_texts = bare;
	lists->n_bare = n_bare;
	free(texts);
}

/* Is it the name of a class of modules, which has all modules that no other group names? */
static bool is_class(const char *target)
{
	return words_find("Linear|LinearBase|FusedMoE", target) >= 0;
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

/* Reads Quark's layers, and all others as the last group. */
static void read_layers(struct verify_lists *lists, const json_t *config)
{
	json_t *layers = json_object_get(config, "layer_quant_config"), *layer;
	const char *name;

	if (!json_object_size(layers))
		return;
	lists->groups = xcalloc(json_object_size(layers) + 1, sizeof *lists->groups);
	json_object_foreach(layers, name, layer) lists->groups[lists->n_groups++] =
		(struct verify_group){ .group = layer, .targets = skip_match_make(&name, 1) };
	lists->groups[lists->n_groups++] =
		(struct verify_group){ .group = json_object_get(config, "global_quant_config"),
				       .targets = skip_match_make(NULL, 0),
				       .all = true };
}

/* Returns the group of a module, or NULL. */
static const struct verify_group *find_group(const struct verify *verify, const char *module)
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
		group = lists->n_groups > 1 ? find_group(verify, module) : lists->groups;
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
	lists->renamed = arrange(lists->kept);
	arrange_exact(lists);
	lists->tables = arrange(tables);
	if (json_is_object(layers)) {
		lists->layer_list = layers;
		lists->layers = arrange(layers);
	}
	lists->chosen = !strcmp(config_quant_method(config), "compressed-tensors");
	read_groups(lists, json_object_get(config, "config_groups"));
	if (!lists->n_groups)
		read_layers(lists, config);
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
	skip_match_free(lists->renamed);
	skip_match_free(lists->patterns);
	skip_match_free(lists->bare);
	for (size_t i = 0; i < lists->n_bare; i++)
		free(lists->bare_texts[i]);
	free(lists->bare_texts);
	part_set_release(&lists->entries, NULL);
	part_set_release(&lists->undotted, NULL);
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

bool lists_skip_target(const struct verify *verify, const char *module)
{
	const enum engine target = verify->opened.target;

	return matchers_know(verify, target, module) ? matchers_find(verify, target, module) != NULL
						     : lists_skip(verify, module);
}

/* Whether an engine leaves out the module.  A name of its own is matched as it matches names:
 * SGLang takes the end of a path, the others do not, which then would be the module's own name. */
static bool skips_as(const struct verify *verify, enum engine engine, const char *module)
{
	const struct verify_lists *lists = &verify->lists;
	char *name = engine_name_of(&lists->profile, lists->on, engine, module);
	bool skips;

	if (verify->opened.target == engine && matchers_know(verify, engine, module))
		skips = matchers_find(verify, engine, name ? name : module) != NULL;
	else if (!name || engine == ENGINE_SGLANG)
		skips = lists_skip(verify, name ? name : module);
	else
		skips = part_set_get(&lists->entries, name, strlen(name)) ||
			lists_skip_by_pattern(verify, name);
	free(name);
	return skips;
}

bool lists_skip_engine(const struct verify *verify, const char *module)
{
	enum engine target = verify->opened.target;

	if (target != ENGINE_ANY)
		return skips_as(verify, target, module);
	return skips_as(verify, ENGINE_VLLM, module) || skips_as(verify, ENGINE_SGLANG, module);
}

char *lists_engine_name(const struct verify *verify, const char *module)
{
	const struct verify_lists *lists = &verify->lists;
	enum engine target = verify->opened.target;
	char *name = engine_name_of(&lists->profile, lists->on,
				    target == ENGINE_ANY ? ENGINE_VLLM : target, module);

	return name ? name : xstrdup(module);
}

bool lists_skip_by_pattern(const struct verify *verify, const char *module)
{
	return skip_match_lists(verify->lists.patterns, module) != NULL;
}

bool lists_table(const struct verify *verify, const char *module)
{
	return skip_match_conflict(verify->lists.tables, module) != NULL;
}

bool lists_quantize(const struct verify *verify, const char *module)
{
	const struct verify_lists *lists = &verify->lists;

	if (lists->layers)
		return skip_match_lists(lists->layers, module) != NULL;
	return !lists->chosen || !lists->n_groups || find_group(verify, module);
}

bool lists_head(const struct verify *verify, const char *module)
{
	const struct verify_lists *lists = &verify->lists;
	const struct format *format = verify->opened.format;

	if (!format || format->head == FP8_HEAD_NEVER ||
	    verify->opened.target == ENGINE_TRANSFORMERS)
		return false;
	for (size_t i = 0; i < lists->n_groups && format->head == FP8_HEAD_NAMED; i++)
		if (skip_match_lists(lists->groups[i].targets, module))
			return true;
	return format->head == FP8_HEAD_UNLISTED;
}

/* Returns an entry that matches a module, by its name or that of an engine, or the prefix by which
 * engines look for a stack. */
static const char *find_conflict(const struct verify *verify, const struct st_tensor *tensor,
				 const char *module)
{
	const enum engine target = verify->opened.target;
	const struct profile_row *row = NULL;
	const char *entry;
	char *prefix;

	if (matchers_know(verify, target, module))
		return matchers_find(verify, target, module);
	entry = skip_match_conflict(verify->lists.skipped, module);

	while (!entry &&
	       (row = profile_next(&verify->lists.profile, PROFILE_NAME, verify->lists.on, row))) {
		char *name = engine_name_by(&verify->lists.profile, row, module);

		if (name)
			entry = skip_match_conflict(verify->lists.renamed, name);
		free(name);
	}
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
		verify_report(
			verify, PROBLEM_CONFIG_IGNORE, ref,
			"the list of modules in high precision names '%s', which matches '%s' "
			"(%s) in %s: codes are read as weights",
			entry, module, dtype_name(ref->tensor->dtype),
			matchers_know(verify, verify->opened.target, module)
				? engine_name(verify->opened.target)
				: "some engines");
}

/* The scheme of a member of "quantized_layers" or of a group. */
static struct scheme read_scheme(const struct verify *verify, const json_t *text)
{
	struct declaration said = { 0 };

	verify->lists.format->read(text, &said);
	return said.declared ? said.scheme : verify->opened.detection->scheme;
}

struct scheme verify_scheme(const struct verify *verify, const char *module)
{
	const struct verify_lists *lists = &verify->lists;
	const struct verify_group *group;
	const char *name;

	if (lists->layers && lists->format) {
		name = skip_match_lists(lists->layers, module);
		return read_scheme(verify, name ? json_object_get(lists->layer_list, name) : NULL);
	}
	if (lists->n_groups < 2 || !lists->format)
		return verify->opened.detection->scheme;
	group = find_group(verify, module);
	return read_scheme(verify, group ? group->group : NULL);
}
