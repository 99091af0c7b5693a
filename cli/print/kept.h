/* SPDX-License-Identifier: Apache-2.0
 *
 * The groups that `quantize --keep` leaves in high precision.
 */
#ifndef FP8CONV_CLI_PRINT_KEPT_H
#define FP8CONV_CLI_PRINT_KEPT_H

#include <stdio.h>

#include "cli/print/json.h"
#include "plan/plan.h"

/* Prints their number, their part of the bytes and the predicted divergence in a line, which begins
 * with a word in a column of this width; nothing without that option. */
void kept_print_text(FILE *stream, int width, const struct plan *plan);

/* Adds the member "keep", if that option was given. */
void kept_print_json(struct json_out *out, const struct plan *plan);

#endif
