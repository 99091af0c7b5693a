/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/convert_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "cli/command.h"
#include "cli/opts.h"
#include "cli/progress.h"

#define MAX_THREADS 1024

enum {
	OPT_MAX_MEMORY = 512, /* behind the keys of any command's own options */
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
	{ "manifest", OPT_MANIFEST, NULL, 0, "Record the SHA-256 of every input and output file",
	  1 },

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

static const struct option_place texts[] = {
	{ 'o', offsetof(struct convert_settings, params.output) },
	{ OPT_BACKEND, offsetof(struct convert_settings, params.backend) },
}, flags[] = {
	{ OPT_RESTART, offsetof(struct convert_settings, params.restart) },
	{ OPT_MANIFEST, offsetof(struct convert_settings, params.hashes) },
	{ OPT_DRY_RUN, offsetof(struct convert_settings, dry_run) },
	{ OPT_JSON, offsetof(struct convert_settings, json) },
	{ 'q', offsetof(struct convert_settings, quiet) },
	{ 'v', offsetof(struct convert_settings, verbose) },
};

static const struct argp_option *option_row(const struct argp_option *row, int key)
{
	while (row->key != key)
		row++;
	return row;
}

int option_choice(const struct argp_option *table, int key, const char *value, int *index,
		  struct err *err)
{
	const struct argp_option *row = option_row(table, key);
	char name[40];

	snprintf(name, sizeof name, "--%s", row->name);
	return opt_choice(name, value, row->arg, index, err);
}

int option_text(const struct argp_option *table, const struct option_place *places, size_t n,
		int key, const char *value, void *settings, struct err *err)
{
	int index;

	for (size_t i = 0; i < n; i++) {
		if (places[i].key != key)
			continue;
		*(const char **)((char *)settings + places[i].offset) = value;
		return strchr(option_row(table, key)->arg, '|')
			       ? option_choice(table, key, value, &index, err)
			       : 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int option_flag(const struct option_place *places, size_t n, int key, void *settings)
{
	for (size_t i = 0; i < n; i++) {
		if (places[i].key != key)
			continue;
		*(bool *)((char *)settings + places[i].offset) = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

int option_int(const char *option, const char *value, int max, int *n, struct err *err)
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
	struct convert_settings *settings = input->settings;
	struct convert_params *params = &settings->params;
	struct err *err = input->err;

	switch (key) {
	case OPT_THREADS:
		return option_int("--threads", value, MAX_THREADS, &params->n_threads, err);
	case OPT_MAX_MEMORY:
		return opt_size("--max-memory", value, &params->max_memory, err);
	case OPT_PART:
		return opt_part("--part", value, &params->part, &params->n_parts,
				&params->part_finish, err);
	case OPT_PROGRESS:
		return option_choice(options, key, value, &settings->progress, err);
	case ARGP_KEY_ARG:
		if (params->input)
			return argument_unexpected(value, err);
		params->input = value;
		return 0;
	default:
		if (option_flag(flags, sizeof flags / sizeof *flags, key, settings) == 0)
			return 0;
		return option_text(options, texts, sizeof texts / sizeof *texts, key, value,
				   settings, err);
	}
}

static const struct argp convert_argp = { .options = options, .parser = parse };

const struct argp_child convert_children[] = { { &convert_argp, 0, NULL, 0 }, { 0 } };

static bool is_stream(const char *path)
{
	return path && !strcmp(path, "-");
}

int convert_settings_finish(struct convert_settings *settings, const char *command, struct err *err)
{
	struct convert_params *params = &settings->params;

	if (!params->input)
		return err_set(err, ERR_USAGE, "MODEL is missing (fp8conv %s MODEL -o OUT)",
			       command);
	if (!params->output && !settings->dry_run)
		return err_set(
			err, ERR_USAGE,
			"option '--output' is missing: where to write (-o OUT), or --dry-run");
	if (is_stream(params->input) && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (is_stream(params->output) && !settings->dry_run) {
		if (settings->json)
			return err_set(
				err, ERR_USAGE,
				"standard output cannot take both the checkpoint (-o -) and --json");
		if (isatty(STDOUT_FILENO))
			return err_set(err, ERR_USAGE,
				       "standard output is a terminal, not for a checkpoint");
	}
	if (!backend_select(params->backend ? params->backend : "auto", err))
		return -1;
	if (!params->n_threads)
		params->n_threads = online_cpus();
	params->io = &io_system;
	params->temp_dir = opt_temp_dir();
	return 0;
}
