/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that all commands have that write a checkpoint.
 */
#ifndef FP8CONV_CLI_OPTIONS_CONVERSION_H
#define FP8CONV_CLI_OPTIONS_CONVERSION_H

#include <stdbool.h>

#include "base/err.h"
#include "cli/options/option.h"
#include "convert/convert.h"

/* Zeroed is the start.  Texts belong to argv.  The first member of the settings of each such
 * command. */
struct convert_settings {
	struct convert_params params;
	int progress; /* enum progress_mode, whose order the option's values have */
	bool dry_run, json, quiet, verbose;
};

/* A shared table and .argument of their rows, of a struct convert_settings. */
extern const struct option_row convert_options[];
extern const struct option_row convert_argument;

/* What only the whole command line shows; fills in defaults.  ERR_USAGE. */
int convert_settings_finish(struct convert_settings *settings, struct err *err);

#endif
