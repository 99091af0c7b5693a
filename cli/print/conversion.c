/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/conversion.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "cli/print/plan.h"
#include "cli/print/units.h"
#include "cli/process.h"

static double bytes_per_second(const struct conversion_report *report)
{
	return report->seconds > 0 ? (double)report->bytes / report->seconds : 0;
}

/* "168 blockwise, 24 mxfp8, 81 kept" or "168 bf16, 81 kept" */
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
	units_size(text, report->plan->totals.input_bytes);
	buf_puts(text, " in, ");
	units_size(text, report->plan->totals.output_bytes);
	buf_puts(text, " out");
}

static void speed(const struct conversion_report *report, struct buf *text)
{
	units_duration(text, report->seconds);
	buf_puts(text, ", ");
	units_size(text, (uint64_t)bytes_per_second(report));
	buf_puts(text, "/s, peak memory ");
	units_memory(text, process_peak_memory());
}

void conversion_print_text(const struct conversion_report *report)
{
	const struct convert_result *result = report->result;
	struct buf text = { 0 };

	by_recipe(report->plan, &text);
	fprintf(stderr, "tensors    %s\n", text.data);
	text.len = 0;
	sizes(report, &text);
	fprintf(stderr, "size       %s\n", text.data);
	text.len = 0;
	speed(report, &text);
	fprintf(stderr, "time       %s\n", text.data);
	if (result->shards_found)
		fprintf(stderr, "files      %zu written, %zu found finished\n", result->shards_done,
			result->shards_found);
	text.len = 0;
	if (result->figures.worst) {
		buf_puts(&text, result->figures.worst);
		text_sanitize(text.data);
		fprintf(stderr, "worst SQNR %.2f dB, %s\n", result->figures.worst_sqnr, text.data);
	}
	if (result->has_figures)
		fprintf(stderr, "saturated  %" PRIu64 " values\n", result->figures.saturated);
	buf_release(&text);
}

/* What rounding did. */
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
	json_out_text(out, "tensor", figures->worst);
	if (figures->worst)
		json_out_real(out, "sqnr_db", figures->worst_sqnr);
	else
		json_out_null(out, "sqnr_db");
	json_out_close(out, '}');
}

void conversion_print_json(const struct conversion_report *report)
{
	const struct plan *plan = report->plan;
	const struct convert_result *result = report->result;
	struct json_out out = { .stream = stdout };

	json_out_open(&out, NULL, '{');
	plan_head_json(&out, plan);
	json_out_open(&out, "tensors", '{');
	json_out_count(&out, plan_done(plan), plan->totals.n_converted);
	json_out_count(&out, "kept", plan->totals.n_kept);
	json_out_close(&out, '}');
	json_out_count(&out, "input_bytes", plan->totals.input_bytes);
	json_out_count(&out, "output_bytes", plan->totals.output_bytes);
	json_out_real(&out, "seconds", report->seconds);
	json_out_count(&out, "bytes_per_second", (uint64_t)bytes_per_second(report));
	json_out_count(&out, "peak_memory_bytes", process_peak_memory());
	if (plan_quantizes(plan))
		numbers_json(&out, result);
	json_out_end(&out);
}
