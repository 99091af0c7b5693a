/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/conversion.h"

#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "cli/options/values.h"
#include "cli/process.h"
#include "cli/program.h"

#define PLACE(member) offsetof(struct convert_settings, member)

static int read_part(const struct option_row *option, const char *value, void *place,
		     struct err *err)
{
	struct convert_params *params = place;

	return option_part(option, value, &params->part, &params->n_parts, &params->part_finish,
			   err);
}

const struct option_row convert_argument = {
	.name = "MODEL", .arg = "MODEL", .read = option_text, .offset = PLACE(params.input)
};

/* clang-format off */
const struct option_row convert_output[] = {
	{ SECTION_OUTPUT, "output", 'o', "OUT",
	  "A directory, a .safetensors file, or - for stdout", option_output,
	  PLACE(params.output) },
	{ 0 },
};

const struct option_row convert_options[] = {
	{ SECTION_OUTPUT, "manifest", 0, NULL, "Record the SHA-256 of every input and output file",
	  option_flag, PLACE(params.hashes) },
	{ SECTION_OUTPUT, "max-shard-size", 0, "SIZE",
	  "Files of at most SIZE bytes of weights: 5GB, 500MB", option_decimal_size,
	  PLACE(params.max_shard_size) },
	{ SECTION_RUNNING, "restart", 0, NULL, "Discard an unfinished or different job in OUT",
	  option_flag, PLACE(params.restart) },
	{ SECTION_ALIAS, "force", 'f', NULL, "The same as --restart", option_flag,
	  PLACE(params.restart) },
	{ SECTION_RUNNING, "part", 0, "I/N",
	  "Convert part I of N; 'auto': this task's part", read_part, PLACE(params) },
	{ SECTION_REPORTING, "dry-run", 'n', NULL, "Print the plan and exit", option_flag,
	  PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */

static bool is_stream(const char *path)
{
	return path && !strcmp(path, "-");
}

int convert_settings_finish(struct convert_settings *settings, struct err *err)
{
	struct convert_params *params = &settings->params;

	if (!params->output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give an output (-o OUT), or "
			       "--dry-run");
	if (is_stream(params->input) && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (is_stream(params->output) && !settings->dry_run) {
		if (settings->run.json)
			return err_set(
				err, ERR_USAGE,
				"options '--output -' and '--json' cannot be combined: both write "
				"to standard output");
		if (program_on_terminal(STDOUT_FILENO))
			return err_set(err, ERR_USAGE, "cannot write a checkpoint to a terminal");
	}
	params->backend = run_backend(&settings->run, err);
	if (!params->backend)
		return -1;
	params->n_threads = run_threads(&settings->run);
	params->max_memory = settings->run.max_memory;
	params->temp_dir = process_temp_dir();
	return 0;
}
