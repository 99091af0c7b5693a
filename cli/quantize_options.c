/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/quantize_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/opts.h"
#include "cli/progress.h"

#define MAX_THREADS 1024
#define MAX_TP	    1024

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
	OPT_MAX_MEMORY,
	OPT_THREADS,
	OPT_BACKEND,
	OPT_PART,
	OPT_RESTART,
	OPT_MANIFEST,
	OPT_DRY_RUN,
	OPT_JSON,
	OPT_PROGRESS,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to make:", 1 },
	{ "output", 'o', "OUT", 0, "A directory, one file, or - (standard output)", 1 },
	{ "recipe", OPT_RECIPE, "RECIPE", 0,
	  "Decides the numbers (see 'fp8conv recipes'; default blockwise)", 1 },
	{ "format", OPT_FORMAT, "FORMAT", 0,
	  "Decides names and configuration (see 'fp8conv formats')", 1 },
	{ "target", OPT_TARGET, "vllm|sglang|trtllm|transformers", 0,
	  "The engine that is to load it", 1 },
	{ "tp", OPT_TP, "N", 0, "Refuse what does not load at tensor-parallel size N", 1 },
	{ "preserve-high-precision", OPT_PRESERVE, "DIR", 0,
	  "Write the source values of quantized tensors to DIR", 1 },
	{ "manifest", OPT_MANIFEST, NULL, 0, "Record the SHA-256 of every input and output file",
	  1 },

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

	{ NULL, 0, NULL, 0, "Running:", 4 },
	{ "threads", OPT_THREADS, "N", 0, "Default: one for each CPU", 4 },
	{ "max-memory", OPT_MAX_MEMORY, "SIZE", 0,
	  "Memory of buffers: bytes, or with K, M, G (default 192M)", 4 },
	{ "backend", OPT_BACKEND, "BACKEND", 0,
	  "auto (default), cpu, or one that 'fp8conv version' lists", 4 },
	{ "part", OPT_PART, "I/N", 0,
	  "Convert part I of N only, or 'finish' when all parts are done", 4 },
	{ "restart", OPT_RESTART, NULL, 0, "Start again where OUT holds another or unfinished job",
	  4 },

	{ NULL, 0, NULL, 0, "What is told:", 5 },
	{ "dry-run", OPT_DRY_RUN, NULL, 0, "Print the plan and write nothing", 5 },
	{ "json", OPT_JSON, NULL, 0, "Print one JSON object", 5 },
	{ "progress", OPT_PROGRESS, PROGRESS_MODES, 0, "Progress on standard error (default auto)",
	  5 },
	{ "quiet", 'q', NULL, 0, "No progress, no notes, no summary", 5 },
	{ "verbose", 'v', NULL, 0, "The summary at the end, also off a terminal", 5 },
	{ 0 },
};

/* Options that only set a text or a flag. */
static const struct {
	int key;
	size_t offset;
} texts[] = {
	{ 'o', offsetof(struct quantize_settings, params.convert.output) },
	{ OPT_FORMAT, offsetof(struct quantize_settings, params.format) },
	{ OPT_TARGET, offsetof(struct quantize_settings, params.target) },
	{ OPT_PRESERVE, offsetof(struct quantize_settings, params.convert.preserve) },
	{ OPT_BACKEND, offsetof(struct quantize_settings, params.convert.backend) },
	{ OPT_FP8_FORMAT, offsetof(struct quantize_settings, params.tuning.fp8_format) },
	{ OPT_SCALE_FMT, offsetof(struct quantize_settings, params.tuning.scale_fmt) },
	{ OPT_SCALE_ARITH, offsetof(struct quantize_settings, params.tuning.scale_arith) },
	{ OPT_MX_SCALE, offsetof(struct quantize_settings, params.tuning.mx_scale) },
	{ OPT_AMAX_EPSILON, offsetof(struct quantize_settings, params.tuning.amax_epsilon) },
	{ OPT_MARGIN, offsetof(struct quantize_settings, params.tuning.margin) },
}, flags[] = {
	{ OPT_RAGGED, offsetof(struct quantize_settings, params.select.ragged) },
	{ OPT_REQUANTIZE, offsetof(struct quantize_settings, params.select.requantize) },
	{ OPT_RESTART, offsetof(struct quantize_settings, params.convert.restart) },
	{ OPT_MANIFEST, offsetof(struct quantize_settings, params.convert.hashes) },
	{ OPT_DRY_RUN, offsetof(struct quantize_settings, dry_run) },
	{ OPT_JSON, offsetof(struct quantize_settings, json) },
	{ 'q', offsetof(struct quantize_settings, quiet) },
	{ 'v', offsetof(struct quantize_settings, verbose) },
};

