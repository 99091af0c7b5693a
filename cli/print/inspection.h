/* SPDX-License-Identifier: Apache-2.0
 *
 * What `inspect` tells of a checkpoint.
 */
#ifndef FP8CONV_CLI_PRINT_INSPECTION_H
#define FP8CONV_CLI_PRINT_INSPECTION_H

#include "inspect/inspect.h"
#include "inspect/stats.h"

/* What is shown: stats by tensor, NULL unless asked for. */
struct shown {
	const struct inspection *inspection;
	const struct tensor_stats *stats;
};

/* How an FP8 weight's scale works. */
struct scale_names {
	const char *name;  /* of its tensor */
	const char *use;   /* "multiplies" or "divides" */
	const char *dtype; /* "F32"; "E8M0" for exponents, whatever the file calls them */
	uint64_t tile[2];  /* rows and columns that one belongs to */
};

/* False: the tensor is no FP8 weight, or its scale is missing. */
bool scale_names_of(const struct shown *shown, const struct tensor_ref *ref,
		    struct scale_names *words);

/* What all tensors come to. */
struct inspection_totals {
	size_t n_tensors[N_DTYPES]; /* by type, as bytes */
	uint64_t bytes[N_DTYPES];
	uint64_t n_parameters; /* elements of all tensors but scales */
	uint64_t n_bytes;
};
struct inspection_totals inspection_total(const struct inspection *inspection);

/* Bits that a parameter takes, its scale included; NAN without parameters. */
double inspection_bits(const struct inspection_totals *totals);

/* One object; one table: on a terminal aligned, with totals, and layer 2 before layer 10;
 * tab-separated in a pipe, in the order of the files. */
void inspect_print_json(const struct shown *shown);
void inspect_print_text(const struct shown *shown);

#endif
