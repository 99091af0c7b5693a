/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/conversion.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "cli/options/values.h"
#include "cli/print/progress.h"

#define PLACE(member) offsetof(struct convert_settings, member)

static int read_part(const struct option_row *option, const char *value, void *place,
		     struct err *err)
{
	struct convert_params *params = place;

	return opt_part(option_written(option).text, value, &params->part, &params->n_parts,
			&params->part_finish, err);
}

const struct option_row convert_argument = {
	.name = "MODEL", .arg = "MODEL", .read = option_text, .offset = PLACE(params.input)
};

const struct option_row convert_options[] = {
	{ SECTION_MAKE, "output", 'o', "OUT", "A directory, one file, or - (standard output)",
	  option_text, PLACE(params.output) },
	{ SECTION_MAKE, "manifest", 0, NULL, "Record the SHA-256 of every input and output file",
	  option_flag, PLACE(params.hashes) },
	{ SECTION_RUN, "threads", 0, "N", "Default: one for each CPU", option_count,
	  PLACE(params.n_threads) },
	{ SECTION_RUN, "max-memory", 0, "SIZE",
	  "Memory of buffers: bytes, or with K, M, G (default 192M)", option_bytes,
	  PLACE(params.max_memory) },
	{ SECTION_RUN, "backend", 0, "BACKEND",
	  "auto (default), cpu, or one that 'fp8conv version' lists", option_text,
	  PLACE(params.backend) },
	{ SECTION_RUN, "part", 0, "I/N",
	  "Convert part I of N only, or 'finish' when all parts are done", read_part,
	  PLACE(params) },
	{ SECTION_RUN, "restart", 0, NULL, "Start again where OUT holds another or unfinished job",
	  option_flag, PLACE(params.restart) },
	{ SECTION_TELL, "dry-run", 0, NULL, "Print the plan and write nothing", option_flag,
	  PLACE(dry_run) },
	{ SECTION_TELL, "json", 0, NULL, "Print one JSON object", option_flag, PLACE(json) },
	{ SECTION_TELL, "progress", 0, PROGRESS_MODES, "Progress on standard error (default auto)",
	  option_choice, PLACE(progress) },
	{ SECTION_TELL, "quiet", 'q', NULL, "No progress, no notes, no summary", option_flag,
	  PLACE(quiet) },
	{ SECTION_TELL, "verbose", 'v', NULL, "The summary at the end, also off a terminal",
	  option_flag, PLACE(verbose) },
	{ 0 },
};

static bool is_stream(const char *path)
{
	return path && !strcmp(path, "-");
}

int convert_settings_finish(struct convert_settings *settings, struct err *err)
{
	struct convert_params *params = &settings->params;

	if (!params->output && !settings->dry_run)
		return err_set(
			err, ERR_USAGE,
			"option '--output' is missing: where to write (-o OUT), or --dry-run");
	if (is_stream(params->input) && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (is_stream(params->output) && !settings->dry_run) {
		if (settings->json)
			return err_set(err, ERR_USAGE,
				       "standard output cannot take both the checkpoint (-o -) and "
				       "--json");
		if (isatty(STDOUT_FILENO))
			return err_set(err, ERR_USAGE,
				       "standard output is a terminal, not for a checkpoint");
	}
	if (params->backend && !backend_select(params->backend, err))
		return -1;
	if (!params->n_threads)
		params->n_threads = online_cpus();
	params->io = &io_system;
	params->temp_dir = opt_temp_dir();
	return 0;
}
