/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: the keys that loaders insist on, what it says of the weights, and the list of
 * modules that stay in high precision.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/check_config.h"
#include "base/pattern.h"
#include "source/fp8_source.h"
#include "verify/steps.h"

static void problem(struct verify *verify, enum problem_kind kind, const char *file,
		    const char *message)
{
	problem_add(&verify->result->problems, kind, NULL, file, "%s", message);
}

/* --- the list --- */

static const json_t *skip_list(const json_t *config)
{
	static const char *const keys[] = { "ignored_layers", "modules_to_not_convert", "ignore",
					    "exclude_modules" };
	const json_t *nested = json_object_get(config, "quantization");

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const json_t *list = json_object_get(config, keys[i]);

		list = list ? list : json_object_get(nested, keys[i]);
		if (json_is_array(list))
			return list;
	}
	return NULL;
}

static bool matches_expression(const char *expression, const char *module)
{
	struct pattern pattern;
	struct err ignored;
	bool matches = false;

	if (pattern_compile(&pattern, "ignore", expression, &ignored))
		return false;
	if (pattern_match(&pattern, module, &matches, &ignored))
		matches = false;
	pattern_release(&pattern);
	return matches;
}

bool config_entry_matches(const char *entry, const char *module)
{
	size_t n = strlen(entry), length = strlen(module);

	if (!strncmp(entry, "re:", 3))
		return matches_expression(entry + 3, module);
	if (strpbrk(entry, "*?["))
		return !fnmatch(entry, module, 0);
	if (!n || n > length)
		return false;
	if (!strncmp(entry, module, n) && (!module[n] || module[n] == '.'))
		return true;
	return !strcmp(module + length - n, entry) &&
	       (n == length || module[length - n - 1] == '.');
}

bool config_skips(const struct verify *verify, const char *module)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(
		verify->opened.kept, i,
		entry) if (json_is_string(entry) &&
			   config_entry_matches(json_string_value(entry), module)) return true;
	return false;
}

static bool names_something(const struct verify *verify, const char *entry)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	char *weight = xasprintf("%s.weight", entry);
	bool found = checkpoint_find(checkpoint, weight) || checkpoint_find(checkpoint, entry);

	free(weight);
	/* A tied model has no tensor of that name, but engines make the module. */
	if (found || !strcmp(entry, "lm_head"))
		return true;
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		char *module = verify_module(checkpoint->tensors[i].tensor->name);
		bool matches = config_entry_matches(entry, module);

		free(module);
		if (matches)
			return true;
	}
	return false;
}

static void check_list(struct verify *verify)
{
	const json_t *entry;
	size_t i;

	json_array_foreach(verify->opened.kept, i, entry)
	{
		const char *text = json_string_value(entry);

		if (!text)
			problem(verify, PROBLEM_CONFIG_IGNORE, "config.json",
				"the list of modules in high precision has an entry that is not a "
				"string");
		else if (strncmp(text, "re:", 3) && !strpbrk(text, "*?[") &&
			 !names_something(verify, text))
			problem_add(
				&verify->result->problems, PROBLEM_CONFIG_IGNORE, NULL,
				"config.json",
				"the list of modules in high precision names '%s', which is not in "
				"the model",
				text);
	}
}

/* --- keys --- */

static void report(void *context, enum config_part part, const char *file, const char *message)
{
	problem(context, part == CONFIG_KEYS ? PROBLEM_CONFIG_KEY : PROBLEM_CONFIG_IGNORE, file,
		message);
}

/* Reports a scheme that the loader of the target refuses. */
static void check_target(struct verify *verify)
{
	struct err err = { 0 };

	if (verify->opened.target != ENGINE_ANY && verify->opened.format &&
	    engine_check(verify->opened.target, verify->opened.format,
			 &verify->opened.detection->scheme,
			 fp8_source_recipe(verify->opened.detection), &err))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json", err.message);
}

void verify_config(struct verify *verify)
{
	const struct detection *detection = verify->opened.detection;

	verify->opened.kept = skip_list(detection->config);
	if (!verify->opened.checkpoint->directory)
		return;
	if (!detection->config) {
		if (detection->n_weights)
			problem(verify, PROBLEM_CONFIG_KEY, "config.json",
				"quantization_config is missing: engines read FP8 codes as "
				"weights");
		return;
	}
	if (!detection->declared && !detection->n_weights)
		return;
	config_check_keys(&(struct config_check){ .detection = detection,
						  .hf_quant_config = verify->opened.hf_quant_config,
						  .kept = verify->opened.kept,
						  .report = report,
						  .context = verify });
	check_target(verify);
	if (verify->opened.kept)
		check_list(verify);
}