static const struct argp_option *option_row(int key)
{
	const struct argp_option *row = options;

	while (row->key != key)
		row++;
	return row;
}

/* A value out of the list that the option's row shows. */
static int parse_choice(int key, const char *value, int *index, struct err *err)
{
	const struct argp_option *row = option_row(key);
	char name[40];

	snprintf(name, sizeof name, "--%s", row->name);
	return opt_choice(name, value, row->arg, index, err);
}

static int parse_text(struct quantize_settings *settings, int key, const char *value,
		      struct err *err)
{
	int index;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (texts[i].key != key)
			continue;
		*(const char **)((char *)settings + texts[i].offset) = value;
		return strchr(option_row(key)->arg, '|') ? parse_choice(key, value, &index, err)
							 : 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static int parse_flag(struct quantize_settings *settings, int key)
{
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		if (flags[i].key != key)
			continue;
		*(bool *)((char *)settings + flags[i].offset) = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

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

static int parse_int(const char *option, const char *value, int max, int *n, struct err *err)
{
	uint64_t number;

	if (opt_number(option, value, 1, (uint64_t)max, &number, err))
		return -1;
	*n = (int)number;
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
		return parse_int("--tp", value, MAX_TP, &params->select.tp, err);
	case OPT_ON_NONFINITE:
		return parse_choice(key, value, &settings->on_nonfinite, err);
	case OPT_INCLUDE:
		return add_pattern(&settings->include, &params->select.n_include, value);
	case OPT_EXCLUDE:
		return add_pattern(&settings->exclude, &params->select.n_exclude, value);
	case OPT_TENSOR:
		return add_rule(settings, value, err);
	case OPT_THREADS:
		return parse_int("--threads", value, MAX_THREADS, &params->convert.n_threads, err);
	case OPT_MAX_MEMORY:
		return opt_size("--max-memory", value, &params->convert.max_memory, err);
	case OPT_PART:
		return opt_part("--part", value, &params->convert.part, &params->convert.n_parts,
				&params->convert.part_finish, err);
	case OPT_PROGRESS:
		return parse_choice(key, value, &settings->progress, err);
	case ARGP_KEY_ARG:
		if (params->convert.input)
			return argument_unexpected(value, err);
		params->convert.input = value;
		return 0;
	default:
		return parse_flag(settings, key) == 0 ? 0 : parse_text(settings, key, value, err);
	}
}

const struct argp quantize_argp = { .options = options, .parser = parse };

static bool is_stream(const char *path)
{
	return path && !strcmp(path, "-");
}

int quantize_settings_finish(struct quantize_settings *settings, struct err *err)
{
	struct quantize_params *params = &settings->params;

	if (!params->convert.input)
		return err_set(err, ERR_USAGE, "MODEL is missing (fp8conv quantize MODEL -o OUT)");
	if (!params->convert.output && !settings->dry_run)
		return err_set(
			err, ERR_USAGE,
			"option '--output' is missing: where to write (-o OUT), or --dry-run");
	if (is_stream(params->convert.input) && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (is_stream(params->convert.output) && !settings->dry_run) {
		if (settings->json)
			return err_set(
				err, ERR_USAGE,
				"standard output cannot take both the checkpoint (-o -) and --json");
		if (isatty(STDOUT_FILENO))
			return err_set(err, ERR_USAGE,
				       "standard output is a terminal, not for a checkpoint");
	}
	if (!backend_select(params->convert.backend ? params->convert.backend : "auto", err))
		return -1;
	params->convert.on_nonfinite = (enum on_nonfinite)settings->on_nonfinite;
	params->select.include = settings->include;
	params->select.exclude = settings->exclude;
	params->select.rules = settings->rules;
	if (!params->convert.n_threads)
		params->convert.n_threads = online_cpus();
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
