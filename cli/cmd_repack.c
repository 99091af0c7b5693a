/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv repack.
 */
#include "cli/command.h"
#include "cli/conversion.h"
#include "job/repack.h"

enum { OPT_FORMAT = 256, OPT_TARGET, OPT_RECIPE };

static const struct argp_option options[] = {
	{ "format", OPT_FORMAT, "FORMAT", 0,
	  "What to make of it (see 'fp8conv formats'; default by --target)", 1 },
	{ "target", OPT_TARGET, "vllm|sglang|trtllm|transformers", 0,
	  "The engine that is to load it", 1 },
	{ "recipe", OPT_RECIPE, "mxfp8", 0, "Spread power-of-two scales of blocks to MX blocks",
	  1 },
	{ 0 },
};

struct settings {
	struct convert_settings convert;
	struct repack_params params; /* .convert is filled by run() */
};

static const struct option_place texts[] = {
	{ OPT_FORMAT, offsetof(struct settings, params.format) },
	{ OPT_TARGET, offsetof(struct settings, params.target) },
	{ OPT_RECIPE, offsetof(struct settings, params.recipe) },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct parse_input *input = state->input;

	if (key == ARGP_KEY_INIT) {
		state->child_inputs[0] = input;
		return 0;
	}
	return option_text(options, texts, sizeof texts / sizeof *texts, key, value,
			   input->settings, input->err);
}

static const struct argp repack_argp = { .options = options,
					 .parser = parse,
					 .children = convert_children };

static int make_plan(struct plan *plan, const void *params, struct progress *progress,
		     struct err *err)
{
	return repack_plan_make(plan, params, progress, err);
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { 0 };
	const struct conversion conversion = { .command = command->name,
					       .settings = &settings.convert,
					       .make_plan = make_plan,
					       .params = &settings.params };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (convert_settings_finish(&settings.convert, command->name, err))
		return -1;
	settings.params.convert = settings.convert.params;
	return conversion_run(&conversion, err);
}

const struct command command_repack = {
	.name = "repack",
	.args = "MODEL -o OUT --format FORMAT",
	.summary = "Write the same codes in another format, lossless or not at all",
	.group = GROUP_CONVERT,
	.argp = &repack_argp,
	.run = run,
};
