/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of text: in columns for people, tab-separated without headings for programs.
 *
 * Order: a zeroed struct with columns set; cells; table_fit(); table_print().
 */
#ifndef FP8CONV_CLI_PRINT_TABLE_H
#define FP8CONV_CLI_PRINT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

#define TABLE_MAX_COLUMNS 16

/* A table.  Begins zeroed, with columns set. */
struct table {
	const char *columns; /* one letter a column: 'l'eft or 'r'ight; outlives the table */
	const char *shown;   /* one letter a column: 'x' is printed; NULL: all */
	size_t first_max;    /* wider first cells are cut in the middle; 0: no limit */
	size_t width[TABLE_MAX_COLUMNS];
	size_t n_cells;
	struct buf cells; /* each ends in a NUL; rows from left to right */
};

/* Appends a cell, with control characters replaced. */
void table_cell(struct table *table, const char *text);
void table_cell_size(struct table *table, uint64_t bytes);
void table_cell_number(struct table *table, uint64_t n);

/* Shows the columns that are marked 'x' in the first of `choices` (which ends in NULL) that fits
 * `width`. If none fits, takes the last one and cuts first cells in the middle. */
void table_fit(struct table *table, const char *const *choices, size_t width);

/* Prints the rows, and frees them; or lets them stay. */
void table_print(struct table *table, FILE *stream, bool aligned);
void table_print_rows(const struct table *table, FILE *stream, bool aligned);

/* Replaces the first cell of the only row. */
void table_rename(struct table *table, const char *text);

/* Removes the rows and keeps the widths.  A table that is too large for memory is made twice, row
 * by row, and printed the second time. */
void table_clear(struct table *table);

#endif
