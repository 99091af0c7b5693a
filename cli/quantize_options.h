/* SPDX-License-Identifier: Apache-2.0
 *
 * The option table of `quantize`, and what it fills.
 */
#ifndef FP8CONV_CLI_QUANTIZE_OPTIONS_H
#define FP8CONV_CLI_QUANTIZE_OPTIONS_H

#include <argp.h>

#include "cli/convert_options.h"
#include "job/quantize.h"

/* Zeroed is the start.  Texts belong to argv. */
struct quantize_settings {
	struct convert_settings convert;
	struct quantize_params params; /* .convert is filled by _finish */
	const char **include; /* grow while they are read; params points to them from _finish on */
	const char **exclude;
	struct select_rule *rules;
	int on_nonfinite; /* enum on_nonfinite, whose order the option's values have */
};

extern const struct argp quantize_argp; /* its input is a struct quantize_settings */

/* What only the whole command line shows; fills in defaults.  ERR_USAGE. */
int quantize_settings_finish(struct quantize_settings *settings, struct err *err);
void quantize_settings_release(struct quantize_settings *settings);

#endif
