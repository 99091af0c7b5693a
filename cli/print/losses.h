/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `inspect --recipe`: what a recipe loses of the values of each tensor.
 */
#ifndef FP8CONV_CLI_PRINT_LOSSES_H
#define FP8CONV_CLI_PRINT_LOSSES_H

#include <stddef.h>
#include <stdint.h>

#include "cli/print/json.h"

/* The loss of one tensor. */
struct loss {
	const char *name;
	uint64_t n;		    /* values */
	double underflow, overflow; /* of these: values that become 0; values beyond the largest */
	double signal, noise;	    /* SQNR = 10 log10(signal / noise) dB */
};

/* All of them, by one recipe.  Begins zeroed. */
struct losses {
	const char *recipe;
	size_t n;
	struct loss *list;
};

/* Prints a table: on a terminal aligned, with headings; in a pipe with tabs. */
void losses_print_text(const struct losses *losses);

/* Adds the members "loss_recipe" and "losses" to the open object. */
void losses_print_json(struct json_out *out, const struct losses *losses);

#endif
