/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that all commands have that write a checkpoint.
 */
#ifndef FP8CONV_CLI_CONVERT_OPTIONS_H
#define FP8CONV_CLI_CONVERT_OPTIONS_H

#include <argp.h>
#include <stdbool.h>

#include "base/err.h"
#include "job/convert.h"

/* Zeroed is the start.  Texts belong to argv.  The first member of the settings of each such
 * command. */
struct convert_settings {
	struct convert_params params;
	int progress; /* enum progress_mode, whose order the option's values have */
	bool dry_run, json, quiet, verbose;
};

/* MODEL and the shared options: .children of a command's argp, whose parser sets child_inputs[0] =
 * input at ARGP_KEY_INIT. */
extern const struct argp_child convert_children[];

/* What only the whole command line shows; fills in defaults.  ERR_USAGE. */
int convert_settings_finish(struct convert_settings *settings, const char *command,
			    struct err *err);

/* Rows of a table: options that only set a text or a flag, by their place in the settings. */
struct option_place {
	int key;
	size_t offset;
};

/* A text goes to its place; one of "a|b|c" is checked.  ARGP_ERR_UNKNOWN: the key is not in the
 * table. */
int option_text(const struct argp_option *options, const struct option_place *texts, size_t n,
		int key, const char *value, void *settings, struct err *err);
int option_flag(const struct option_place *flags, size_t n, int key, void *settings);

/* A value out of the list that the option's row shows. */
int option_choice(const struct argp_option *options, int key, const char *value, int *index,
		  struct err *err);

/* A number from 1 to max. */
int option_int(const char *option, const char *value, int max, int *n, struct err *err);

#endif
