/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv dequantize.
 */
#include "cli/command.h"
#include "cli/conversion.h"
#include "job/dequantize.h"

enum { OPT_DTYPE = 256 };

static const struct argp_option options[] = {
	{ "dtype", OPT_DTYPE, "bf16|f16|f32", 0, "The type of the values (default bf16)", 1 },
	{ 0 },
};

struct settings {
	struct convert_settings convert;
	struct dequantize_params params; /* .convert is filled by run() */
};

static const struct option_place texts[] = {
	{ OPT_DTYPE, offsetof(struct settings, params.dtype) },
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

static const struct argp dequantize_argp = { .options = options,
					     .parser = parse,
					     .children = convert_children };

static int make_plan(struct plan *plan, const void *params, struct progress *progress,
		     struct err *err)
{
	return dequantize_plan_make(plan, params, progress, err);
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

const struct command command_dequantize = {
	.name = "dequantize",
	.args = "MODEL -o OUT",
	.summary = "Write an FP8 checkpoint of any flavour in high precision again",
	.group = GROUP_CONVERT,
	.argp = &dequantize_argp,
	.run = run,
};
