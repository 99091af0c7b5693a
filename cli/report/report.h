/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `report`: a model card and a page, and what the command says of them.
 */
#ifndef FP8CONV_CLI_PRINT_REPORT_H
#define FP8CONV_CLI_PRINT_REPORT_H

#include "inspect/summary.h"
#include "report/report.h"
#include "verify/verify.h"

/* All that is known of a checkpoint. */
struct reported {
	const struct inspection *inspection;
	const struct summary *summary;
	const struct summary_values *values;
	const struct tensor_stats *stats;	 /* by tensor */
	const double *sqnr;			 /* by tensor, dB or NAN; NULL: no source */
	const struct verification *verification; /* NULL: no source */
	const struct report *report;
	const char *quantized_by;
};

/* Write the files. */
void card_print(const struct reported *reported, struct buf *out);
int page_print(const struct reported *reported, struct buf *out, struct err *err);

/* Counts of tensors: FP8 weights, and tensors in high precision but scales; and of parameters. */
struct report_counts {
	size_t n_fp8, n_kept;
	uint64_t n_parameters;
};
struct report_counts report_count(const struct summary *summary);

/* What the command says: notes on standard error; with --json one object on standard output, else
 * with --dry-run some lines there, or a summary on standard error. */
struct report_told {
	const char *input, *source, *output, *eval, *lm_eval; /* as given; NULL: not given */
	const struct report *report;
	struct report_counts counts;
	const struct verification *verification; /* NULL: no source, or a dry run */
	const struct report_files *files;	 /* NULL: a dry run */
};
void report_print_notes(const struct report_told *told);
void report_print_json(const struct report_told *told);
void report_print_plan(const struct report_told *told);
void report_print_summary(const struct report_told *told);

/* --- words that the card and the page share --- */

/* Adds what a scale of the group is for: "each 128 x 128 block", "each row". */
void report_put_tile(struct buf *out, const struct tensor_group *group);

/* Adds "BF16", "FP8 (E4M3)" or "MXFP4". */
void report_put_type(struct buf *out, const struct tensor_group *group);

/* Returns the bytes of the source's weights, as the manifest records them; 0: unknown. */
uint64_t report_source_bytes(const struct report *report);

/* Returns the version of fp8conv in the manifest; NULL without one. */
const char *report_version(const struct report *report);

/* Adds the commands that made the checkpoint and its numbers, a line each, as far as the files say
 * them. */
void report_put_commands(struct buf *out, const struct reported *reported);

/* Adds the command that serves the model by vLLM or SGLang, or the reason for which the engine does
 * not load it.  Returns whether it loads. */
bool report_put_serve(struct buf *out, const struct reported *reported, enum engine engine);

#endif
