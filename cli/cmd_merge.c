/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv merge: several amax files into one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "cli/print/calibration.h"
#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/program.h"
#include "amax/merge.h"
#include "cli/print/message.h"

/* The settings.  Begin zeroed.  Texts belong to argv. */
struct settings {
	struct amax_merge_params params; /* completed by run() */
	struct texts inputs;
	bool ranks, json, quiet;
};

static const struct option_row options[] = {
	{ SECTION_NONE, "output", 'o', "C.amax", "Output file", option_new_file,
	  PLACE(params.output) },
	{ SECTION_NONE, "ranks", 0, NULL,
	  "Inputs are data-parallel ranks of the same passes: take the maximum", option_flag,
	  PLACE(ranks) },
	{ SECTION_REPORTING, "json", 0, NULL, "Print one JSON object", option_flag, PLACE(json) },
	{ SECTION_REPORTING, "quiet", 'q', NULL, "Suppress notes and summary", option_flag,
	  PLACE(quiet) },
	{ 0 },
};

static void print_text(const struct amax_merge_params *params, const struct amax_merged *merged)
{
	fprintf(program.err, "passes     %" PRIu64 "\n", merged->n_passes);
	fprintf(program.err, "tokens     %" PRIu64 "\n", merged->n_tokens);
	path_print_output(params->output);
	history_print_next("MODEL", NULL, false, params->output);
}

static void print_json(const struct amax_merge_params *params, const struct amax_merged *merged,
		       const char *note)
{
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "output", params->output);
	json_out_count(&out, "inputs", params->n_inputs);
	json_out_count(&out, "passes", merged->n_passes);
	json_out_count(&out, "tokens", merged->n_tokens);
	json_out_open(&out, "notes", '[');
	if (note)
		json_out_text(&out, NULL, note);
	json_out_close(&out, ']');
	json_out_end(&out);
}

static void report(const struct settings *settings, const struct amax_merged *merged)
{
	const struct amax_merge_params *params = &settings->params;
	char *note = NULL;

	if (merged->repeated[1])
		note = xasprintf("'%s' and '%s' are of the same data, which counts twice",
				 params->inputs[merged->repeated[0]],
				 params->inputs[merged->repeated[1]]);
	if (settings->json)
		print_json(params, merged, note);
	if (note && !settings->quiet) {
		text_sanitize(note);
		message_note("%s", note);
	}
	if (!settings->quiet && program_on_terminal(STDERR_FILENO))
		print_text(params, merged);
	free(note);
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	struct amax_merge_params *params = &settings->params;
	struct amax_merged merged;

	if (!params->output)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give an output file (-o C.amax)");
	params->io = &io_system;
	params->how = settings->ranks ? AMAX_RANKS : AMAX_APPEND;
	params->inputs = settings->inputs.list;
	params->n_inputs = settings->inputs.n;
	if (amax_merge_files(params, &merged, err))
		return -1;
	report(settings, &merged);
	return 0;
}

const struct command command_merge = {
	.name = "merge",
	.args = "A.amax B.amax... -o C.amax",
	.summary = "Merge amax histories",
	.examples = { "fp8conv merge first.amax second.amax -o S.amax" },
	.group = GROUP_CALIBRATE,
	.options = options,
	.argument = { SECTION_NONE, "A.amax", 0, "A.amax", NULL, option_append, PLACE(inputs) },
	.settings_size = sizeof(struct settings),
	.many = true,
	.run = run,
};
