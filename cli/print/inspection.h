/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of `inspect` for a checkpoint.
 */
#ifndef FP8CONV_CLI_PRINT_INSPECTION_H
#define FP8CONV_CLI_PRINT_INSPECTION_H

#include "cli/print/amax.h"
#include "cli/print/losses.h"
#include "inspect/inspect.h"
#include "inspect/stats.h"

/* The input of the printers.  stats: by tensor, NULL without --stats. */
struct shown {
	const struct inspection *inspection;
	const struct tensor_stats *stats;
	const struct losses *losses; /* recipe NULL without --recipe */
};

/* The description of the scale of an FP8 or low-bit weight. */
struct scale_names {
	const char *name;  /* of its tensor */
	const char *use;   /* "multiplies" or "divides" */
	const char *dtype; /* "F32"; "E8M0" for exponents, whatever their type in the file */
	uint64_t tile[2];  /* rows and columns of one scale */
};

/* Fills words.  Returns false if the tensor is not an FP8 weight and packs no low-bit one, or its
 * scale is missing. */
bool scale_names_of(const struct shown *shown, const struct tensor_ref *ref,
		    struct scale_names *words);

/* Totals over all tensors. */
struct inspection_totals {
	size_t n_tensors[N_DTYPES]; /* by type, as bytes */
	uint64_t bytes[N_DTYPES];
	uint64_t n_parameters; /* elements of all tensors but scales, unpacked */
	uint64_t n_bytes;
};
struct inspection_totals inspection_total(const struct inspection *inspection);

/* Returns the bits of a parameter, with its share of scales; NAN without parameters. */
double inspection_bits(const struct inspection_totals *totals);

/* Prints a note on stderr where the checkpoint is unfinished. */
void inspect_print_note(const struct inspection *inspection);

/* Print one JSON object, or one table: on a terminal aligned, with totals, and layer 2 before layer
 * 10; in a pipe tab-separated, in the order of the files. */
void inspect_print_json(const struct shown *shown);
void inspect_print_text(const struct shown *shown);

/* Prints the totals alone. */
void inspect_print_summary(const struct inspection *inspection);

#endif
