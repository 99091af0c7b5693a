/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of every command that runs for a while: its share of the machine, and its reports.
 */
#ifndef FP8CONV_CLI_OPTIONS_RUN_H
#define FP8CONV_CLI_OPTIONS_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/executor.h"
#include "cli/options/option.h"
#include "cli/options/values.h"
#include "cli/progress/progress.h"

/* The values of these options.  Begins zeroed.  Texts belong to argv. */
struct run_settings {
	int n_threads;	     /* 0: run_threads() decides */
	uint64_t max_memory; /* bytes; 0: the command's default */
	int retry_time;	     /* seconds for servers that do not answer; 0: five minutes */
	const char *backend; /* NULL: auto */
	struct device_list devices;
	int progress; /* enum progress_mode, in the order of the option's values */
	bool json, quiet, verbose;
	bool from_torch; /* directories without .safetensors files have pickles to read */
};

/* Shared tables, for a struct run_settings: source_options has --retry-time and --from-torch,
 * report_options --json, --progress and --quiet, device_options --devices, run_options the
 * others. */
extern const struct option_row source_options[];
extern const struct option_row report_options[];
extern const struct option_row device_options[];
extern const struct option_row run_options[];

/* Returns the number of threads: as given, or one for each CPU. */
int run_threads(const struct run_settings *settings);

/* Returns the number of devices of forward passes: as --devices says, or one. */
int run_n_devices(const struct run_settings *settings);

/* The same as run_threads() for forward passes: each device has a number of streams that keep it
 * busy, whatever the CPUs. */
int run_streams(const struct run_settings *settings, const struct executor_ops *executor);

/* Returns the backend for conversions.  Where an engine started several tasks on this machine, each
 * uses one of its devices, by its place among them.  NULL as backend_select() returns it. */
const struct backend *run_backend(const struct run_settings *settings, struct err *err);

/* Returns the backend for forward passes on the devices of --devices, or else with one device in
 * the same way, and says on standard error for which reason a GPU is not used.  NULL as
 * backend_select_forward() returns it, and with ERR_USAGE for devices that are not there. */
const struct backend *run_forward_backend(const struct run_settings *settings, struct err *err);

/* Returns how to show progress: --quiet suppresses all but JSON. */
enum progress_mode run_progress_mode(const struct run_settings *settings);

#endif
