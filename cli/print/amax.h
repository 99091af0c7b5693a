/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `inspect` for an amax file, fp8conv-amax(5).
 */
#ifndef FP8CONV_CLI_PRINT_AMAX_H
#define FP8CONV_CLI_PRINT_AMAX_H

#include <stdbool.h>

#include "amax/amax.h"
#include "cli/print/json.h"

/* Prints a line for each module: passes and tokens, the maxima of the history, the latest pass.  On
 * a terminal in columns with headings. */
void amax_print_text(const struct amax_stats *stats, bool terminal);

/* Adds the members "model", ..., "sites" to the open object. */
void amax_print_json(struct json_out *out, const struct amax_stats *stats);

#endif
