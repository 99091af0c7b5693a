/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv sensitivity: what each group of matrices costs when it is quantized, and which of them
 * are kept for it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/options/values.h"
#include "cli/print/calibration.h"
#include "cli/print/plan.h"
#include "cli/print/sensitivity.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "cli/remote.h"
#include "cli/signals.h"
#include "format/engine.h"
#include "sensitivity/choose.h"

#define MAX_RECIPES 16

/* Names with commas between them, without duplicates: each of a row of recipes, or "skip" in
 * --as. */
struct recipe_names {
	const char *names[MAX_RECIPES];
	size_t n;
};

struct settings {
	struct sensitivity_params params; /* completed by prepare() */
	struct texts data;
	struct recipe_names recipes, as;
	struct choice_params choice; /* table, budget, max_kld; completed by choose() */
	struct run_settings run;
	struct ranks ranks;
	struct model_io model;
	bool mpi;
	int by; /* 1: expert */
	bool dry_run;
};

static int add_name(struct recipe_names *chosen, const char *name, bool may_skip, struct err *err)
{
	const struct recipe *recipe = NULL;

	if (may_skip && !strcmp(name, NAMED_SKIP))
		name = NAMED_SKIP;
	else if ((recipe = recipe_find(name, err)))
		name = recipe->name;
	else
		return -1;
	for (size_t i = 0; i < chosen->n; i++)
		if (!strcmp(chosen->names[i], name))
			return err_set(err, ERR_USAGE, "duplicate '%s'", name);
	if (chosen->n == MAX_RECIPES)
		return err_set(err, ERR_USAGE, "more than %d recipes", MAX_RECIPES);
	chosen->names[chosen->n++] = name;
	return 0;
}

static int read_names(const struct option_row *option, const char *value,
		      struct recipe_names *chosen, bool may_skip, struct err *err)
{
	char *text = xstrdup(value), *rest = text, *word;
	int rc = 0;

	chosen->n = 0;
	while (!rc && (word = strsep(&rest, ",")))
		if (add_name(chosen, word, may_skip, err))
			rc = err_wrap(err, "option '--%s'", option->name);
	free(text);
	return rc;
}

/* Reads "blockwise,mxfp8". */
static int read_recipes(const struct option_row *option, const char *value, void *place,
			struct err *err)
{
	return read_names(option, value, place, false, err);
}

/* Reads "skip,mxfp8". */
static int read_as(const struct option_row *option, const char *value, void *place, struct err *err)
{
	return read_names(option, value, place, true, err);
}

/* Reads "10%" as 0.1. */
static int read_budget(const struct option_row *option, const char *value, void *place,
		       struct err *err)
{
	char *end;
	double percent = strtod(value, &end);

	if (end == value || (*end && strcmp(end, "%") != 0) || !(percent > 0) ||
	    (!*end && percent < 1) || percent > 100)
		return err_set(
			err, ERR_USAGE,
			"option '--%s': '%s' is not a percentage above 0 and up to 100, such "
			"as 10%%",
			option->name, value);
	*(double *)place = percent / 100;
	return 0;
}

/* clang-format off */
static const struct option_row options[] = {
	{ SECTION_OUTPUT, "output", 'o', "FILE",
	  "Table of divergences to write (S.json), or with --from the list of names (KEEP)",
	  option_new_file, PLACE(params.output) },
	{ SECTION_OUTPUT, "from", 0, "S.json",
	  "Choose by this table what quantize keeps, in place of measuring one", option_text,
	  PLACE(choice.table) },
	{ SECTION_OUTPUT, "budget", 0, "P%",
	  "For --from: give back at most P percent of the bytes that FP8 saves", read_budget,
	  PLACE(choice.budget) },
	{ SECTION_OUTPUT, "max-kld", 0, "X",
	  "For --from: keep groups until the predicted KLD is at most X", option_positive,
	  PLACE(choice.max_kld) },
	{ SECTION_OUTPUT, "as", 0, "WORD[,...]",
	  "For --from: what groups become, skip (default: BF16) or recipes that S.json has too",
	  read_as, PLACE(as) },
	{ SECTION_OUTPUT, "recipe", 0, "RECIPE[,...]",
	  "Recipes to measure, as for 'fp8conv quantize' (default blockwise); with --from the one "
	  "of the job",
	  read_recipes,
	  PLACE(recipes) },
	{ SECTION_OUTPUT, "format", 0, "FORMAT",
	  "Checkpoint format, as for 'fp8conv quantize'", option_format,
	  PLACE(params.quantize.format) },
	{ SECTION_OUTPUT, "target", 0, ENGINE_WORDS,
	  "Engine that must load the result, as for 'fp8conv quantize'", option_target,
	  PLACE(params.quantize.target) },
	{ SECTION_OUTPUT, "by", 0, "layer|expert",
	  "Measure all experts of a layer together (default), or each alone", option_choice,
	  PLACE(by) },
	{ SECTION_DATA, "data", 0, "FILE",
	  "Text or token ids (.txt, .jsonl, .json, .npy; .gz, .zst), a directory of "
	  "such files, or -; may be repeated",
	  option_append, PLACE(data) },
	{ SECTION_DATA, "seq-len", 0, "N", "Tokens per sequence (default 512)", option_large,
	  PLACE(params.seq_len) },
	{ SECTION_DATA, "passes", 0, "N", "Maximum number of sequences (default 4)",
	  option_large, PLACE(params.passes) },
	{ SECTION_NUMBERS, "calibration", 0, "S.amax", "Amax history for static scales",
	  option_text, PLACE(params.quantize.calibration.path) },
	{ SECTION_NUMBERS, "precision", 0, "bf16|f32",
	  "Input type of matrix products (default f32)", option_text, PLACE(params.precision) },
	{ SECTION_RUNNING, "restart", 0, NULL, "Overwrite an existing output", option_flag,
	  PLACE(params.restart) },
	{ SECTION_ALIAS, "force", 'f', NULL, "The same as --restart", option_flag,
	  PLACE(params.restart) },
	{ SECTION_RUNNING, "max-memory", 0, "SIZE",
	  "Memory for sequences in flight, in addition to two layers (default 1G)", option_size,
	  PLACE(run.max_memory) },
	{ SECTION_RUNNING, "ranks", 0, "mpi", "Share the sequences with the other processes of MPI",
	  option_mpi, PLACE(mpi) },
	{ SECTION_REPORTING, "dry-run", 'n', NULL, "Print the plan and exit", option_flag,
	  PLACE(dry_run) },
	{ 0 },
};
/* clang-format on */

