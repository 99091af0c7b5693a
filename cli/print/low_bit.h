/* SPDX-License-Identifier: Apache-2.0
 *
 * The member "low_bit" of plans, results and verifications.
 */
#ifndef FP8CONV_CLI_PRINT_LOW_BIT_H
#define FP8CONV_CLI_PRINT_LOW_BIT_H

#include "cli/print/json.h"

/* How much is known: a plan has not read the values. */
enum low_bit_known { LOW_BIT_HEADERS, LOW_BIT_UNCOUNTED, LOW_BIT_COUNTED };

struct low_bit_shown {
	const char *kind; /* NULL: no low-bit weights, printed as null */
	uint64_t tensors, exact, values, changed;
	const char *first; /* weight with a changed value, or NULL */
	enum low_bit_known known;
};

void low_bit_print_json(struct json_out *out, const struct low_bit_shown *shown);

#endif
