/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/table.h"

#include <string.h>

#include "base/err.h"
#include "cli/print/units.h"

#define GAP	2  /* columns between two cells */
#define CUT_MIN 24 /* columns of a first cell after a cut */

#define EACH(byte) ((byte)*UINT64_C(0x0101010101010101))

/* Returns a word whose top bits are 0 if 8 bytes are printable ASCII: a difference below zero has
 * the top bit. */
static uint64_t unprintable(const char *text)
{
	uint64_t eight;

	memcpy(&eight, text, sizeof eight);
	return eight | (eight - EACH(0x20)) | ((eight ^ EACH(0x7f)) - EACH(1));
}

/* Are n bytes printable ASCII, as nearly all of a plan's are?  The last eight may be tested
 * twice. */
static bool is_plain(const char *text, size_t n)
{
	const char *end = text + n;
	uint64_t other = n < 8 ? 0 : unprintable(end - 8);

	for (; end - text >= 8; text += 8)
		other |= unprintable(text);
	for (; n < 8 && text < end; text++)
		other |= *text < 0x20 || *text == 0x7f ? 0x80 : 0;
	return !(other & EACH(0x80));
}

/* Counts characters of UTF-8, each as one column. */
static size_t text_width(const char *text, size_t n)
{
	size_t width = n;

	if (is_plain(text, n))
		return n;
	for (size_t i = 0; i < n; i++)
		width -= ((unsigned char)text[i] & 0xc0) == 0x80;
	return width;
}

/* Completes a cell of n bytes. */
static void cell_made(struct table *table, size_t column, char *cell, size_t n)
{
	if (!is_plain(cell, n)) {
		text_sanitize(cell);
		n = text_width(cell, n);
	}
	if (n > table->width[column] && !(column == 0 && table->first_max))
		table->width[column] = n;
}

/* Completes the cell whose text begins at `at`. */
static void cell_end(struct table *table, size_t at)
{
	size_t n = table->cells.len - at;

	buf_putc(&table->cells, '\0');
	cell_made(table, table->n_cells++ % strlen(table->columns), table->cells.data + at, n);
}

void table_cell(struct table *table, const char *text)
{
	size_t at = table->cells.len;

	buf_puts(&table->cells, text);
	cell_end(table, at);
}

void table_cell_size(struct table *table, uint64_t bytes)
{
	size_t at = table->cells.len;

	units_size(&table->cells, bytes);
	cell_end(table, at);
}

void table_cell_number(struct table *table, uint64_t n)
{
	size_t at = table->cells.len;

	buf_u64(&table->cells, n);
	cell_end(table, at);
}

void table_rename(struct table *table, const char *text)
{
	size_t n = strlen(text) + 1, old = strlen(table->cells.data) + 1,
	       rest = table->cells.len - old;

	buf_reserve(&table->cells, n);
	memmove(table->cells.data + n, table->cells.data + old, rest);
	memcpy(table->cells.data, text, n);
	table->cells.len = n + rest;
	cell_made(table, 0, table->cells.data, n - 1);
}

static bool is_shown(const struct table *table, size_t column)
{
	return !table->shown || table->shown[column] == 'x';
}

static size_t shown_width(const struct table *table)
{
	size_t width = 0;

	for (size_t i = 0; i < strlen(table->columns); i++)
		if (is_shown(table, i) && table->width[i])
			width += table->width[i] + (width ? GAP : 0);
	return width;
}

void table_fit(struct table *table, const char *const *choices, size_t width)
{
	for (; *choices; choices++) {
		table->shown = *choices;
		if (shown_width(table) <= width)
			return;
	}
	if (shown_width(table) < width + table->width[0] - CUT_MIN)
		table->first_max = width + table->width[0] - shown_width(table);
	else
		table->first_max = CUT_MIN;
	table->width[0] = table->first_max;
}

/* Prints a first cell, cut in the middle if it is too wide. */
static void print_first(const struct table *table, FILE *stream, const char *cell)
{
	size_t max = table->first_max, n = max ? strlen(cell) : 0;

	if (n > max && text_width(cell, n) == n)
		fprintf(stream, "%.*s...%s", (int)(max - 3) / 2, cell,
			cell + n - (max - 3 - (max - 3) / 2));
	else
		fputs_unlocked(cell, stream);
}

/* *blanks: the spaces before the cell, which are printed only if text follows on the line. */
static void print_aligned(const struct table *table, FILE *stream, const char *cell, size_t column,
			  int *blanks)
{
	size_t width = text_width(cell, strlen(cell));
	int pad = width < table->width[column] ? (int)(table->width[column] - width) : 0;
	bool right = table->columns[column] == 'r';

	if (column == 0)
		*blanks = 0;
	if (right)
		*blanks += pad;
	if (*cell) {
		for (; *blanks > 0; --*blanks)
			putc_unlocked(' ', stream);
		if (column == 0)
			print_first(table, stream, cell);
		else
			fputs_unlocked(cell, stream);
	}
	*blanks += GAP + (right ? 0 : pad);
}

void table_print_rows(const struct table *table, FILE *stream, bool aligned)
{
	size_t n_columns = strlen(table->columns);
	const char *cell = table->cells.data;
	int blanks = 0;

	for (size_t i = 0; i < table->n_cells; i++) {
		size_t column = i % n_columns;

		if (aligned && is_shown(table, column))
			print_aligned(table, stream, cell, column, &blanks);
		else if (!aligned && fputs_unlocked(column ? "\t" : "", stream) != EOF)
			fputs_unlocked(cell, stream);
		if (column + 1 == n_columns)
			putc_unlocked('\n', stream);
		cell += strlen(cell) + 1;
	}
}

void table_print(struct table *table, FILE *stream, bool aligned)
{
	table_print_rows(table, stream, aligned);
	buf_release(&table->cells);
	table->n_cells = 0;
}

void table_clear(struct table *table)
{
	table->cells.len = 0;
	table->n_cells = 0;
}
