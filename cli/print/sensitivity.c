/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/sensitivity.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "cli/print/calibration.h"
#include "cli/print/job_options.h"
#include "cli/print/json.h"
#include "cli/print/message.h"
#include "cli/print/path.h"
#include "cli/print/table.h"
#include "cli/process.h"
#include "cli/program.h"

/* Returns the divergence that a set saves for each byte. */
static double worth_of(const struct choice_set *set)
{
	const struct knapsack_option *from = &set->options[0], *to = &set->options[set->chosen];
	int64_t n_bytes = to->n_bytes - from->n_bytes;

	return n_bytes > 0 ? (from->kld - to->kld) / (double)n_bytes : INFINITY;
}

/* Sorts the largest first; equal ones stay in the order of the table. */
COMPARISON(compare_set, struct choice_set *const, ORDER(worth_of(*y), worth_of(*x)))

/* Returns the sets that change, which the caller frees. */
static const struct choice_set **sorted_sets(const struct choice *choice, size_t *n)
{
	const struct choice_set **sets = xcalloc(choice->n + 1, sizeof *sets);

	*n = 0;
	for (size_t s = 0; s < choice->n; s++)
		if (choice->sets[s].chosen)
			sets[(*n)++] = &choice->sets[s];
	sort(sets, *n, sizeof *sets, compare_set);
	return sets;
}

void choice_print_text(FILE *stream, const struct choice *choice)
{
	static const char *const headings[] = { "group", "becomes", "KLD", "KLD then" };
	struct table lines = { .columns = "llrr" };
	struct buf text = { 0 };
	size_t n;
	const struct choice_set **sets = sorted_sets(choice, &n);

	for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
		table_cell(&lines, headings[i]);
	for (size_t i = 0; i < n; i++) {
		const struct knapsack_option *options = sets[i]->options;
		char before[32], after[32];

		snprintf(before, sizeof before, "%.6f", options[0].kld);
		snprintf(after, sizeof after, "%.6f", options[sets[i]->chosen].kld);
		table_cell(&lines, sets[i]->name);
		table_cell(&lines, choice_word(choice, sets[i]->chosen));
		table_cell(&lines, before);
		table_cell(&lines, after);
	}
	table_print(&lines, stream, true);
	free(sets);
	choice_say(choice, &text);
	fprintf(stream, "%s\n", text.data);
	buf_release(&text);
}

void choice_print_json(const struct choice *choice, const char *output)
{
	struct json_out out = json_out_begin(program.out);
	size_t n;
	const struct choice_set **sets = sorted_sets(choice, &n);

	json_out_text(&out, "output", output);
	json_out_text(&out, "sha256", choice->table.file_sha256);
	json_out_text(&out, "recipe", choice_word(choice, 0));
	json_out_float(&out, "kld_without", (float)choice->kld_before);
	json_out_float(&out, "predicted_kld", (float)choice->kld);
	json_out_count(&out, "kept_bytes", choice->kept_bytes);
	json_out_count(&out, "all_bytes", choice->all_bytes);
	json_out_float(&out, "added_share",
		       (float)((double)choice->n_added / (double)choice->n_saved));
	json_out_open(&out, "groups", '[');
	for (size_t i = 0; i < n; i++) {
		const struct knapsack_option *chosen = &sets[i]->options[sets[i]->chosen];
		bool skip = choice->ways[sets[i]->chosen] == CHOICE_SKIP;

		json_out_open(&out, NULL, '{');
		json_out_text(&out, "group", sets[i]->name);
		json_out_text(&out, "recipe", skip ? NULL : choice_word(choice, sets[i]->chosen));
		json_out_float(&out, "kld", (float)sets[i]->options[0].kld);
		json_out_float(&out, "kld_left", (float)chosen->kld);
		json_out_count(&out, "bytes", (uint64_t)chosen->n_bytes);
		json_out_close(&out, '}');
	}
	json_out_close(&out, ']');
	json_out_end(&out);
	free(sets);
}

void choice_print_next(const struct choice *choice, const char *model, const char *output)
{
	const json_t *options = choice->table.recipes[choice->ways[0]].options;
	const char *format = json_string_value(json_object_get(options, "format"));
	struct buf text = { 0 };

	path_print_output(output);
	buf_puts(&text, "fp8conv quantize ");
	path_put(&text, model ? model : "MODEL");
	buf_puts(&text, " -o DIR");
	job_option_put(&text, "recipe", choice_word(choice, 0));
	if (format)
		job_option_put(&text, "format", format);
	job_options_put(&text, options, "S.amax");
	buf_puts(&text, " --tensors ");
	path_print_next(text.data, output);
	buf_release(&text);
}

/* Groups in the closing summary. */
#define N_WORST 8

static size_t n_rounds(const struct sensitivity_plan *plan)
{
	return (plan->table.n_groups + plan->n_at_once - 1) / plan->n_at_once;
}

