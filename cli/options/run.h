/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of every command that works for a while: with how much of the machine, and what it
 * reports.
 */
#ifndef FP8CONV_CLI_OPTIONS_RUN_H
#define FP8CONV_CLI_OPTIONS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options/option.h"
#include "cli/print/progress.h"

/* Zeroed is the start.  Texts belong to argv. */
struct run_settings {
	int n_threads;	     /* 0: run_threads() decides */
	uint64_t max_memory; /* bytes; 0: the command's default */
	const char *backend; /* NULL: auto */
	int progress;	     /* enum progress_mode, whose order the option's values have */
	bool json, quiet, verbose;
};

/* Shared tables, of a struct run_settings: --json, --progress, --quiet; and the rest of them. */
extern const struct option_row report_options[];
extern const struct option_row run_options[];

/* The threads to use: those asked for, or one for each CPU. */
int run_threads(const struct run_settings *settings);

/* How progress is shown: --quiet wins. */
enum progress_mode run_progress_mode(const struct run_settings *settings);

#endif
