/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/conversion.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/print/low_bit.h"
#include "cli/print/path.h"
#include "cli/print/plan.h"
#include "cli/print/units.h"
#include "cli/process.h"
#include "cli/program.h"

static double bytes_per_second(const struct conversion_report *report)
{
	return report->seconds > 0 ? (double)report->bytes / report->seconds : 0;
}

/* Adds "168 blockwise, 24 mxfp8, 81 kept" or "168 bf16, 81 kept". */
static void by_recipe(const struct plan *plan, struct buf *text)
{
	for (size_t r = 0; recipes[r]; r++) {
		size_t n = 0;

		for (size_t u = 0; u < plan->selection.n_units; u++)
			n += plan->selection.units[u].recipe == recipes[r];
		if (n)
			buf_printf(text, "%s%zu %s", text->len ? ", " : "", n, recipes[r]->name);
	}
	if (plan->dtype)
		buf_printf(text, "%zu %s", plan->totals.n_converted, plan->dtype);
	buf_printf(text, ", %zu kept", plan->totals.n_kept);
}

static void sizes(const struct conversion_report *report, struct buf *text)
{
	const struct plan_totals *totals = &report->plan->totals;

	units_size(text, totals->input_bytes);
	buf_puts(text, " in, ");
	units_size(text, totals->output_bytes);
	buf_puts(text, " out");
	if (totals->input_bytes)
		buf_printf(text, " (%.0f %%)",
			   100 * (double)totals->output_bytes / (double)totals->input_bytes);
}

static void speed(const struct conversion_report *report, struct buf *text)
{
	units_duration(text, report->seconds);
	if (report->bytes) {
		buf_puts(text, ", ");
		units_size(text, (uint64_t)bytes_per_second(report));
		buf_puts(text, "/s");
	}
	buf_puts(text, ", peak memory ");
	units_memory(text, process_peak_memory());
}

/* Prints the next command for the result; for a part, the command that ends the job. */
static void print_next(const struct conversion_report *report)
{
	const struct convert_params *params = report->params;
	bool has_source = plan_quantizes(report->plan) && strcmp(params->input, "-") != 0;
	enum engine target = report->plan->target;

	if (!report->result->complete) {
		fputs("next       run the other parts; the last one completes the output\n",
		      program.err);
		return;
	}
	if (!report->plan->dtype)
		path_print_next_of(has_source ? &params->renames : NULL, "fp8conv verify ",
				   params->output, " --source ", has_source ? params->input : NULL,
				   " --target ", target != ENGINE_ANY ? engine_name(target) : NULL);
}

static void print_low_bit(const struct conversion_report *report)
{
	struct low_bit_totals totals = low_bit_total(report->plan);

	if (totals.n && report->result->has_figures && report->plan->recipe)
		fprintf(program.err, "low-bit    %zu of %zu tensors are exact\n",
			totals.n - report->result->figures.n_inexact, totals.n);
}

/* Are codes not the nearest, so that the error of weights is larger and that of outputs smaller? */
static bool is_compensated(const struct conversion_report *report)
{
	return report->plan->rounding && !report->result->rounding.is_nearest;
}

/* Prints what compensated rounding did, if this run did it. */
static void print_rounding(const struct conversion_report *report)
{
	const struct plan_rounding *planned = report->plan->rounding;
	const struct store_outcome *outcome = &report->result->rounding;
	const struct figures *figures = &report->result->figures;

	if (!planned || !report->result->shards_done)
		return;
	if (outcome->is_nearest)
		fputs("rounding   to nearest: no shrink that was tried is closer to the source\n",
		      program.err);
	else
		fprintf(program.err,
			"rounding   compensated, shrink %.3g: %.1f %% of codes are not the "
			"nearest\n",
			(double)planned->plan.rhos[outcome->rho],
			100 * (double)figures->n_moved / (double)figures->n_compensated);
	if (outcome->measured)
		fprintf(program.err,
			"KLD        %.5f on %zu held-out sequence%s (to nearest %.5f; weights "
			"only)\n",
			outcome->kld[outcome->rho], planned->plan.n_held_out,
			planned->plan.n_held_out == 1 ? "" : "s", outcome->nearest_kld);
	if (planned->plan.n_outside)
		fprintf(program.err,
			"           to nearest: %zu tensors outside of the forward pass\n",
			planned->plan.n_outside);
	if (outcome->counts.n_few)
		fprintf(program.err,
			"           to nearest: %" PRIu64 " matrices with too few tokens\n",
			outcome->counts.n_few);
	if (outcome->counts.n_raised)
		fprintf(program.err, "           shrink was raised for %" PRIu64 " matrices\n",
			outcome->counts.n_raised);
}

void conversion_print_text(const struct conversion_report *report)
{
	const struct convert_result *result = report->result;
	struct buf text = { 0 };

	by_recipe(report->plan, &text);
	fprintf(program.err, "tensors    %s\n", text.data);
	text.len = 0;
	sizes(report, &text);
	fprintf(program.err, "size       %s\n", text.data);
	text.len = 0;
	speed(report, &text);
	fprintf(program.err, "time       %s\n", text.data);
	if (report->params->part)
		fprintf(program.err, "part       %d of %d\n", report->params->part,
			report->params->n_parts);
	if (result->shards_found)
		fprintf(program.err, "files      %zu written, %zu already finished\n",
			result->shards_done, result->shards_found);
	print_rounding(report);
	text.len = 0;
	if (result->has_figures && result->figures.worst) {
		buf_puts(&text, result->figures.worst);
		text_sanitize(text.data);
		fprintf(program.err, "worst SQNR %.2f dB, %s%s\n", result->figures.worst_sqnr,
			text.data, is_compensated(report) ? " (lower by intention)" : "");
	}
	if (result->has_figures)
		fprintf(program.err, "saturated  %" PRIu64 " values\n", result->figures.saturated);
	print_low_bit(report);
	if (plan_quantizes(report->plan) &&
	    destination_of(report->params->output) == DESTINATION_FILE)
		fputs("config     none: a directory as output gets the config.json with the "
		      "quantization_config\n",
		      program.err);
	if (destination_of(report->params->output) != DESTINATION_STREAM) {
		path_print_output(report->params->output);
		print_next(report);
	}
	buf_release(&text);
}

