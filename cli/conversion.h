/* SPDX-License-Identifier: Apache-2.0
 *
 * The run of all commands that write a checkpoint: plan, show progress, execute, report.
 */
#ifndef FP8CONV_CLI_CONVERSION_H
#define FP8CONV_CLI_CONVERSION_H

#include "cli/command.h"
#include "cli/options/conversion.h"

/* The parts of such a command that its row does not have. */
struct convert_command {
	/* quantize_plan_make(), or that of another command.  settings are the command's own; their
	 * first member, a struct convert_settings, is complete except for values that only this
	 * command knows. */
	int (*make_plan)(struct plan *plan, void *settings, struct progress *progress,
			 struct err *err);
	void *settings;
};

/* Parses, plans, and executes unless --dry-run is given.  Arguments and result are
 * command.run()'s. */
int conversion_run(const struct convert_command *conversion, const struct command *command,
		   int argc, char **argv, struct err *err);

#endif
