/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv inspect: describes a checkpoint or an amax file.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/print/difference.h"
#include "cli/print/inspection.h"
#include "cli/options/run.h"
#include "cli/options/selection.h"
#include "cli/options/values.h"
#include "cli/program.h"
#include "cli/progress/progress.h"
#include "cli/process.h"
#include "cli/quantize.h"
#include "cli/remote.h"
#include "cli/signals.h"
#include "execute/execute.h"
#include "recipe/static_amax.h"

struct settings {
	const char *path;
	const char *recipe, *amax_algo;
	struct texts renames;
	struct run_settings run;
	bool stats, summary;
};

static const struct option_row options[] = {
	{ SECTION_NONE, "stats", 0, NULL,
	  "Read all values: amax, range of scales, saturated codes, expected SQNR", option_flag,
	  PLACE(stats) },
	{ SECTION_NONE, "recipe", 0, "RECIPE",
	  "Print what this recipe loses: underflow, overflow and SQNR of inputs in an amax "
	  "history, or with --stats of a model's weights",
	  option_recipe, PLACE(recipe) },
	{ SECTION_NONE, "amax-algo", 0, STATIC_ALGOS,
	  "With --recipe: how to reduce the amax history (default max; P is a percentage)",
	  option_amax_algo, PLACE(amax_algo) },
	{ SECTION_NONE, "summary", 0, NULL, "Print the recipe, the sizes and the types alone",
	  option_flag, PLACE(summary) },
	{ 0 },
};

/* What is printed. */
struct facts_found {
	struct inspection inspection;
	struct tensor_stats *stats; /* by tensor; NULL: not requested */
	struct losses losses;	    /* recipe NULL: not requested */
	struct plan plan;	    /* of --recipe, which has the names of weights */
};

/* Adds the loss of a module's inputs. */
static int add_inputs(struct losses *losses, const struct settings *settings,
		      const struct recipe *recipe, const struct amax_site *site, struct err *err)
{
	struct static_history history = { &site->history[0][AMAX_X], site->n_passes, 3,
					  &site->histogram[0][0], 2 };
	struct static_choice choice = { 0 };
	struct static_loss loss;
	float amax;

	if (settings->amax_algo &&
	    static_choice_read(&choice, "--amax-algo", settings->amax_algo, err))
		return -1;
	amax = static_amax(&choice, &history, &recipe->input);
	static_loss(&history, &recipe->input, amax, &loss);
	if (isinf(amax))
		return err_set(err, ERR_INPUT,
			       "amax of x of module '%s' in '%s' is infinite: it overflowed in the "
			       "forward pass",
			       site->name, settings->path);
	ARRAY_GROW(losses->list, losses->n);
	losses->list[losses->n++] = (struct loss){ site->name,	  loss.n,      loss.underflow,
						   loss.overflow, loss.signal, loss.noise };
	return 0;
}

/* Finds what the recipe loses of the inputs of all modules. */
static int lose_inputs(struct facts_found *found, const struct settings *settings, struct err *err)
{
	const struct amax_stats *amax = &found->inspection.amax;
	const struct recipe *recipe = recipe_find(settings->recipe, err);

	if (recipe->input.tile.rows != WHOLE || recipe->input.tile.cols != WHOLE)
		return err_set(err, ERR_USAGE,
			       "option '--recipe': '%s' has scales of parts of an input, and a "
			       "histogram has only its values: take current or delayed",
			       settings->recipe);
	for (size_t i = 0; i < amax->n_sites; i++) {
		const struct amax_site *site = amax->sites[i];

		if (site->kind != AMAX_GEMM || !site->n_passes)
			continue;
		if (!site->histogram)
			return err_set(err, ERR_USAGE,
				       "option '--recipe' needs histograms, and module '%s' in "
				       "'%s' has none: calibrate with --histogram",
				       site->name, settings->path);
		if (add_inputs(&found->losses, settings, recipe, site, err))
			return -1;
	}
	return 0;
}