void conversion_ended(const struct conversion_report *report, struct err *err)
{
	const struct convert_params *params = report->params;
	const struct convert_result *result = report->result;
	size_t n = destination_of(params->output) == DESTINATION_DIRECTORY
			   ? result->shards_done + result->shards_found
			   : 0;
	bool layers = !n && result->stages_done;
	struct err reason = *err;

	if (n || layers)
		err_set(err, reason.kind, "%s: %zu of %zu %s: run the same command%s to continue",
			reason.message, layers ? result->stages_done : n,
			layers ? report->plan->rounding->plan.n_stages : report->plan->n_shards,
			layers ? "layers are rounded" : "files are finished",
			params->restart ? " without --restart" : "");
	else if (reason.kind == ERR_INTERRUPTED)
		err_set(err, reason.kind, "%s: nothing was written", reason.message);
	err->follows = reason.follows;
}

/* Prints the effect of rounding, if this run wrote all files. */
static void numbers_json(struct json_out *out, const struct convert_result *result)
{
	const struct figures *figures = &result->figures;

	if (result->has_figures) {
		json_out_count(out, "saturated", figures->saturated);
		json_out_count(out, "nonfinite", figures->nonfinite);
	} else {
		json_out_null(out, "saturated");
		json_out_null(out, "nonfinite");
	}
	json_out_open(out, "worst", '{');
	json_out_text(out, "tensor", result->has_figures ? figures->worst : NULL);
	if (result->has_figures && figures->worst)
		json_out_real(out, "sqnr_db", figures->worst_sqnr);
	else
		json_out_null(out, "sqnr_db");
	json_out_close(out, '}');
}

/* Prints what FP8 holds of low-bit weights, likewise. */
static void low_bit_json(struct json_out *out, const struct conversion_report *report)
{
	const struct convert_result *result = report->result;
	struct low_bit_totals totals = low_bit_total(report->plan);

	low_bit_print_json(
		out, &(struct low_bit_shown){
			     .kind = totals.kind,
			     .tensors = totals.n,
			     .exact = totals.n - result->figures.n_inexact,
			     .values = totals.n_values,
			     .changed = result->figures.n_changed,
			     .first = result->has_figures ? result->figures.inexact : NULL,
			     .known = result->has_figures ? LOW_BIT_COUNTED : LOW_BIT_UNCOUNTED });
}

static void rounding_json(struct json_out *out, const struct conversion_report *report)
{
	const struct plan_rounding *planned = report->plan->rounding;
	const struct store_outcome *outcome = &report->result->rounding;

	if (!planned)
		return;
	if (!json_out_object(out, "rounding", report->result->shards_done))
		return;
	json_out_text(out, "rounding", outcome->is_nearest ? "nearest" : "compensated");
	json_out_real(out, "shrink",
		      outcome->is_nearest ? NAN : (double)planned->plan.rhos[outcome->rho]);
	json_out_count(out, "codes", report->result->figures.n_compensated);
	json_out_count(out, "not_nearest", report->result->figures.n_moved);
	json_out_real(out, "kld", outcome->measured ? outcome->kld[outcome->rho] : NAN);
	json_out_real(out, "nearest_kld", outcome->measured ? outcome->nearest_kld : NAN);
	json_out_count(out, "held_out_sequences", planned->plan.n_held_out);
	json_out_count(out, "outside", planned->plan.n_outside);
	json_out_count(out, "few_tokens", outcome->counts.n_few);
	json_out_count(out, "raised", outcome->counts.n_raised);
	json_out_close(out, '}');
}

void conversion_print_json(const struct conversion_report *report)
{
	const struct plan *plan = report->plan;
	const struct convert_result *result = report->result;
	struct json_out out = json_out_begin(program.out);

	plan_head_json(&out, plan);
	json_out_text(&out, "output", report->params->output);
	json_out_open(&out, "tensors", '{');
	json_out_count(&out, plan_done(plan), plan->totals.n_converted);
	json_out_count(&out, "kept", plan->totals.n_kept);
	json_out_close(&out, '}');
	json_out_count(&out, "input_bytes", plan->totals.input_bytes);
	json_out_count(&out, "output_bytes", plan->totals.output_bytes);
	json_out_real(&out, "seconds", report->seconds);
	json_out_count(&out, "bytes_per_second", (uint64_t)bytes_per_second(report));
	json_out_count(&out, "peak_memory_bytes", process_peak_memory());
	json_out_count(&out, "files_written", result->shards_done);
	json_out_count(&out, "files_found", result->shards_found);
	json_out_bool(&out, "resumed", result->shards_found > 0);
	if (plan_quantizes(plan)) {
		numbers_json(&out, result);
		low_bit_json(&out, report);
		rounding_json(&out, report);
	}
	notes_json(&out, &plan->selection.notes);
	json_out_end(&out);
}
