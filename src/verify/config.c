/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: the keys that loaders insist on, what it says of the weights, and the list of
 * modules that stay in high precision.
 */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "format/variant.h"
#include "base/pattern.h"
#include "verify/steps.h"

static void problem(struct verify *verify, enum problem_kind kind, const char *file,
		    const char *message)
{
	problem_add(&verify->result->problems, kind, NULL, file, "%s", message);
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
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
		verify->skipped, i,
		entry) if (json_is_string(entry) &&
			   config_entry_matches(json_string_value(entry), module)) return true;
	return false;
}

static bool names_something(const struct verify *verify, const char *entry)
{
	const struct checkpoint *checkpoint = verify->checkpoint;

	char *weight = xasprintf("%s.weight", entry);
	bool found = checkpoint_find(checkpoint, weight) || checkpoint_find(checkpoint, entry);

	free(weight);
	/* A tied model has no tensor of that name, and engines still make the module. */
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

	json_array_foreach(verify->skipped, i, entry)
	{
		const char *text = json_string_value(entry);

		if (!text)
			problem(verify, PROBLEM_CONFIG_IGNORE, "config.json",
				"the list of modules that stay in high precision holds something "
				"that is no text");
		else if (strncmp(text, "re:", 3) && !strpbrk(text, "*?[") &&
			 !names_something(verify, text))
			problem_add(&verify->result->problems, PROBLEM_CONFIG_IGNORE, NULL,
				    "config.json",
				    "the list of modules that stay in high precision names '%s', "
				    "which the model has not",
				    text);
	}
}

/* --- keys --- */

static void check_fp8(struct verify *verify, const json_t *config)
{
	const struct scheme *scheme = &verify->detection->scheme;
	const char *activations = text_of(config, "activation_scheme");
	const char *fmt = text_of(config, "fmt");
	const struct tile *said = &verify->detection->declared_tile;
	bool blocks = scheme->grain == GRAIN_BLOCK;

	if (strcmp(activations, "dynamic") && strcmp(activations, "static"))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json",
			"quantization_config has no activation_scheme 'dynamic' or 'static': "
			"loading is refused");
	else if (blocks && strcmp(activations, "dynamic"))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json",
			"activation_scheme is 'static', and blocks need 'dynamic': loading is "
			"refused");
	if (blocks && (said->rows != scheme->tile.rows || said->cols != scheme->tile.cols))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "weight_block_size is not the %zu x %zu of the scales: engines take "
			    "them for other weights",
			    scheme->tile.rows, scheme->tile.cols);
	if (*fmt && (strstr(fmt, "e5m2") != NULL) != (scheme->fp8_format == FP8_E5M2))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "fmt is '%s', but the weights are %s", fmt,
			    scheme->fp8_format == FP8_E5M2 ? "E5M2" : "E4M3");
}

static void check_mxfp8(struct verify *verify, const json_t *config)
{
	const json_t *block = json_object_get(config, "weight_block_size");

	if (json_integer_value(json_array_get(block, 0)) != 1 ||
	    json_integer_value(json_array_get(block, 1)) != 32)
		problem(verify, PROBLEM_CONFIG_KEY, "config.json",
			"weight_block_size of mxfp8 is not [1, 32]");
	if (strcmp(text_of(config, "activation_scheme"), "dynamic"))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json",
			"activation_scheme of mxfp8 is not 'dynamic'");
}

/* What QuantizationArgs of compressed-tensors 0.12 and later knows. */
static bool args_key_known(const char *key)
{
	static const char *const known[] = {
		"num_bits",	   "type",     "symmetric", "group_size", "strategy",
		"block_structure", "dynamic",  "actorder",  "observer",	  "observer_kwargs",
		"scale_dtype",	   "zp_dtype",
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(known[i], key))
			return true;
	return false;
}

static void check_args(struct verify *verify, const char *group, const char *what, json_t *args)
{
	const char *key;
	json_t *value;

	json_object_foreach(args, key, value) if (!args_key_known(key))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "%s of '%s' has a key '%s', which compressed-tensors does not know: "
			    "loading is refused",
			    what, group, key);
}

static void check_strategy(struct verify *verify, const char *group, const json_t *weights)
{
	static const char *const strategies[] = {
		[GRAIN_TENSOR] = "tensor",
		[GRAIN_CHANNEL] = "channel",
		[GRAIN_BLOCK] = "block",
		[GRAIN_MX] = "group",
	};
	const char *strategy = text_of(weights, "strategy");
	const char *wanted = strategies[verify->detection->scheme.grain];

	if (verify->detection->n_weights && strcmp(strategy, wanted))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "weights of '%s' have strategy '%s', but the scales are those of '%s'",
			    group, strategy, wanted);
	if (!strcmp(wanted, "group") && strcmp(text_of(weights, "scale_dtype"), "torch.uint8"))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "weights of '%s' have no scale_dtype 'torch.uint8': compressed-tensors "
			    "takes the scales for numbers",
			    group);
}