/* Finds what the recipe loses of the weights that `quantize` converts. */
static int lose_weights(struct facts_found *found, const struct settings *settings,
			struct progress *progress, struct err *err)
{
	char **words = xcalloc(8 + 2 * settings->renames.n, sizeof *words);
	size_t n = 0;
	struct convert_params params = { .io = found->inspection.io,
					 .temp_dir = process_temp_dir(),
					 .backend = backend_select(NULL, err),
					 .n_threads = process_cpus() };
	struct unit_loss *losses = NULL;
	int rc;

	words[n++] = "quantize";
	words[n++] = "--requantize";
	words[n++] = "--ragged"; /* nothing is written that an engine would have to load */
	words[n++] = "--recipe";
	words[n++] = (char *)settings->recipe;
	for (size_t i = 0; i < settings->renames.n; i++) {
		words[n++] = "--rename";
		words[n++] = (char *)settings->renames.list[i];
	}
	words[n++] = "--";
	words[n++] = (char *)settings->path;
	rc = quantize_plan_words(&found->plan, &params, (int)n, words, err);
	free(words);
	rc = rc ? rc : execute_losses(&found->plan, &params, progress, &losses, err);
	for (size_t u = 0; rc == 0 && u < found->plan.selection.n_units; u++) {
		const struct unit_loss *loss = &losses[u];

		if (!loss->n)
			continue;
		ARRAY_GROW(found->losses.list, found->losses.n);
		found->losses.list[found->losses.n++] =
			(struct loss){ found->plan.selection.units[u].name,
				       loss->n,
				       (double)loss->underflow,
				       (double)loss->overflow,
				       loss->error.signal,
				       loss->error.noise };
	}
	free(losses);
	return rc;
}

/* Refuses options that the file has nothing for.  is: what it is, and what to do. */
static int refuse_options(const struct settings *settings, bool recipe, const char *is,
			  struct err *err)
{
	const char *given = settings->stats	  ? "stats"
			    : recipe		  ? "recipe"
			    : settings->renames.n ? "rename"
						  : NULL;

	return given ? err_set(err, ERR_USAGE, "option '--%s' is for checkpoints, but '%s' is %s",
			       given, settings->path, is)
		     : 0;
}

/* Checks that --recipe and --amax-algo go with the input. */
static int check_recipe(const struct settings *settings, bool is_amax, struct err *err)
{
	const struct recipe *recipe = settings->recipe ? recipe_find(settings->recipe, err) : NULL;

	if (settings->amax_algo && (!recipe || !is_amax))
		return err_set(err, ERR_USAGE,
			       "option '--amax-algo' requires '--recipe' and an amax history");
	if (!recipe || is_amax)
		return 0;
	if (!settings->stats)
		return err_set(err, ERR_USAGE,
			       "option '--recipe' of a model requires '--stats', which reads all "
			       "values");
	if (!strcmp(settings->path, "-"))
		return err_set(err, ERR_USAGE,
			       "option '--recipe' reads the model twice: give its path, not '-'");
	if (recipe->needs_history)
		return err_set(err, ERR_USAGE,
			       "option '--recipe': '%s' rounds weights as 'current' does: take "
			       "that, or give an amax history, whose inputs it rounds",
			       recipe->name);
	return 0;
}

static int find_values(struct facts_found *found, const struct settings *settings,
		       struct progress *progress, struct err *err)
{
	const struct stats_params params = { .backend = backend_select(NULL, err),
					     .n_threads = process_cpus(),
					     .progress = progress };
	bool is_amax = found->inspection.is_amax;

	if ((is_amax && refuse_options(settings, false, "an amax history: omit the option", err)) ||
	    check_recipe(settings, is_amax, err))
		return -1;
	found->losses.recipe = settings->recipe;
	if (settings->recipe && is_amax)
		return lose_inputs(found, settings, err);
	if (settings->recipe && lose_weights(found, settings, progress, err))
		return -1;
	if (!settings->stats || (settings->recipe && !settings->run.json))
		return 0;
	return inspect_stats(&found->inspection, &params, &found->stats, err);
}

