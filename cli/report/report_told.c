/* SPDX-License-Identifier: Apache-2.0
 *
 * What `report` says on the standard streams.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/print/json.h"
#include "cli/print/path.h"
#include "cli/program.h"
#include "cli/report/report.h"
#include "cli/print/units.h"
#include "cli/print/message.h"

#define MAX_NOTES 4

/* The note on an evaluation of a checkpoint with another name; NULL: none. */
static char *note_of_evaluation(const struct report_told *told, const char *file,
				const char *evaluated)
{
	char *name = evaluated ? report_base_name(evaluated) : NULL, *note = NULL;

	if (name && strcmp(name, told->report->name) != 0)
		note = xasprintf("'%s' is the evaluation of '%s', not of '%s'", file, evaluated,
				 told->input);
	free(name);
	return note;
}

/* Returns the number of notes, which the caller frees. */
static size_t list_notes(const struct report_told *told, char *notes[MAX_NOTES])
{
	size_t n = 0;

	if (!told->report->base_model)
		notes[n++] = xasprintf("the base model is unknown: give --source or --base-model");
	if (told->verification && told->verification->problems.n)
		notes[n++] = xasprintf("'fp8conv verify' finds %zu problem%s in '%s'",
				       told->verification->problems.n,
				       told->verification->problems.n == 1 ? "" : "s", told->input);
	notes[n] = note_of_evaluation(told, told->eval, told->report->evaluation.model);
	n += notes[n] != NULL;
	notes[n] = note_of_evaluation(told, told->lm_eval, told->report->benchmarks.model);
	n += notes[n] != NULL;
	return n;
}

void report_print_notes(const struct report_told *told)
{
	char *notes[MAX_NOTES];
	size_t n = list_notes(told, notes);

	for (size_t i = 0; i < n; i++) {
		text_sanitize(notes[i]);
		message_note("%s", notes[i]);
		free(notes[i]);
	}
}

static void json_notes(struct json_out *out, const struct report_told *told)
{
	char *notes[MAX_NOTES];
	size_t n = list_notes(told, notes);

	json_out_open(out, "notes", '[');
	for (size_t i = 0; i < n; i++) {
		json_out_text(out, NULL, notes[i]);
		free(notes[i]);
	}
	json_out_close(out, ']');
}

static void json_file(struct json_out *out, const char *name, const struct buf *text)
{
	json_out_open(out, NULL, '{');
	json_out_text(out, "name", name);
	if (text)
		json_out_count(out, "bytes", text->len);
	else
		json_out_null(out, "bytes");
	json_out_close(out, '}');
}

void report_print_json(const struct report_told *told)
{
	const struct verification *verification = told->verification;
	struct json_out out = json_out_begin(program.out);

	json_out_text(&out, "output", told->output);
	json_out_open(&out, "files", '[');
	json_file(&out, CARD_NAME, told->files ? &told->files->card : NULL);
	json_file(&out, REPORT_PAGE_NAME, told->files ? &told->files->page : NULL);
	json_out_close(&out, ']');
	json_out_text(&out, "base_model", told->report->base_model);
	json_out_count(&out, "quantized", told->counts.n_fp8);
	json_out_count(&out, "kept", told->counts.n_kept);
	if (verification)
		json_out_count(&out, "problems", verification->problems.n);
	else
		json_out_null(&out, "problems");
	if (verification && verification->n_reports) {
		json_out_open(&out, "worst", '{');
		json_out_text(&out, "tensor", verification->reports[0].name);
		json_out_real(&out, "sqnr_db", verification->reports[0].sqnr);
		json_out_close(&out, '}');
	} else {
		json_out_null(&out, "worst");
	}
	json_notes(&out, told);
	json_out_end(&out);
}

/* Prints lines that a plan and a summary share. */
static void print_facts(FILE *stream, const struct report_told *told)
{
	struct buf text = { 0 };

	fprintf(stream, "tensors    %zu FP8, %zu kept\n", told->counts.n_fp8, told->counts.n_kept);
	if (!told->report->base_model)
		return;
	buf_puts(&text, told->report->base_model);
	text_sanitize(text.data);
	fprintf(stream, "base model %s%s\n", text.data,
		strchr(text.data, '/') ? "" : " (the Hub needs --base-model ORG/NAME)");
	buf_release(&text);
}

static void print_file(FILE *stream, const struct report_told *told, const char *name,
		       const struct buf *file)
{
	struct buf text = { 0 };
	char *path = xasprintf("%s/%s", told->output, name);

	path_put(&text, path);
	if (file) {
		buf_puts(&text, ", ");
		units_size(&text, file->len);
	}
	text_sanitize(text.data);
	fprintf(stream, "output     %s\n", text.data);
	buf_release(&text);
	free(path);
}

void report_print_plan(const struct report_told *told)
{
	print_facts(program.out, told);
	if (!told->output)
		return;
	print_file(program.out, told, CARD_NAME, NULL);
	print_file(program.out, told, REPORT_PAGE_NAME, NULL);
}

void report_print_summary(const struct report_told *told)
{
	const struct verification *verification = told->verification;

	print_facts(program.err, told);
	if (verification && verification->n_reports)
		fprintf(program.err, "worst SQNR %.2f dB\n", verification->reports[0].sqnr);
	print_file(program.err, told, CARD_NAME, &told->files->card);
	print_file(program.err, told, REPORT_PAGE_NAME, &told->files->page);
	if (!strcmp(told->output, told->input))
		path_print_next("hf upload ORG/NAME ", told->output);
}
