/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv quantize: a checkpoint to FP8.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/conversion.h"
#include "cli/quantize.h"
#include "cli/options/values.h"
#include "cli/options/selection.h"
#include "cli/options/since.h"
#include "cli/signals.h"
#include "delta/since.h"
#include "execute/execute.h"
#include "plan/quantize.h"
#include "format/engine.h"

/* The settings.  Begin zeroed.  Texts belong to argv. */
struct settings {
	struct convert_settings convert;
	struct quantize_params params; /* completed by make_plan() */
	struct texts data;
	struct since_options since; /* with convert.since */
};

static int read_uncovered(const struct option_row *option, const char *value, void *place,
			  struct err *err)
{
	struct static_scales_params *params = place;

	params->uncovered_given = true;
	return option_choice(option, value, &params->uncovered, err);
}

static int read_tokens(const struct option_row *option, const char *value, void *place,
		       struct err *err)
{
	return option_number(option, value, 1, INT64_MAX, place, err);
}

/* "auto", or a share from 0 to 1. */
static int read_shrink(const struct option_row *option, const char *value, void *place,
		       struct err *err)
{
	float *shrink = place;
	char *end;
	double number = strtod(value, &end);

	*shrink = -1;
	if (!strcmp(value, "auto"))
		return 0;
	if (end == value || *end || !(number >= 0 && number <= 1))
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is not 'auto' or a number from 0 to 1",
			       option->name, value);
	*shrink = (float)number + 0.0f; /* not -0 */
	return 0;
}

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_OUTPUT, "recipe", 0, "RECIPE",
	  "Choose the numeric recipe (see 'fp8conv recipes'; default blockwise)", option_recipe,
	  PLACE(params.recipe) },
	{ SECTION_OUTPUT, "format", 0, "FORMAT",
	  "Choose the checkpoint format (see 'fp8conv formats')", option_format,
	  PLACE(params.format) },
	{ SECTION_OUTPUT, "target", 0, ENGINE_WORDS,
	  "Require that this engine loads the result", option_target, PLACE(params.target) },
	{ SECTION_OUTPUT, "tp", 0, "N",
	  "Require that the result loads at tensor-parallel size N", option_count,
	  PLACE(params.select.tp) },
	{ SECTION_OUTPUT, "kv-cache", 0, NULL, "Write KV-cache scales (needs --calibration)",
	  option_flag, PLACE(params.calibration.kv_cache) },
	{ SECTION_OUTPUT, "since", 0, "OLD",
	  "Write to the file -o what changed since OLD, an earlier output, as 'delta' does",
	  option_text, PLACE(convert.since) },
	{ SECTION_OUTPUT, "preserve-high-precision", 0, "DIR",
	  "Save the original values of quantized tensors in DIR", option_text,
	  PLACE(convert.params.preserve) },

	{ SECTION_NUMBERS, "calibration", 0, "S.amax",
	  "Amax history for static scales, or a checkpoint of TransformerEngine", option_text,
	  PLACE(params.calibration.path) },
	{ SECTION_NUMBERS, "amax-algo", 0, STATIC_ALGOS,
	  "How to reduce the amax history (default max; P is a percentage)", option_amax_algo,
	  PLACE(params.calibration.amax_algo) },
	{ SECTION_NUMBERS, "uncovered", 0, UNCOVERED_WORDS,
	  "What to do with modules below --min-tokens (default error)", read_uncovered,
	  PLACE(params.calibration) },
	{ SECTION_NUMBERS, "min-tokens", 0, "N",
	  "Fewest tokens for a module to count as covered (default 1)", read_tokens,
	  PLACE(params.calibration.min_tokens) },
	{ SECTION_NUMBERS, "on-nonfinite", 0, "error|saturate|skip",
	  "Tensors with NaN or inf: refuse (default), saturate, or keep the tensor in high "
	  "precision",
	  option_choice, PLACE(convert.params.on_nonfinite) },

	{ SECTION_NUMBERS, "rounding", 0, ROUNDING_WORDS,
	  "Round to the nearest code (default), or so that errors compensate each other on "
	  "--data",
	  option_choice, PLACE(params.rounding) },
	{ SECTION_NUMBERS, "shrink", 0, "auto|R",
	  "Shrink the Hessian toward its diagonal: 0 not at all, 1 rounds to nearest (default "
	  "auto: try 0.3, 0.6 and 0.8)",
	  read_shrink, PLACE(params.compensate.shrink) },
	{ SECTION_NUMBERS, "exact", 0, NULL,
	  "Refuse if a value of a low-bit source is not exact in FP8", option_flag,
	  PLACE(convert.params.exact) },

	{ SECTION_DATA, "data", 0, "FILE",
	  "Text or token ids for --rounding compensated (as for calibrate); may be repeated, for "
	  "texts of several kinds",
	  option_append, PLACE(data) },
	{ SECTION_DATA, "passes", 0, "N", "Number of sequences (default 64)", option_large,
	  PLACE(params.compensate.passes) },
	{ SECTION_DATA, "seq-len", 0, "N", "Tokens per sequence (default 512)", option_large,
	  PLACE(params.compensate.seq_len) },
	{ SECTION_RUNNING, "ranks", 0, "mpi",
	  "Share the sequences of --rounding compensated with the other processes of MPI",
	  option_mpi, PLACE(convert.mpi) },
	{ 0 },
};

