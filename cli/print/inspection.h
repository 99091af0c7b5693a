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

/* One object; one table: aligned on a terminal, tab-separated in a pipe. */
void inspect_print_json(const struct shown *shown);
void inspect_print_text(const struct shown *shown);

#endif
