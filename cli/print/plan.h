/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a command that writes a checkpoint, and the words that its report shares.
 */
#ifndef FP8CONV_CLI_PRINT_PLAN_H
#define FP8CONV_CLI_PRINT_PLAN_H

#include <stdbool.h>

#include "cli/print/json.h"
#include "convert/convert.h"

/* --dry-run, on standard output. */
void plan_print_text(const struct plan *plan, const struct convert_params *params);
void plan_print_json(const struct plan *plan, const struct convert_params *params,
		     const struct output_notes *notes);

/* The notes of a selection, and (unless NULL) of an output, one line each: on standard error
 * (cautions where they are asked for), and as the member "notes". */
void notes_print(const char *command, const struct selection *selection,
		 const struct output_notes *output, bool cautions);
void notes_json(struct json_out *out, const struct selection *selection,
		const struct output_notes *output);

/* Whether numbers are rounded to codes; else codes are kept or become values. */
bool plan_quantizes(const struct plan *plan);

/* What was done to tensors: "quantized". */
const char *plan_done(const struct plan *plan);

/* What is made: recipe and format, or the type of values. */
void plan_head_json(struct json_out *out, const struct plan *plan);

#endif