static int job_run(struct sensitivity_plan *plan, const struct settings *settings, struct err *err)
{
	struct sensitivity_progress progress = { 0 };
	const struct watched_groups groups = { &progress, plan };
	const struct watched watched = watch_groups(&groups);
	double began = process_now();
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = sensitivity_run(plan, &settings->params, &progress, err);
	ticker_stop(&ticker);
	if (rc == 0) {
		const struct sensitivity_report report = { .params = &settings->params,
							   .plan = plan,
							   .seconds = process_now() - began };

		if (settings->run.json)
			sensitivity_report_json(&report);
		if (!settings->run.quiet &&
		    (settings->run.verbose || program_on_terminal(STDERR_FILENO)))
			sensitivity_report_text(&report);
	}
	return rc;
}

static int open_and_run(const struct settings *settings, struct err *err)
{
	struct sensitivity_plan plan;
	int rc = sensitivity_plan_make(&plan, &settings->params, err);

	rc = group_settle(settings->params.group, rc, err);
	if (!rc && !settings->run.quiet) {
		notes_print(&plan.plans[0].selection.notes, false);
		data_print_notes(&plan.data, &plan.model);
		sensitivity_note_unmeasured(&plan);
	}
	if (!rc && !settings->dry_run)
		rc = job_run(&plan, settings, err);
	else if (!rc && ranks_print(&settings->ranks))
		(settings->run.json ? sensitivity_print_json : sensitivity_print_text)(&plan);
	sensitivity_plan_release(&plan);
	return rc;
}

/* Completes what decides the selection. */
static void complete(struct settings *settings)
{
	struct sensitivity_params *params = &settings->params;
	struct quantize_params *quantize = &params->quantize;

	if (!settings->recipes.n)
		settings->recipes.names[settings->recipes.n++] = "blockwise";
	params->recipes = settings->recipes.names;
	params->n_recipes = settings->recipes.n;
	params->by_expert = settings->by;
	params->data = settings->data.list;
	params->n_data = settings->data.n;
	params->max_memory = model_io_rest(&settings->model, settings->run.max_memory);
	params->n_threads = run_threads(&settings->run);
	quantize->convert.backend = params->backend;
	quantize->convert.n_threads = params->n_threads;
}