/* Listed behind the options of the selection. */
static const struct option_row list_options[] = {
	{ SECTION_TENSORS, "tensors", 0, "KEEP",
	  "Obey a list of names, as of 'fp8conv sensitivity --from'", option_text,
	  PLACE(params.tensors) },
	{ 0 },
};
/* clang-format on */

/* Checks the options of compensated rounding, and chooses the backend of its forward pass. */
static int finish_rounding(struct settings *settings, struct err *err)
{
	struct compensate_params *params = &settings->params.compensate;
	const char *given = settings->data.n	    ? "data"
			    : params->passes	    ? "passes"
			    : params->seq_len	    ? "seq-len"
			    : params->shrink >= 0   ? "shrink"
			    : settings->convert.mpi ? "ranks"
						    : NULL;

	params->data = settings->data.list;
	params->n_data = settings->data.n;
	if (settings->params.rounding == ROUNDING_NEAREST)
		return given ? err_set(err, ERR_USAGE,
				       "option '--%s' requires '--rounding compensated'", given)
			     : 0;
	if (!params->n_data)
		return err_set(err, ERR_USAGE,
			       "option '--rounding compensated' requires '--data': give text like "
			       "that which the model will see");
	if (settings->convert.mpi && ranks_check_data(params->data, params->n_data, err))
		return -1;
	params->stop = signals_watch();
	params->backend = run_forward_backend(&settings->convert.run, err);
	return params->backend ? 0 : -1;
}

/* Refuses what a delta does not have. */
static int check_since(const struct settings *settings, struct err *err)
{
	const struct convert_params *params = &settings->convert.params;
	const char *given = params->part || params->part_finish ? "part"
			    : params->restart			? "restart"
			    : settings->convert.sign		? "sign"
			    : params->hashes			? "manifest"
			    : params->preserve			? "preserve-high-precision"
			    : settings->params.rounding != ROUNDING_NEAREST ? "rounding"
									    : NULL;

	if (given)
		return err_set(err, ERR_USAGE,
			       "options '--since' and '--%s' cannot be combined: convert to a "
			       "directory, and use 'fp8conv delta'",
			       given);
	if (params->output && !strcmp(params->output, "-"))
		return err_set(err, ERR_USAGE,
			       "options '--since' and '--output -' cannot be combined: give a file "
			       "(-o D.safetensors)");
	return 0;
}

static int make_plan(struct plan *plan, void *place, struct progress *progress, struct err *err)
{
	struct settings *settings = place;
	bool is_delta = settings->convert.since != NULL;

	if (is_delta && since_options_read(&settings->since, settings->convert.params.io,
					   settings->convert.since, settings, err))
		return -1;
	if (finish_rounding(settings, err))
		return -1;
	settings->params.convert = settings->convert.params;
	if (is_delta) {
		settings->params.convert.output = NULL; /* the plan is that of a directory */
		settings->params.convert.io_memory += since_memory(&settings->convert.params);
	}
	settings->params.skip_nonfinite = execute_skip_nonfinite;
	if (quantize_plan_make(plan, &settings->params, progress, err))
		return -1;
	return is_delta ? since_options_check(&settings->since, plan->options, err) : 0;
}

int quantize_plan_words(struct plan *plan, struct convert_params *params, int argc, char **argv,
			struct err *err)
{
	struct settings settings = { .convert.params = *params, .params.compensate.shrink = -1 };
	struct progress progress = { 0 };
	const struct command *command = command_find("quantize");
	int rc = command_parse(command, argc, argv, &settings, err);

	rc = rc ? rc : make_plan(plan, &settings, &progress, err);
	*params = settings.convert.params;
	command_release(command, &settings);
	return rc ? -1 : 0;
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	int rc = settings->convert.since ? check_since(settings, err) : 0;

	rc = rc ? rc : conversion_run(settings, err);
	since_options_release(&settings->since);
	return rc;
}

const struct command command_quantize = {
	.name = "quantize",
	.args = "MODEL -o OUT",
	.summary = "Write an FP8 checkpoint, each quantized tensor with its own scale",
	.examples = { "fp8conv quantize MODEL -o OUT --target vllm",
		      "fp8conv quantize hf://ORG/NAME -o OUT --target sglang --dry-run",
		      "fp8conv quantize MODEL -o OUT --recipe delayed --calibration S.amax",
		      "fp8conv quantize MODEL -o OUT --rounding compensated --data text.jsonl",
		      "fp8conv quantize NEXT --since OUT -o D.safetensors" },
	.group = GROUP_CONVERT,
	.options = options,
	.shared = { CONVERT_OUTPUT,
		    { selection_options, PLACE(params) },
		    { list_options, 0 },
		    CONVERT_SHARED,
		    { tuning_options, PLACE(params.tuning) } },
	.argument = { SECTION_NONE, "MODEL", 0, "MODEL", NULL, option_text,
		      PLACE(convert.params.input) },
	.settings_size = sizeof(struct settings),
	.defaults = &(const struct settings){ .convert.make_plan = make_plan,
					      .params.compensate.shrink = -1 },
	.gone = "keep|keep-as|budget|max-kld",
	.instead = "choose by 'fp8conv sensitivity --from S.json --budget 10% -o KEEP', and give "
		   "--tensors KEEP",
	.run = run,
};
