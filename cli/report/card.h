/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a model card.
 */
#ifndef FP8CONV_CLI_PRINT_CARD_H
#define FP8CONV_CLI_PRINT_CARD_H

#include "cli/report/report.h"

/* Adds the table of components: FP8 weights by the module that has them, others by the reason for
 * which they are kept. */
void card_put_precision(struct buf *out, const struct summary *summary);

#endif
