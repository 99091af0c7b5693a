/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv dequantize: an FP8 checkpoint back to high precision.
 */
#include "cli/command.h"
#include "cli/conversion.h"
#include "cli/options/values.h"
#include "plan/dequantize.h"

struct settings {
	struct convert_settings convert;
	struct dequantize_params params; /* .convert is filled by make_plan() */
};

static const struct option_row options[] = {
	{ SECTION_OUTPUT, "dtype", 0, "bf16|f16|f32", "Type of the values (default bf16)",
	  option_text, PLACE(params.dtype) },
	{ 0 },
};

static int make_plan(struct plan *plan, void *place, struct progress *progress, struct err *err)
{
	struct settings *settings = place;

	settings->params.convert = settings->convert.params;
	return dequantize_plan_make(plan, &settings->params, progress, err);
}

const struct command command_dequantize = {
	.name = "dequantize",
	.args = "MODEL -o OUT",
	.summary = "Convert an FP8 checkpoint back to BF16, F16 or F32",
	.examples = { "fp8conv dequantize OUT -o BF16" },
	.group = GROUP_CONVERT,
	.options = options,
	.shared = { CONVERT_OUTPUT, CONVERT_SHARED },
	.argument = { SECTION_NONE, "MODEL", 0, "MODEL", NULL, option_text,
		      PLACE(convert.params.input) },
	.settings_size = sizeof(struct settings),
	.defaults = &(const struct settings){ .convert.make_plan = make_plan },
	.run = conversion_run,
};