/* Reads the requested facts, with progress. */
static int inspect(const struct settings *settings, const struct io *io, struct facts_found *found,
		   struct err *err)
{
	const struct inspect_params files = { .io = io,
					      .path = settings->path,
					      .temp_dir = process_temp_dir(),
					      .renames = settings->renames };
	struct progress progress = { .stop = signals_watch() };
	struct watched watched = watch_bytes(&progress);
	struct ticker ticker;
	int rc;

	ticker_start(&ticker, run_progress_mode(&settings->run), &watched);
	rc = inspect_make(&found->inspection, &files, &progress, err);
	if (rc == 0)
		rc = find_values(found, settings, &progress, err);
	ticker_stop(&ticker);
	return rc;
}

static void print(const struct settings *settings, const struct facts_found *found)
{
	const struct inspection *inspection = &found->inspection;
	const struct shown shown = { inspection, found->stats, &found->losses };

	if (settings->run.json)
		inspect_print_json(&shown);
	else if (found->losses.recipe)
		losses_print_text(&found->losses);
	else if (inspection->is_amax)
		amax_print_text(&inspection->amax, program_on_terminal(STDOUT_FILENO));
	else if (settings->summary)
		inspect_print_summary(inspection);
	else
		inspect_print_text(&shown);
}

/* What changed, where the file is a delta. */
static int inspect_delta(const struct settings *settings, const struct io *io, struct err *err)
{
	struct delta_file delta;

	if (delta_open(&delta, io, settings->path, err))
		return -1;
	if (settings->run.json)
		delta_print_contents_json(&delta);
	else
		delta_print_contents(&delta, settings->summary);
	delta_release(&delta);
	return 0;
}

static int run(void *place, struct err *err)
{
	struct settings *settings = place;
	struct facts_found found = { .plan.stream_fd = -1 };
	struct model_io model = { 0 };
	int rc;

	if (!strcmp(settings->path, "-") && isatty(STDIN_FILENO))
		return err_set(err, ERR_USAGE, "standard input is a terminal, not a checkpoint");
	if (model_io_open(&model, &settings->path, NULL, &settings->run, err))
		return -1;
	if (delta_is_file(model.io, settings->path)) {
		rc = refuse_options(settings, settings->recipe != NULL,
				    "a delta: apply it, and inspect the result", err);
		rc = rc ? rc : inspect_delta(settings, model.io, err);
		model_io_close(&model);
		return rc;
	}
	rc = inspect(settings, model.io, &found, err);
	if (rc == 0 && !settings->run.quiet) {
		inspect_print_note(&found.inspection);
		model_io_note(&model);
	}
	if (rc == 0)
		print(settings, &found);
	free(found.losses.list);
	free(found.stats);
	plan_release(&found.plan);
	inspect_release(&found.inspection);
	model_io_close(&model);
	return rc;
}

const struct command command_inspect = {
	.name = "inspect",
	.args = "MODEL",
	.summary = "Show the tensors, types, scales and sizes of a checkpoint, or an amax history",
	.examples = { "fp8conv inspect OUT --summary", "fp8conv inspect OUT --stats",
		      "fp8conv inspect hf://ORG/NAME",
		      "fp8conv inspect S.amax --recipe delayed --amax-algo percentile=99.99" },
	.group = GROUP_INSPECT,
	.options = options,
	.shared = { { report_options, PLACE(run) },
		    { source_options, PLACE(run) },
		    { rename_options, PLACE(renames) } },
	.argument = { SECTION_NONE, "MODEL", 0, "MODEL", NULL, option_text, PLACE(path) },
	.settings_size = sizeof(struct settings),
	.run = run,
};
