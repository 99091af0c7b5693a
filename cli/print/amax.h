/* SPDX-License-Identifier: Apache-2.0
 *
 * `inspect` of an amax history: fp8conv-amax(5).
 */
#ifndef FP8CONV_CLI_PRINT_AMAX_H
#define FP8CONV_CLI_PRINT_AMAX_H

#include <stdbool.h>

#include "amax/amax.h"
#include "cli/print/json.h"

/* A line for each module: passes and tokens, the maxima of the history, the latest pass; on a
 * terminal in columns, with a heading. */
void amax_print_text(const struct amax_stats *stats, bool terminal);

/* The members "model", ..., "sites" of the object that is open. */
void amax_print_json(struct json_out *out, const struct amax_stats *stats);

#endif
