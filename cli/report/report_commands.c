/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that made a checkpoint, from its manifest: the options whose values are not the
 * defaults, under the names of their models.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/print/job_options.h"
#include "cli/print/path.h"
#include "cli/report/report.h"
#include "report/escape.h"

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static uint64_t count_of(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 ? (uint64_t)n : 0;
}

/* Adds the options of compensated rounding, if the job has them; "DATA" stands for each file. */
static void put_rounding(struct buf *out, const json_t *rounding)
{
	uint64_t n_sequences = count_of(rounding, "sequences"),
		 n_tokens = count_of(rounding, "tokens");
	const json_t *shrink = json_object_get(rounding, "shrink");
	size_t n_domains = json_array_size(json_object_get(rounding, "domains"));

	if (!json_is_object(rounding))
		return;
	buf_puts(out, " --rounding compensated --data DATA");
	for (size_t domain = 1; domain < n_domains && domain < 16; domain++)
		buf_puts(out, " --data DATA");
	if (n_sequences && n_tokens % n_sequences == 0 && n_tokens / n_sequences != 512)
		buf_printf(out, " --seq-len %" PRIu64, n_tokens / n_sequences);
	if (n_sequences)
		buf_printf(out, " --passes %" PRIu64, n_sequences);
	if (json_is_number(shrink))
		buf_printf(out, " --shrink %g", json_number_value(shrink));
}

static void put_conversion(struct buf *out, const struct report *report, const char *source)
{
	static const char *const forms[] = { "recipe", "format", "dtype" };
	const char *command = text_of(report->manifest, "command");
	const json_t *options = json_object_get(report->manifest, "options");

	if (!report_version(report) || !command)
		return;
	buf_puts(out, "fp8conv ");
	path_put(out, command);
	buf_putc(out, ' ');
	path_put(out, source);
	buf_puts(out, " -o ");
	path_put(out, report->name);
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
		if (text_of(options, forms[i]))
			job_option_put(out, forms[i], text_of(options, forms[i]));
	job_options_put(out, options, "S.amax");
	put_rounding(out, json_object_get(options, "rounding"));
	if (json_object_get(options, "tensors") || json_object_get(options, "keep"))
		buf_puts(out, " --tensors KEEP");
}

static void put_eval(struct buf *out, const struct report *report, const char *source)
{
	const struct evaluation_file *evaluation = &report->evaluation;
	const json_t *options = json_object_get(report->manifest, "options");
	const json_t *renames = json_object_get(options, "rename"), *rename;
	size_t i;

	buf_puts(out, "fp8conv eval ");
	path_put(out, report->name);
	if (evaluation->compared) {
		job_option_put(out, "source", source);
		json_array_foreach(renames, i, rename)
			job_option_put(out, "rename", json_string_value(rename));
	}
	for (i = 0; i < evaluation->n_data; i++) {
		char *name = report_base_name(evaluation->data[i]);

		job_option_put(out, "data", name);
		free(name);
	}
	if (!evaluation->n_data)
		job_option_put(out, "data", "DATA");
	if (evaluation->seq_len != 512)
		buf_printf(out, " --seq-len %llu", (unsigned long long)evaluation->seq_len);
	buf_printf(out, " --passes %llu", (unsigned long long)evaluation->sequences);
	if (evaluation->activations && strcmp(evaluation->activations, "engine") != 0)
		job_option_put(out, "activations", evaluation->activations);
	if (evaluation->precision && strcmp(evaluation->precision, "bf16") != 0)
		job_option_put(out, "precision", evaluation->precision);
	buf_puts(out, " --json");
}

/* Adds a command as a line, which nothing in it can end. */
static void put_line(struct buf *out, struct buf *command)
{
	if (command->len) {
		escape_line(out, command->data);
		buf_putc(out, '\n');
	}
	buf_release(command);
}

void report_put_commands(struct buf *out, const struct reported *reported)
{
	const struct report *report = reported->report;
	char *source = report->base_model ? report_base_name(report->base_model) : xstrdup("MODEL");
	struct buf conversion = { 0 }, eval = { 0 };

	put_conversion(&conversion, report, source);
	put_line(out, &conversion);
	if (report->has_evaluation)
		put_eval(&eval, report, source);
	put_line(out, &eval);
	free(source);
}
