/* SPDX-License-Identifier: Apache-2.0
 *
 * What all commands do that write a checkpoint: plan, watch the job, tell how it went.
 */
#ifndef FP8CONV_CLI_CONVERSION_H
#define FP8CONV_CLI_CONVERSION_H

#include "cli/convert_options.h"

struct conversion {
	const char *command;
	const struct convert_settings *settings;
	/* quantize_plan_make() and its like, of params. */
	int (*make_plan)(struct plan *plan, const void *params, struct progress *progress,
			 struct err *err);
	const void *params;
};

int conversion_run(const struct conversion *conversion, struct err *err);

#endif
