/* SPDX-License-Identifier: Apache-2.0
 *
 * What all commands do that write a checkpoint: plan, watch the job, tell how it went.
 */
#ifndef FP8CONV_CLI_CONVERSION_H
#define FP8CONV_CLI_CONVERSION_H

#include "cli/command.h"
#include "cli/options/conversion.h"

/* What one of them is, apart from its row. */
struct convert_command {
	/* quantize_plan_make() or its like.  settings are the command's own, whose first member,
	 * the struct convert_settings, is complete but for what only this command knows. */
	int (*make_plan)(struct plan *plan, void *settings, struct progress *progress,
			 struct err *err);
	void *settings;
};

/* Parses, plans, and executes unless --dry-run is given.  As .run of a command. */
int conversion_run(const struct convert_command *conversion, const struct command *command,
		   int argc, char **argv, struct err *err);

#endif