/* The totals of a recipe. */
struct totals {
	size_t n_groups, n_modules;
	uint64_t bf16, fp8; /* bytes */
	double kld;
};

static struct totals totals_of(const struct kld_table *table, size_t recipe)
{
	struct totals totals = { 0 };

	for (size_t i = 0; i < table->n_groups; i++) {
		const struct kld_group *group = &table->groups[i];

		if (group->recipe != recipe)
			continue;
		totals.n_groups++;
		totals.n_modules += group->n;
		totals.bf16 += group->bf16_bytes;
		totals.fp8 += group->fp8_bytes;
		totals.kld += group->mean;
	}
	return totals;
}

void sensitivity_print_text(const struct sensitivity_plan *plan)
{
	const struct kld_table *table = &plan->table;
	struct table lines = { .columns = "llrrr" };

	for (size_t i = 0; i < table->n_groups; i++) {
		const struct kld_group *group = &table->groups[i];

		table_cell(&lines, group->name);
		table_cell(&lines, table->recipes[group->recipe].name);
		table_cell_number(&lines, group->n);
		table_cell_size(&lines, group->bf16_bytes);
		table_cell_size(&lines, group->fp8_bytes);
	}
	table_print(&lines, program.out, true);
	fprintf(program.out, "\narchitecture %s, %zu layers\n", plan->model.arch->name,
		plan->model.n_layers);
	fprintf(program.out, "%zu groups, at most %zu at once\n", table->n_groups, plan->n_at_once);
	fputs("finished rounds are kept: the same command continues\n", program.out);
	fprintf(program.out, "sequences %zu, tokens %" PRIu64 "\n", plan->data.n,
		plan->sweep.n_tokens);
	data_print_memory(plan->memory_bytes);
}