static void check_groups(struct verify *verify, const json_t *config)
{
	json_t *groups = json_object_get(config, "config_groups");
	const char *name;
	json_t *group;

	if (!json_object_size(groups))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json",
			"quantization_config has no config_groups: nothing is read as FP8");
	json_object_foreach(groups, name, group)
	{
		json_t *weights = json_object_get(group, "weights");

		if (!json_array_size(json_object_get(group, "targets")))
			problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL,
				    "config.json", "config group '%s' has no targets", name);
		if (!json_is_object(weights))
			problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL,
				    "config.json", "config group '%s' has no weights", name);
		check_args(verify, name, "weights", weights);
		check_args(verify, name, "input_activations",
			   json_object_get(group, "input_activations"));
		if (json_is_object(weights) && json_object_size(groups) == 1)
			check_strategy(verify, name, weights);
	}
}

static bool same_list(const json_t *a, const json_t *b)
{
	size_t n = json_array_size(a);

	if (n != json_array_size(b))
		return false;
	for (size_t i = 0; i < n; i++) {
		bool found = false;

		for (size_t k = 0; k < n && !found; k++)
			found = json_equal(json_array_get(a, i), json_array_get(b, k));
		if (!found)
			return false;
	}
	return true;
}

/* Engines read one or the other. */
static void check_twice(struct verify *verify, const json_t *config)
{
	const json_t *other = json_object_get(verify->hf_quant_config, "quantization");
	const json_t *list = json_object_get(other, "exclude_modules");

	if (!other || !config || strcmp(text_of(config, "quant_method"), "modelopt"))
		return;
	if (strcasecmp(text_of(config, "quant_algo"), text_of(other, "quant_algo")))
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL,
			    "hf_quant_config.json",
			    "quant_algo is '%s' here and '%s' in config.json",
			    text_of(other, "quant_algo"), text_of(config, "quant_algo"));
	if (list && verify->skipped && !same_list(list, verify->skipped))
		problem(verify, PROBLEM_CONFIG_IGNORE, "hf_quant_config.json",
			"exclude_modules is not the list of config.json");
}

static void check_modelopt(struct verify *verify, const json_t *config)
{
	const json_t *nested = json_object_get(config, "quantization");

	if (!*text_of(nested ? nested : config, "quant_algo"))
		problem(verify, PROBLEM_CONFIG_KEY, nested ? "hf_quant_config.json" : "config.json",
			"quantization_config has no quant_algo: loading is refused");
	check_twice(verify, config);
}

static void check_keys(struct verify *verify, const json_t *config)
{
	static const struct {
		const char *quant_method;
		void (*check)(struct verify *verify, const json_t *config);
	} methods[] = {
		{ "fp8", check_fp8 },
		{ "mxfp8", check_mxfp8 },
		{ "compressed-tensors", check_groups },
		{ "modelopt", check_modelopt },
	};
	const char *method = text_of(config, "quant_method");

	if (!*method && json_is_object(json_object_get(config, "quantization")))
		method = "modelopt";
	for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
		if (!strcmp(methods[i].quant_method, method)) {
			methods[i].check(verify, config);
			return;
		}
	}
	if (!verify->detection->declared)
		problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json",
			    "quant_method is '%s', which says nothing of FP8: engines refuse it, "
			    "or take codes for weights",
			    method);
}

/* What the target's loader refuses of the scheme. */
static void check_target(struct verify *verify)
{
	struct err err = { 0 };

	if (verify->target != ENGINE_ANY && verify->format &&
	    format_check(verify->format, &verify->detection->scheme, verify->target,
			 verify->detection->recipe, &err))
		problem(verify, PROBLEM_CONFIG_KEY, "config.json", err.message);
}

void verify_config(struct verify *verify)
{
	const struct detection *detection = verify->detection;

	verify->skipped = skip_list(detection->config);
	if (!verify->checkpoint->directory)
		return;
	if (!detection->config) {
		if (detection->n_weights)
			problem(verify, PROBLEM_CONFIG_KEY, "config.json",
				"there is no quantization_config: engines take FP8 codes for "
				"weights");
		return;
	}
	if (!detection->declared && !detection->n_weights)
		return;
	check_keys(verify, detection->config);
	check_target(verify);
	if (verify->skipped)
		check_list(verify);
}
