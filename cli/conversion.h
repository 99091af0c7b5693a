/* SPDX-License-Identifier: Apache-2.0
 *
 * The run of all commands that write a checkpoint: plan, show progress, execute, report.
 */
#ifndef FP8CONV_CLI_CONVERSION_H
#define FP8CONV_CLI_CONVERSION_H

#include "cli/command.h"
#include <stdbool.h>
#include "base/err.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/ranks.h"
#include "execute/execute.h"

/* quantize_plan_make(), or that of another command.  settings are the command's own; their first
 * member, a struct convert_settings, is complete except for values that only this command knows. */
typedef int conversion_planner(struct plan *plan, void *settings, struct progress *progress,
			       struct err *err);

/* The first member of the settings of each such command.  Begins zeroed.  Texts belong to argv. */
struct convert_settings {
	struct convert_params params;
	struct run_settings run;
	bool dry_run;
	bool mpi; /* of commands that ranks may share */
	struct ranks ranks;
	const char *since; /* the base of a delta to write in place of the output; NULL: none */
	const char *sign;  /* file of the key that signs the output; NULL: none */
	struct signing_key *key;
	conversion_planner *make_plan; /* of the command's defaults */
};

/* Two shared tables, for a struct convert_settings.
 * CONVERT_OUTPUT is the first table: --output is listed first, a command's own options follow it.
 * CONVERT_SHARED is the second one and the rows of its member run.  Both are for settings that
 * begin with this struct. */
extern const struct option_row convert_output[], convert_options[];
#define CONVERT_RUN offsetof(struct convert_settings, run)
#define CONVERT_OUTPUT            \
	{                         \
		convert_output, 0 \
	}
#define CONVERT_SHARED                                                                            \
	{ convert_options, 0 }, { report_options, CONVERT_RUN }, { source_options, CONVERT_RUN }, \
		{ run_options, CONVERT_RUN },                                                     \
	{                                                                                         \
		rename_options, offsetof(struct convert_settings, params.renames)                 \
	}

/* The run() of these commands: plans, and executes unless --dry-run is given. */
int conversion_run(void *settings, struct err *err);

#endif