static void json_groups(struct json_out *out, const struct kld_table *table, bool measured)
{
	json_out_open(out, "groups", '[');
	for (size_t i = 0; i < table->n_groups; i++) {
		const struct kld_group *group = &table->groups[i];

		json_out_open(out, NULL, '{');
		json_out_text(out, "recipe", table->recipes[group->recipe].name);
		json_out_text(out, "group", group->name);
		json_out_count(out, "modules", group->n);
		json_out_count(out, "bf16_bytes", group->bf16_bytes);
		json_out_count(out, "fp8_bytes", group->fp8_bytes);
		if (measured) {
			json_out_float(out, "kld", (float)group->mean);
			json_out_float(out, "se", (float)group->se);
		}
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

static void json_recipes(struct json_out *out, const struct kld_table *table, bool measured)
{
	json_out_open(out, "recipes", '[');
	for (size_t r = 0; r < table->n_recipes; r++) {
		struct totals totals = totals_of(table, r);

		json_out_open(out, NULL, '{');
		json_out_text(out, "recipe", table->recipes[r].name);
		json_out_count(out, "groups", totals.n_groups);
		json_out_count(out, "modules", totals.n_modules);
		json_out_count(out, "unmeasured", table->recipes[r].n_unmeasured);
		json_out_count(out, "bf16_bytes", totals.bf16);
		json_out_count(out, "fp8_bytes", totals.fp8);
		if (measured)
			json_out_float(out, "kld_sum", (float)totals.kld);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}

void sensitivity_print_json(const struct sensitivity_plan *plan)
{
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "architecture", plan->model.arch->name);
	json_out_count(&out, "layers", plan->model.n_layers);
	json_recipes(&out, &plan->table, false);
	json_groups(&out, &plan->table, false);
	json_out_count(&out, "at_once", plan->n_at_once);
	json_out_count(&out, "rounds", n_rounds(plan));
	json_out_count(&out, "sequences", plan->data.n);
	json_out_count(&out, "tokens", plan->sweep.n_tokens);
	json_out_count(&out, "memory_bytes", plan->memory_bytes);
	json_out_end(&out);
}

void sensitivity_note_unmeasured(const struct sensitivity_plan *plan)
{
	for (size_t r = 0; r < plan->table.n_recipes; r++) {
		const struct kld_recipe *recipe = &plan->table.recipes[r];

		if (recipe->n_unmeasured)
			message_note("not measured: %zu %s of recipe '%s', which the forward pass "
				     "does not take as stored, for example '%s'",
				     recipe->n_unmeasured,
				     recipe->n_unmeasured == 1 ? "matrix" : "matrices",
				     recipe->name, recipe->unmeasured[0]);
	}
}

void sensitivity_report_json(const struct sensitivity_report *report)
{
	const struct sensitivity_plan *plan = report->plan;
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "output", report->params->output);
	json_recipes(&out, &plan->table, true);
	json_groups(&out, &plan->table, true);
	json_out_count(&out, "sequences", plan->data.n);
	json_out_count(&out, "tokens", plan->sweep.n_tokens);
	json_out_real(&out, "seconds", report->seconds);
	json_out_count(&out, "peak_memory_bytes", process_peak_memory());
	json_out_end(&out);
}

/* Compares divergence per byte, the largest first. */
static int compare_worth(const void *one, const void *other)
{
	const struct kld_group *a = *(const struct kld_group *const *)one;
	const struct kld_group *b = *(const struct kld_group *const *)other;
	double x = a->mean / (double)a->bf16_bytes, y = b->mean / (double)b->bf16_bytes;

	if (x != y)
		return x < y ? 1 : -1;
	return (a > b) - (a < b);
}

/* Prints the groups of a recipe that are worth most to keep. */
static void print_worst(const struct kld_table *table, size_t recipe)
{
	const struct kld_group **groups = xcalloc(table->n_groups, sizeof *groups);
	const struct totals totals = totals_of(table, recipe);
	struct table lines = { .columns = "lrrl" };
	size_t n = 0;

	for (size_t i = 0; i < table->n_groups; i++)
		if (table->groups[i].recipe == recipe)
			groups[n++] = &table->groups[i];
	sort(groups, n, sizeof *groups, compare_worth);
	fprintf(program.err, "%s: %zu groups, KLD %.6f in all; most for their size:\n",
		table->recipes[recipe].name, totals.n_groups, totals.kld);
	for (size_t i = 0; i < n && i < N_WORST; i++) {
		char kld[32], part[32];

		snprintf(kld, sizeof kld, "%.6f", groups[i]->mean);
		snprintf(part, sizeof part, "%.1f %% of bytes",
			 100 * (double)groups[i]->bf16_bytes / (double)totals.bf16);
		table_cell(&lines, groups[i]->name);
		table_cell(&lines, kld);
		table_cell(&lines, part);
		table_cell(&lines, "");
	}
	table_print(&lines, program.err, true);
	free(groups);
}

/* Prints the command that chooses by the table. */
static void print_next(const struct sensitivity_report *report)
{
	path_print_next("fp8conv sensitivity --from ", report->params->output, " --budget 10% -o ",
			"KEEP");
}

void sensitivity_report_text(const struct sensitivity_report *report)
{
	const struct sensitivity_plan *plan = report->plan;

	for (size_t r = 0; r < plan->table.n_recipes; r++)
		print_worst(&plan->table, r);
	data_print_time(report->seconds);
	path_print_output(report->params->output);
	print_next(report);
}

/* Writes "round 2 layer 19/30": how many rounds come depends on their speed. */
static void put_place(char *text, size_t size, const struct watched_groups *watched)
{
	const struct sensitivity_progress *progress = watched->progress;
	size_t layer = atomic_load(&progress->sweep.layer);
	size_t n_layers = watched->plan->model.n_layers;
	size_t round = atomic_load(&progress->round);

	if (layer > n_layers)
		snprintf(text, size, "round %zu output head", round);
	else if (layer)
		snprintf(text, size, "round %zu layer %zu/%zu", round, layer, n_layers);
}

static void groups_sample(const void *context, struct sample *sample)
{
	const struct watched_groups *watched = context;
	const struct sweep_progress *sweep = &watched->progress->sweep;
	double total = (double)atomic_load(&sweep->total);

	sample->unit = "groups";
	sample->total = total > 0 ? (double)atomic_load(&watched->progress->n_left) : 0;
	sample->done = total > 0 ? sample->total * (double)atomic_load(&sweep->done) / total : 0;
	put_place(sample->detail, sizeof sample->detail, watched);
}

/* Tokens: those that went through all layers, summed over the model and all variants. */
static void groups_json(const void *context, const struct sample *sample, const struct pace *pace,
			struct json_out *out)
{
	const struct watched_groups *watched = context;
	const struct sensitivity_progress *progress = watched->progress;
	uint64_t token = atomic_load(&progress->sweep.token);
	uint64_t total = token ? atomic_load(&progress->sweep.total) / token : 0;
	double tokens = sample->total > 0 ? (double)total / sample->total : 0; /* of a group */

	json_out_count(out, "done", (uint64_t)(sample->done * tokens));
	json_out_count(out, "total", total);
	json_out_real(out, "seconds", pace->seconds);
	json_out_real(out, "tokens_per_second", isfinite(pace->rate) ? pace->rate * tokens : 0);
	json_out_real(out, "seconds_left", pace->left);
	json_out_count(out, "round", atomic_load(&progress->round));
	json_out_count(out, "rounds", atomic_load(&progress->n_rounds));
	json_out_count(out, "layer", atomic_load(&progress->sweep.layer));
	json_out_count(out, "layers", watched->plan->model.n_layers);
	json_out_count(out, "groups",
		       atomic_load(&progress->n_measured) + atomic_load(&progress->n_groups));
	json_out_count(out, "groups_total", watched->plan->table.n_groups);
}

struct watched watch_groups(const struct watched_groups *groups)
{
	return (struct watched){ groups, groups_sample, groups_json };
}
