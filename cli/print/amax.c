/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/amax.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/print/table.h"
#include "cli/print/wrap.h"
#include "cli/program.h"

static const char *const columns[][3] = {
	[AMAX_GEMM] = { "x", "w", "y" },
	[AMAX_ATTENTION] = { "q", "k", "v" },
};

static void find_maximum(const struct amax_site *site, float max[3])
{
	for (int column = 0; column < 3; column++)
		max[column] = 0;
	for (size_t pass = 0; pass < site->n_passes; pass++)
		for (int column = 0; column < 3; column++)
			if (site->history[pass][column] > max[column])
				max[column] = site->history[pass][column];
}

static uint64_t sum_tokens(const struct amax_site *site)
{
	uint64_t n = 0;

	for (size_t pass = 0; pass < site->n_passes; pass++)
		n += (uint64_t)site->tokens[pass];
	return n;
}

/* People read four digits; programs get nine, which keep every bit. */
static void add_magnitudes(struct table *table, const float *amax, bool terminal)
{
	for (int column = 0; column < 3; column++) {
		char text[32] = "";

		if (amax)
			snprintf(text, sizeof text, terminal ? "%.4g" : "%.9g",
				 (double)amax[column]);
		table_cell(table, text);
	}
}

static void print_head(struct table *table, const struct amax_stats *stats)
{
	static const char *const heading[] = { "module", "passes",	"tokens", "x, q", "w, k",
					       "y, v",	 "latest x, q", "w, k",	  "y, v" };
	struct buf made = { 0 };

	if (stats->rank.n)
		fprintf(program.out,
			"share of rank %llu of %llu: "
			"'fp8conv merge --ranks' joins the files of all\n",
			(unsigned long long)stats->rank.index, (unsigned long long)stats->rank.n);
	buf_printf(&made, "%s, %s", stats->precision, stats->backend);
	text_sanitize(made.data);
	fprintf(program.out,
		"amax history of model %s\n%llu passes, %llu tokens in sequences of %llu at most, "
		"%s\ndata %016llx%016llx\n\n",
		stats->model, (unsigned long long)stats->n_passes,
		(unsigned long long)stats->n_tokens, (unsigned long long)stats->seq_len, made.data,
		(unsigned long long)stats->data[0], (unsigned long long)stats->data[1]);
	buf_release(&made);
	for (size_t i = 0; i < sizeof heading / sizeof *heading; i++)
		table_cell(table, heading[i]);
}

void amax_print_text(const struct amax_stats *stats, bool terminal)
{
	static const char *const choices[] = { "xxxxxxxxx", "xxxxxx---", "x--xxx---", NULL };
	struct table table = { .columns = "lrrrrrrrr" };

	if (terminal)
		print_head(&table, stats);
	for (size_t i = 0; i < stats->n_sites; i++) {
		const struct amax_site *site = stats->sites[i];
		float max[3];

		find_maximum(site, max);
		table_cell(&table, site->name);
		table_cell_number(&table, site->n_passes);
		table_cell_number(&table, sum_tokens(site));
		add_magnitudes(&table, site->n_passes ? max : NULL, terminal);
		add_magnitudes(&table, site->n_passes ? site->history[site->n_passes - 1] : NULL,
			       terminal);
	}
	if (terminal)
		table_fit(&table, choices, wrap_columns(STDOUT_FILENO));
	table_print(&table, program.out, terminal);
}

static void site_json(struct json_out *out, const struct amax_site *site)
{
	json_out_open(out, NULL, '{');
	json_out_text(out, "name", site->name);
	json_out_text(out, "kind", site->kind == AMAX_GEMM ? "module" : "attention");
	json_out_count(out, "passes", site->n_passes);
	json_out_count(out, "tokens", sum_tokens(site));
	json_out_bool(out, "histogram", site->histogram != NULL);
	json_out_open(out, "history", '{');
	for (int column = 0; column < 3; column++) {
		json_out_open(out, columns[site->kind][column], '[');
		for (size_t pass = 0; pass < site->n_passes; pass++)
			json_out_float(out, NULL, site->history[pass][column]);
		json_out_close(out, ']');
	}
	json_out_open(out, "tokens", '[');
	for (size_t pass = 0; pass < site->n_passes; pass++)
		json_out_count(out, NULL, (uint64_t)site->tokens[pass]);
	json_out_close(out, ']');
	json_out_close(out, '}');
	json_out_close(out, '}');
}

void amax_print_json(struct json_out *out, const struct amax_stats *stats)
{
	char rank[48];

	json_out_text(out, "model", stats->model);
	json_out_text(out, "precision", stats->precision);
	json_out_text(out, "backend", stats->backend);
	if (stats->rank.n) {
		snprintf(rank, sizeof rank, "%llu/%llu", (unsigned long long)stats->rank.index,
			 (unsigned long long)stats->rank.n);
		json_out_text(out, "rank", rank);
	}
	json_out_count(out, "passes", stats->n_passes);
	json_out_count(out, "tokens", stats->n_tokens);
	json_out_count(out, "seq_len", stats->seq_len);
	json_out_count(out, "amax_history_len", stats->history_len);
	json_out_open(out, "sites", '[');
	for (size_t i = 0; i < stats->n_sites; i++)
		site_json(out, stats->sites[i]);
	json_out_close(out, ']');
}
