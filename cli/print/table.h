/* SPDX-License-Identifier: Apache-2.0
 *
 * A table of text: in columns for people, tab-separated without headings for programs.
 */
#ifndef FP8CONV_CLI_PRINT_TABLE_H
#define FP8CONV_CLI_PRINT_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

#define TABLE_MAX_COLUMNS 16

/* Zeroed, then columns set, is an empty table. */
struct table {
	const char *columns; /* one letter a column: 'l'eft or 'r'ight; outlives the table */
	const char *shown;   /* one letter a column: 'x' is printed; NULL: all */
	size_t first_max;    /* wider first cells lose their middle; 0: none does */
	size_t width[TABLE_MAX_COLUMNS];
	size_t n_cells;
	struct buf cells; /* each ended by a NUL; rows from left to right */
};

/* Adds a cell behind the last one, with what a terminal might obey replaced. */
void table_cell(struct table *table, const char *text);
void table_cell_size(struct table *table, uint64_t bytes);
void table_cell_number(struct table *table, uint64_t n);

/* Leaves the columns that are marked 'x' in the first of `choices` (NULL at the end) that fits
 * `width`; in the last where none does, with first cells cut in the middle. */
void table_fit(struct table *table, const char *const *choices, size_t width);

void table_print(const struct table *table, FILE *stream, bool aligned);

/* Another first cell for the only row, whose others stay. */
void table_rename(struct table *table, const char *text);

/* Drops the rows and keeps the widths: a table too large to hold is made twice, row by row, and
 * printed the second time. */
void table_clear(struct table *table);
void table_release(struct table *table);

#endif