/* Checks the options, and completes the parameters. */
static int prepare(struct settings *settings, struct err *err)
{
	struct sensitivity_params *params = &settings->params;

	if (!params->quantize.convert.input)
		return err_set(err, ERR_USAGE,
			       "MODEL is missing (fp8conv sensitivity MODEL --data "
			       "FILE -o S.json)");
	if (!settings->data.n)
		return err_set(err, ERR_USAGE,
			       "option '--data' is missing: give text or token ids to run the "
			       "model on");
	if (!params->output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give a file for the table (-o "
			       "S.json), or --dry-run");
	if (!strcmp(params->quantize.convert.input, "-"))
		return err_set(err, ERR_USAGE,
			       "'-' is not a model: give the directory of a checkpoint");
	params->stop = signals_watch();
	params->backend = run_forward_backend(&settings->run, err);
	if (!params->backend)
		return -1;
	if (model_io_open(&settings->model, &params->quantize.convert.input, NULL, &settings->run,
			  err))
		return -1;
	params->quantize.convert.io = settings->model.io;
	complete(settings);
	return params->group ? ranks_check_data(params->data, params->n_data, err) : 0;
}

static int check_and_run(void *place, struct err *err)
{
	struct settings *settings = place;

	settings->params.group = ranks_group(&settings->ranks);
	if (group_settle(settings->params.group, prepare(settings, err), err))
		return -1;
	return open_and_run(settings, err);
}

/* --- the choice --- */

/* Checks the options of --from against each other, and against those of a measurement. */
static int check_choice(const struct settings *settings, struct err *err)
{
	const struct choice_params *choice = &settings->choice;
	const struct select_options *select = &settings->params.quantize.select;
	const char *alone = choice->budget > 0	  ? "--budget"
			    : choice->max_kld > 0 ? "--max-kld"
			    : settings->as.n	  ? "--as"
						  : NULL;
	const char *measuring = settings->data.n			     ? "--data"
				: settings->params.quantize.format	     ? "--format"
				: settings->params.quantize.target	     ? "--target"
				: settings->params.quantize.calibration.path ? "--calibration"
				: select->include.n			     ? "--include"
				: select->exclude.n			     ? "--exclude"
				: select->rules.n			     ? "--tensor"
									     : NULL;

	if (!choice->table)
		return alone ? err_set(err, ERR_USAGE, "option '%s' requires '--from'", alone) : 0;
	if (measuring)
		return err_set(err, ERR_USAGE,
			       "options '--from' and '%s' cannot be combined: the table has what "
			       "was measured",
			       measuring);
	if (choice->budget > 0 && choice->max_kld > 0)
		return err_set(err, ERR_USAGE,
			       "options '--budget' and '--max-kld' cannot be combined");
	if (!(choice->budget > 0) && !(choice->max_kld > 0))
		return err_set(err, ERR_USAGE,
			       "option '--from' requires '--budget' or '--max-kld': how much may "
			       "be kept, for example --budget 10%%");
	if (settings->recipes.n > 1)
		return err_set(err, ERR_USAGE,
			       "option '--recipe': give the one of the job, and others by --as");
	if (!settings->params.output && !settings->dry_run)
		return err_set(err, ERR_USAGE,
			       "option '--output' is missing: give a file for the list (-o KEEP), "
			       "or --dry-run");
	return 0;
}

static void report_choice(const struct settings *settings, const struct choice *choice)
{
	const struct run_settings *run = &settings->run;

	if (run->json)
		choice_print_json(choice, settings->dry_run ? NULL : settings->params.output);
	else if (settings->dry_run)
		choice_print_text(program.out, choice);
	if (settings->dry_run || run->quiet ||
	    !(run->verbose || program_on_terminal(STDERR_FILENO)))
		return;
	choice_print_text(program.err, choice);
	choice_print_next(choice, settings->choice.model, settings->params.output);
}

static int choose(struct settings *settings, struct err *err)
{
	struct choice_params *params = &settings->choice;
	struct choice choice = { 0 };
	int rc = -1;

	params->model = settings->params.quantize.convert.input;
	params->renames = settings->params.quantize.convert.renames;
	params->recipe = settings->recipes.n ? settings->recipes.names[0] : NULL;
	params->as = settings->as.names;
	params->n_as = settings->as.n;
	if (model_io_open(&settings->model, &params->model, NULL, &settings->run, err))
		goto out;
	params->io = settings->model.io;
	if (choice_make(&choice, params, err))
		goto out;
	if (!settings->dry_run &&
	    choice_write(&choice, params, settings->params.output, settings->params.restart, err))
		goto out;
	report_choice(settings, &choice);
	rc = 0;
out:
	choice_release(&choice);
	return rc;
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	int rc = check_choice(settings, err);

	if (!rc && settings->choice.table)
		rc = choose(settings, err);
	else if (!rc)
		rc = ranks_run(&settings->ranks, settings->mpi, &settings->run, check_and_run,
			       settings, err);
	model_io_close(&settings->model);
	return rc;
}

const struct command command_sensitivity = {
	.name = "sensitivity",
	.args = "MODEL --data FILE -o S.json",
	.summary = "Measure what each group of matrices costs, and choose by it",
	.examples = { "fp8conv sensitivity MODEL --data text.jsonl -o S.json",
		      "fp8conv sensitivity --from S.json MODEL --budget 10% -o KEEP",
		      "fp8conv quantize MODEL -o OUT --tensors KEEP" },
	.group = GROUP_CALIBRATE,
	.options = options,
	.shared = { { tuning_options, PLACE(params.quantize.tuning) },
		    { selection_options, PLACE(params.quantize) },
		    { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(params.quantize.convert.renames) },
		    { run_options, PLACE(run) } },
	.argument = { SECTION_NONE, "MODEL", 0, "MODEL", NULL, option_text,
		      PLACE(params.quantize.convert.input) },
	.settings_size = sizeof(struct settings),
	.defaults = &(const struct settings){ .params.now = process_now },
	.optional = true,
	.run = run,
};
