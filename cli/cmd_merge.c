/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv merge: several amax files into one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "amax/merge.h"

/* The settings.  Begin zeroed.  Texts belong to argv. */
struct settings {
	struct amax_merge_params params;
	bool ranks;
};

static int read_input(const struct option_row *option, const char *value, void *place,
		      struct err *err)
{
	struct amax_merge_params *params = place;

	(void)option, (void)err;
	ARRAY_GROW(params->inputs, params->n_inputs);
	params->inputs[params->n_inputs++] = value;
	return 0;
}

#define PLACE(member) offsetof(struct settings, member)

static const struct option_row argument = {
	.name = "A.amax", .arg = "FILE", .read = read_input, .offset = PLACE(params)
};

static const struct option_row options[] = {
	{ SECTION_NONE, "output", 'o', "C.amax", "Output file", option_text, PLACE(params.output) },
	{ SECTION_NONE, "ranks", 0, NULL,
	  "Inputs are data-parallel ranks of the same passes: take the maximum", option_flag,
	  PLACE(ranks) },
	{ 0 },
};

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { .params.io = &io_system };
	const struct amax_merge_params *params = &settings.params;
	struct amax_repeated repeated = { 0 };
	int rc = command_parse(command, argc, argv, &settings, err);

	settings.params.how = settings.ranks ? AMAX_RANKS : AMAX_APPEND;
	if (!rc && !settings.params.output)
		rc = err_set(err, ERR_USAGE,
			     "option '--output' is missing: give an output file (-o C.amax)");
	else if (!rc)
		rc = amax_merge_files(params, &repeated, err);
	if (!rc && repeated.second)
		fprintf(stderr,
			"fp8conv merge: note: '%s' and '%s' are of the same data, which counts "
			"twice\n",
			params->inputs[repeated.first], params->inputs[repeated.second]);
	free(settings.params.inputs);
	return rc < 0 ? -1 : 0;
}

const struct command command_merge = {
	.name = "merge",
	.args = "A.amax B.amax... -o C.amax",
	.summary = "Merge amax histories",
	.group = GROUP_CALIBRATE,
	.options = options,
	.argument = &argument,
	.many = true,
	.run = run,
};
