/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/losses.h"

#include <math.h>
#include <unistd.h>

#include "cli/print/table.h"
#include "cli/print/wrap.h"
#include "cli/program.h"

static double percent(double part, uint64_t n)
{
	return n ? 100 * part / (double)n : NAN;
}

static double sqnr(const struct loss *loss)
{
	return loss->noise > 0 ? 10 * log10(loss->signal / loss->noise) : NAN;
}

/* Adds a number, empty where there is none. */
static void cell(struct table *table, const char *format, double value)
{
	char text[32] = "";

	if (!isnan(value))
		snprintf(text, sizeof text, format, value);
	table_cell(table, text);
}

void losses_print_text(const struct losses *losses)
{
	static const char *const headings[] = { "tensor", "values", "underflow", "overflow",
						"SQNR" };
	static const char *const choices[] = { "xxxxx", "x-xxx", NULL };
	const bool terminal = program_on_terminal(STDOUT_FILENO);
	struct table table = { .columns = "lrrrr" };

	for (size_t i = 0; terminal && i < sizeof headings / sizeof *headings; i++)
		table_cell(&table, headings[i]);
	for (size_t i = 0; i < losses->n; i++) {
		const struct loss *loss = &losses->list[i];

		table_cell(&table, loss->name);
		table_cell_number(&table, loss->n);
		cell(&table, terminal ? "%.3f %%" : "%.9g", percent(loss->underflow, loss->n));
		cell(&table, terminal ? "%.3f %%" : "%.9g", percent(loss->overflow, loss->n));
		cell(&table, terminal ? "%.2f dB" : "%.9g", sqnr(loss));
	}
	if (terminal)
		table_fit(&table, choices, wrap_columns(STDOUT_FILENO));
	table_print(&table, program.out, terminal);
}

void losses_print_json(struct json_out *out, const struct losses *losses)
{
	json_out_text(out, "loss_recipe", losses->recipe);
	json_out_open(out, "losses", '[');
	for (size_t i = 0; i < losses->n; i++) {
		const struct loss *loss = &losses->list[i];

		json_out_open(out, NULL, '{');
		json_out_text(out, "name", loss->name);
		json_out_count(out, "values", loss->n);
		json_out_real(out, "underflow_percent", percent(loss->underflow, loss->n));
		json_out_real(out, "overflow_percent", percent(loss->overflow, loss->n));
		json_out_real(out, "sqnr_db", sqnr(loss));
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
}
