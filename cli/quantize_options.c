/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/quantize_options.h"

#include <stdlib.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/opts.h"

#define MAX_TP 1024

enum {
	OPT_RECIPE = 256,
	OPT_FORMAT,
	OPT_TARGET,
	OPT_TP,
	OPT_FP8_FORMAT,
	OPT_SCALE_FMT,
	OPT_SCALE_ARITH,
	OPT_MX_SCALE,
	OPT_AMAX_EPSILON,
	OPT_MARGIN,
	OPT_ON_NONFINITE,
	OPT_INCLUDE,
	OPT_EXCLUDE,
	OPT_TENSOR,
	OPT_RAGGED,
	OPT_REQUANTIZE,
	OPT_PRESERVE,
};

static const struct argp_option options[] = {
	{ "recipe", OPT_RECIPE, "RECIPE", 0,
	  "Decides the numbers (see 'fp8conv recipes'; default blockwise)", 1 },
	{ "format", OPT_FORMAT, "FORMAT", 0,
	  "Decides names and configuration (see 'fp8conv formats')", 1 },
	{ "target", OPT_TARGET, "vllm|sglang|trtllm|transformers", 0,
	  "The engine that is to load it", 1 },
	{ "tp", OPT_TP, "N", 0, "Refuse what does not load at tensor-parallel size N", 1 },
	{ "preserve-high-precision", OPT_PRESERVE, "DIR", 0,
	  "Write the source values of quantized tensors to DIR", 1 },

	{ NULL, 0, NULL, 0, "Numbers:", 2 },
	{ "fp8-format", OPT_FP8_FORMAT, "e4m3|e5m2", 0, "The type of the codes (default e4m3)", 2 },
	{ "scale-fmt", OPT_SCALE_FMT, "ue8m0|float", 0, "Power-of-two scales, or any", 2 },
	{ "scale-arith", OPT_SCALE_ARITH, "te|deepseek|deepgemm", 0,
	  "Who divides by what, with float scales (default te)", 2 },
	{ "mx-scale", OPT_MX_SCALE, "up|floor|even", 0,
	  "How mxfp8 rounds its exponents (default up)", 2 },
	{ "amax-epsilon", OPT_AMAX_EPSILON, "X", 0, "Raise a smaller amax to X (default 0)", 2 },
	{ "margin", OPT_MARGIN, "N", 0, "Leave N binades unused (default 0)", 2 },
	{ "on-nonfinite", OPT_ON_NONFINITE, "error|saturate|skip", 0,
	  "Tensors with NaN or inf: refuse (default), saturate, or keep the tensor in high precision",
	  2 },

	{ NULL, 0, NULL, 0, "Which tensors (RE is a PCRE2 pattern on the full name):", 3 },
	{ "include", OPT_INCLUDE, "RE", 0, "Quantize only what matches", 3 },
	{ "exclude", OPT_EXCLUDE, "RE", 0, "Keep what matches", 3 },
	{ "tensor", OPT_TENSOR, "RE=RECIPE", 0,
	  "The recipe of what matches, or RE=skip; the last match wins", 3 },
	{ "ragged", OPT_RAGGED, NULL, 0,
	  "Blocks also where a dimension is no multiple of the block", 3 },
	{ "requantize", OPT_REQUANTIZE, NULL, 0, "Accept a source that is FP8", 3 },
	{ 0 },
};

static const struct option_place texts[] = {
	{ OPT_FORMAT, offsetof(struct quantize_settings, params.format) },
	{ OPT_TARGET, offsetof(struct quantize_settings, params.target) },
	{ OPT_PRESERVE, offsetof(struct quantize_settings, convert.params.preserve) },
	{ OPT_FP8_FORMAT, offsetof(struct quantize_settings, params.tuning.fp8_format) },
	{ OPT_SCALE_FMT, offsetof(struct quantize_settings, params.tuning.scale_fmt) },
	{ OPT_SCALE_ARITH, offsetof(struct quantize_settings, params.tuning.scale_arith) },
	{ OPT_MX_SCALE, offsetof(struct quantize_settings, params.tuning.mx_scale) },
	{ OPT_AMAX_EPSILON, offsetof(struct quantize_settings, params.tuning.amax_epsilon) },
	{ OPT_MARGIN, offsetof(struct quantize_settings, params.tuning.margin) },
}, flags[] = {
	{ OPT_RAGGED, offsetof(struct quantize_settings, params.select.ragged) },
	{ OPT_REQUANTIZE, offsetof(struct quantize_settings, params.select.requantize) },
};

static int parse_recipe(struct quantize_settings *settings, const char *value, struct err *err)
{
	settings->params.recipe = value;
	return opt_recipe("--recipe", value, err) ? 0 : -1;
}

static int add_pattern(const char ***patterns, size_t *n, const char *pattern)
{
	ARRAY_GROW(*patterns, *n);
	(*patterns)[(*n)++] = pattern;
	return 0;
}

static int add_rule(struct quantize_settings *settings, const char *value, struct err *err)
{
	struct select_rule rule;

	if (opt_rule("--tensor", value, &rule, err))
		return -1;
	ARRAY_GROW(settings->rules, settings->params.select.n_rules);
	settings->rules[settings->params.select.n_rules++] = rule;
	return 0;
}

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct parse_input *input = state->input;
	struct quantize_settings *settings = input->settings;
	struct quantize_params *params = &settings->params;
	struct err *err = input->err;

	switch (key) {
	case OPT_RECIPE:
		return parse_recipe(settings, value, err);
	case OPT_TP:
		return option_int("--tp", value, MAX_TP, &params->select.tp, err);
	case OPT_ON_NONFINITE:
		return option_choice(options, key, value, &settings->on_nonfinite, err);
	case OPT_INCLUDE:
		return add_pattern(&settings->include, &params->select.n_include, value);
	case OPT_EXCLUDE:
		return add_pattern(&settings->exclude, &params->select.n_exclude, value);
	case OPT_TENSOR:
		return add_rule(settings, value, err);
	case ARGP_KEY_INIT:
		state->child_inputs[0] = input;
		return 0;
	default:
		if (option_flag(flags, sizeof flags / sizeof *flags, key, settings) == 0)
			return 0;
		return option_text(options, texts, sizeof texts / sizeof *texts, key, value,
				   settings, err);
	}
}

const struct argp quantize_argp = { .options = options,
				    .parser = parse,
				    .children = convert_children };

int quantize_settings_finish(struct quantize_settings *settings, struct err *err)
{
	struct quantize_params *params = &settings->params;

	if (convert_settings_finish(&settings->convert, "quantize", err))
		return -1;
	settings->convert.params.on_nonfinite = (enum on_nonfinite)settings->on_nonfinite;
	params->convert = settings->convert.params;
	params->select.include = settings->include;
	params->select.exclude = settings->exclude;
	params->select.rules = settings->rules;
	return 0;
}

void quantize_settings_release(struct quantize_settings *settings)
{
	for (size_t i = 0; i < settings->params.select.n_rules; i++)
		free((char *)settings->rules[i].pattern);
	free(settings->rules);
	free(settings->include);
	free(settings->exclude);
	*settings = (struct quantize_settings){ 0 };
}
