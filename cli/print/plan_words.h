/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that the plan and the report share.
 */
#ifndef FP8CONV_CLI_PRINT_PLAN_WORDS_H
#define FP8CONV_CLI_PRINT_PLAN_WORDS_H

#include <stdbool.h>

#include "cli/print/json.h"
#include "convert/convert.h"

/* Whether numbers are rounded to codes; else codes are kept or become values. */
bool plan_quantizes(const struct plan *plan);

/* What was done to tensors: "quantized". */
const char *plan_done(const struct plan *plan);

/* What is made: recipe and format, or the type of values. */
void plan_head_json(struct json_out *out, const struct plan *plan);

#endif
