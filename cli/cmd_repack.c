/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv repack: the same codes in another format.
 */
#include "cli/command.h"
#include "cli/conversion.h"
#include "cli/options/values.h"
#include "plan/repack.h"
#include "format/engine.h"

struct settings {
	struct convert_settings convert;
	struct repack_params params; /* .convert is filled by make_plan() */
};

static const struct option_row options[] = {
	{ SECTION_OUTPUT, "format", 0, "FORMAT",
	  "Target format (see 'fp8conv formats'; default by --target)", option_format,
	  PLACE(params.format) },
	{ SECTION_OUTPUT, "target", 0, ENGINE_WORDS, "Require that this engine loads the result",
	  option_target, PLACE(params.target) },
	{ SECTION_OUTPUT, "recipe", 0, "mxfp8", "Convert power-of-two block scales to MX",
	  option_text, PLACE(params.recipe) },
	{ 0 },
};

static int make_plan(struct plan *plan, void *place, struct progress *progress, struct err *err)
{
	struct settings *settings = place;

	settings->params.convert = settings->convert.params;
	return repack_plan_make(plan, &settings->params, progress, err);
}

const struct command command_repack = {
	.name = "repack",
	.args = "MODEL -o OUT --format FORMAT",
	.summary = "Rewrite the same codes in another format; refuse if anything would be lost",
	.examples = { "fp8conv repack OUT -o CT --format compressed-tensors" },
	.group = GROUP_CONVERT,
	.options = options,
	.shared = { CONVERT_OUTPUT, CONVERT_SHARED },
	.argument = { SECTION_NONE, "MODEL", 0, "MODEL", NULL, option_text,
		      PLACE(convert.params.input) },
	.settings_size = sizeof(struct settings),
	.defaults = &(const struct settings){ .convert.make_plan = make_plan },
	.run = conversion_run,
};
