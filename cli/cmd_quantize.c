/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv quantize.
 */
#include "cli/command.h"
#include "cli/conversion.h"
#include "cli/quantize_options.h"

static int make_plan(struct plan *plan, const void *params, struct progress *progress,
		     struct err *err)
{
	return quantize_plan_make(plan, params, progress, err);
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct quantize_settings settings = { 0 };
	const struct conversion conversion = { .command = command->name,
					       .settings = &settings.convert,
					       .make_plan = make_plan,
					       .params = &settings.params };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc == 0 &&
	    (quantize_settings_finish(&settings, err) || conversion_run(&conversion, err)))
		rc = -1;
	quantize_settings_release(&settings);
	return rc < 0 ? -1 : 0;
}

const struct command command_quantize = {
	.name = "quantize",
	.args = "MODEL -o OUT",
	.summary = "Write an FP8 checkpoint, each quantized tensor with its own scale",
	.group = GROUP_CONVERT,
	.argp = &quantize_argp,
	.run = run,
};
