/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the plan of a command that writes a checkpoint, and the words that its report shares.
 */
#ifndef FP8CONV_CLI_PRINT_PLAN_H
#define FP8CONV_CLI_PRINT_PLAN_H

#include <stdbool.h>

#include "cli/print/json.h"
#include "execute/execute.h"

/* Print the plan (--dry-run) on standard output.  since: the base of a delta, which has no size
 * yet; or NULL. */
void plan_print_text(const struct plan *plan, const struct convert_params *params,
		     const char *since);
void plan_print_json(const struct plan *plan, const struct convert_params *params);

/* Print notes: one line each on standard error (that on kernels only if on_kernels), or as the
 * member "notes". */
void notes_print(const struct notes *notes, bool on_kernels);
void notes_json(struct json_out *out, const struct notes *notes);

/* Does the plan round numbers to codes?  Other plans keep codes or dequantize them. */
bool plan_quantizes(const struct plan *plan);

/* Returns the verb for converted tensors: "quantized". */
const char *plan_done(const struct plan *plan);

/* Adds the result's recipe and format, or the type of its values. */
void plan_head_json(struct json_out *out, const struct plan *plan);

#endif
