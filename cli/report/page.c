/* SPDX-License-Identifier: Apache-2.0
 *
 * The page of a report: one file without a network, which can be read without its script.
 */
#include "cli/report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/print/units.h"
#include "report/escape.h"
#include "source/fp8_source.h"

void page_open(struct buf *out, const char *id, const char *heading)
{
	buf_printf(out, "<section id=\"%s\" aria-labelledby=\"%s-h\">\n<h2 id=\"%s-h\">%s</h2>\n",
		   id, id, id, heading);
}

void page_close(struct buf *out)
{
	buf_puts(out, "</section>\n");
}

void page_put_real(struct buf *out, double value, int digits)
{
	if (isnan(value))
		buf_puts(out, "–");
	else if (isinf(value))
		buf_puts(out, value > 0 ? "exact" : "none");
	else
		buf_printf(out, "%.*f", digits, value);
}

void page_put_share(struct buf *out, uint64_t n, uint64_t total)
{
	double share = total ? 100 * (double)n / (double)total : 0;

	if (n && share < 0.0005)
		buf_puts(out, "&lt;0.001 %");
	else
		buf_printf(out, "%.3f %%", share);
}

void page_put_module(struct buf *out, const char *pattern)
{
	char *module = xstrndup(pattern, module_len(pattern));

	escape_html(out, module);
	free(module);
}

/* --- overview --- */

/* Adds a fact: a number, and what it is of. */
static void open_fact(struct buf *out, const char *name)
{
	buf_printf(out, "<div><dt>%s</dt><dd>", name);
}

static void close_fact(struct buf *out)
{
	buf_puts(out, "</dd></div>\n");
}

static void put_sizes(struct buf *out, const struct reported *reported)
{
	const struct checkpoint *checkpoint = &reported->inspection->checkpoint;
	const struct report_counts counts = report_count(reported->summary);
	uint64_t n = 0;

	for (size_t g = 0; g < reported->summary->n; g++)
		n += reported->summary->groups[g].n_parameters;
	open_fact(out, "FP8 weights");
	buf_printf(out, "%zu", counts.n_fp8);
	close_fact(out);
	open_fact(out, "tensors kept");
	buf_printf(out, "%zu", counts.n_kept);
	close_fact(out);
	open_fact(out, "size");
	units_size(out, checkpoint->data_bytes);
	close_fact(out);
	open_fact(out, "bits a parameter");
	page_put_real(out, n ? 8 * (double)checkpoint->data_bytes / (double)n : NAN, 2);
	close_fact(out);
}

static void put_qualities(struct buf *out, const struct reported *reported)
{
	const struct verification *verification = reported->verification;
	const struct report *report = reported->report;

	if (verification && verification->n_reports) {
		open_fact(out, "lowest SQNR of a weight");
		page_put_real(out, verification->reports[0].sqnr, 2);
		buf_puts(out, isfinite(verification->reports[0].sqnr) ? " dB" : "");
		close_fact(out);
	}
	if (verification) {
		open_fact(out, "problems that verify finds");
		buf_printf(out, "%zu", verification->problems.n);
		close_fact(out);
	}
	if (!report->has_evaluation)
		return;
	open_fact(out, "perplexity");
	page_put_real(out, report->evaluation.of[QUALITY_PERPLEXITY].value, 4);
	close_fact(out);
	if (!report->evaluation.compared)
		return;
	open_fact(out, "mean KLD");
	page_put_real(out, report->evaluation.of[QUALITY_KLD].value, 5);
	close_fact(out);
}

static void put_lead(struct buf *out, const struct reported *reported)
{
	const struct detection *detection = &reported->inspection->detection;
	const struct report *report = reported->report;

	buf_puts(out, "<p>");
	if (report->base_model) {
		buf_puts(out, "<code>");
		escape_html(out, report->base_model);
		buf_puts(out, "</code> in FP8");
	} else {
		buf_puts(out, "A model in FP8");
	}
	if (detection->format) {
		buf_puts(out, ": recipe <code>");
		escape_html(out, fp8_source_recipe(detection));
		buf_puts(out, "</code>, format <code>");
		escape_html(out, detection->format);
		buf_puts(out, "</code>");
	}
	if (report_version(report)) {
		buf_puts(out, ", made by fp8conv ");
		escape_html(out, report_version(report));
	}
	buf_puts(out, ".</p>\n");
}

void page_put_overview(struct buf *out, const struct reported *reported)
{
	struct buf commands = { 0 };

	page_open(out, "overview", "Overview");
	put_lead(out, reported);
	buf_puts(out, "<dl class=\"facts\">\n");
	put_sizes(out, reported);
	put_qualities(out, reported);
	buf_puts(out, "</dl>\n");
	report_put_commands(&commands, reported);
	if (!report_version(reported->report))
		buf_puts(out, "<p>The checkpoint has no record of its conversion: its commands "
			      "are unknown.</p>\n");
	if (commands.len) {
		buf_puts(out, "<pre tabindex=\"0\">");
		for (char *line = commands.data, *end; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			escape_html(out, line);
			buf_putc(out, '\n');
		}
		buf_puts(out, "</pre>\n");
	}
	buf_release(&commands);
	page_close(out);
}

/* --- the page --- */

static void put_head(struct buf *out, const struct report *report)
{
	buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		      "<meta name=\"color-scheme\" content=\"light dark\">\n"
		      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>");
	escape_html(out, report->name);
	buf_puts(out, ": FP8 report</title>\n<style>\n");
	buf_puts(out, page_style);
	buf_puts(out, "</style>\n</head>\n<body>\n<header><h1>");
	escape_html(out, report->name);
	buf_puts(out, "</h1>\n");
}

static void put_navigation(struct buf *out, const struct report *report)
{
	const struct {
		const char *id, *name;
		bool shown;
	} links[] = {
		{ "overview", "Overview", true },
		{ "sqnr", "SQNR", true },
		{ "codes", "Codes and scales", true },
		{ "evaluation", "Evaluation", report->has_evaluation },
		{ "layers", "Modules", report->has_evaluation && report->evaluation.n_modules },
		{ "calibration", "Calibration", report->has_curves },
		{ "kept", "Kept tensors", true },
		{ "tensors", "All tensors", true },
	};

	buf_puts(out, "<nav aria-label=\"Sections\">");
	for (size_t i = 0; i < sizeof links / sizeof *links; i++)
		if (links[i].shown)
			buf_printf(out, "<a href=\"#%s\">%s</a> ", links[i].id, links[i].name);
	buf_puts(out, "</nav></header>\n<main>\n");
}

void page_print(const struct reported *reported, struct buf *out)
{
	put_head(out, reported->report);
	put_navigation(out, reported->report);
	page_put_overview(out, reported);
	page_put_sqnr(out, reported);
	page_put_codes(out, reported);
	page_put_evaluation(out, reported);
	page_put_layers(out, reported);
	page_put_calibration(out, reported);
	page_put_kept(out, reported);
	page_put_tensors(out, reported);
	buf_puts(out, "</main>\n<footer><p>Written by fp8conv " FP8CONV_VERSION ".</p></footer>\n"
		      "</body>\n</html>\n");
}
