/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "format/member.h"
#include "format/part_set.h"
#include "format/read_config.h"
#include "names/tensor_name.h"
#include "select/engine_names.h"
#include "select/skip_list.h"
#include "source/fp8_source.h"
#include "verify/lists.h"
#include "verify/tensors.h"

/* --- entries of the list of modules in high precision that name nothing: neither a module, by its
 * own name or that of an engine, nor what is above it, nor the end of a path --- */

/* Is there a tensor below a module? */
static bool has_below(const struct checkpoint *checkpoint, const char *module)
{
	const struct tensor_ref *all = checkpoint->by_name;
	size_t i, n = strlen(module);

	SEARCH(i, checkpoint->n_tensors,
	       (strncmp(all[i].tensor->name, module, n) ?: all[i].tensor->name[n] - '.') < 0);
	return i < checkpoint->n_tensors && !strncmp(all[i].tensor->name, module, n) &&
	       all[i].tensor->name[n] == '.';
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

/* Reports entries of the list of modules in high precision that name nothing. */
static void verify_entries(struct verify *verify)
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

static void problem(struct verify *verify, enum problem_kind kind, const char *file,
		    const char *message)
{
	problem_add(&verify->result->problems, kind, NULL, file, "%s", message);
}

static void report(void *context, enum config_part part, const char *file, const char *message)
{
	problem(context, part == CONFIG_KEYS ? PROBLEM_CONFIG_KEY : PROBLEM_CONFIG_IGNORE, file,
		message);
}

/* Reports the first module with an algorithm of its own that the target does not read. */
static void check_layers(struct verify *verify)
{
	const struct format *format = verify->opened.format;
	const char *name;
	json_t *layer;

	if (!format)
		return;
	json_object_foreach((json_t *)verify->lists.layer_list, name, layer)
	{
		struct declaration said = { 0 };
		const char *reason;

		format->read(layer, &said);
		reason = said.declared ? engine_refuses_beside(verify->opened.target, format,
							       &said.scheme)
				       : NULL;
		if (!reason)
			continue;
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "quantized_layers has '%s' as %s, which %s does not load: %s", name,
			    json_member_text(layer, "quant_algo"),
			    engine_name(verify->opened.target), reason);
		return;
	}
}

/* Reports a scheme that the loader of the target refuses. */
static void check_target(struct verify *verify)
{
	struct err err = { 0 };

	check_layers(verify);
	if (verify->opened.target != ENGINE_ANY && verify->opened.format &&
	    engine_check(verify->opened.target, verify->opened.format,
			 &verify->opened.detection->scheme,
			 fp8_source_recipe(verify->opened.detection), &err))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json", err.message);
}

int config_declares(struct verify *verify, struct err *err)
{
	const struct detection *detection = verify->opened.detection;
	struct buf text = { 0 };
	struct err ignored;
	const char *type;
	json_t *params, *quantization;
	bool says;

	if (fp8_source_params(verify->opened.checkpoint, verify->params->io, &text, err))
		return -1;
	params = json_decode_python((struct json_text){ text.data, text.len }, &ignored);
	quantization = json_object_get(params, "quantization");
	type = json_string_value(json_object_get(quantization, "qformat_weight"));
	says = (type && !strncmp(type, "fp8", 3)) || json_object_get(quantization, "quant_method");
	if (detection->config && detection->n_weights && params && !says)
		problem(verify, PROBLEM_CONFIG_KEY, PARAMS_NAME,
			"\"quantization\" is missing, and vLLM takes params.json before "
			"config.json where the weights lie in consolidated*.safetensors: add it, "
			"or remove params.json");
	verify->opened.declared = detection->config ? detection->declared : says;
	json_decref(params);
	buf_release(&text);
	return 0;
}

/* Reports a "quantization_config" that is no object. */
static void check_object(struct verify *verify)
{
	const struct buf *config = &verify->opened.checkpoint->config;
	struct json_text value;
	struct err ignored;

	if (!config->len || json_find((struct json_text){ config->data, config->len },
				      "quantization_config", &value, &ignored))
		return;
	if (value.len && *value.data != '{' && !json_text_is_null(value))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "quantization_config is %.*s, which is not an object: engines refuse "
			    "to load it",
			    value.len < 40 ? (int)value.len : 40, value.data);
}

void verify_config(struct verify *verify)
{
	const struct detection *detection = verify->opened.detection;

	lists_read(verify);
	if (!verify->opened.checkpoint->directory)
		return;
	check_object(verify);
	if (!detection->config) {
		/* The configuration of an unfinished output is written last. */
		if (detection->n_weights && !verify->opened.declared &&
		    !verify->opened.checkpoint->n_expected)
			problem(verify, PROBLEM_CONFIG_KEY, "config.json",
				verify->opened.checkpoint->config.len
					? "quantization_config is missing: engines read FP8 codes "
					  "as weights"
					: "there is no config.json: take that of the source model, "
					  "and add the quantization_config that 'quantize' or "
					  "'repack' shows");
		return;
	}
	if (!detection->declared && !detection->n_weights)
		return;
	config_check_keys(&(struct config_check){ .detection = detection,
						  .hf_quant_config = verify->opened.hf_quant_config,
						  .kept = verify->lists.kept,
						  .fp8_groups = verify->lists.fp8_groups,
						  .target = verify->opened.target,
						  .report = report,
						  .context = verify });
	check_target(verify);
	verify_entries(verify);
}
