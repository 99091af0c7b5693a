/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/choice.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "cli/print/job_options.h"
#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/print/table.h"
#include "cli/program.h"

/* Returns the divergence that a set saves for each byte. */
static double worth_of(const struct choice_set *set)
{
	const struct knapsack_option *from = &set->options[0], *to = &set->options[set->chosen];
	int64_t n_bytes = to->n_bytes - from->n_bytes;

	return n_bytes > 0 ? (from->kld - to->kld) / (double)n_bytes : INFINITY;
}

/* Sorts the largest first; equal ones stay in the order of the table. */
static int compare_worth(const void *one, const void *other)
{
	double x = worth_of(*(const struct choice_set *const *)one);
	double y = worth_of(*(const struct choice_set *const *)other);

	return (x < y) - (x > y);
}

/* Returns the sets that change, which the caller frees. */
static const struct choice_set **sorted_sets(const struct choice *choice, size_t *n)
{
	const struct choice_set **sets = xcalloc(choice->n + 1, sizeof *sets);

	*n = 0;
	for (size_t s = 0; s < choice->n; s++)
		if (choice->sets[s].chosen)
			sets[(*n)++] = &choice->sets[s];
	sort(sets, *n, sizeof *sets, compare_worth);
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
	table_release(&lines);
	free(sets);
	choice_say(choice, &text);
	fprintf(stream, "%s\n", text.data);
	buf_release(&text);
}

void choice_print_json(const struct choice *choice, const char *output)
{
	struct json_out out = { .stream = program.out };
	size_t n;
	const struct choice_set **sets = sorted_sets(choice, &n);

	json_out_begin(&out);
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
	job_option_put(&text, "tensors", output);
	path_print_next(text.data);
	buf_release(&text);
}
