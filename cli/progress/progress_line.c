/* SPDX-License-Identifier: Apache-2.0
 *
 * A report of progress in one line of text.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/progress/progress.h"
#include "cli/print/units.h"

#define BAR_MIN	   6 /* columns between the brackets */
#define BAR_MAX	   30
#define BAR_FROM   24 /* a narrower terminal shows only the percentage */
#define DETAIL_MIN 12

/* Rounds down: 100 means complete. */
static int percent(const struct sample *sample)
{
	return (int)(100 * sample->done / sample->total);
}

/* Adds "1.40/5.24 GB", "2411/6144 tokens"; without a total "1.40 GB". */
static void put_amounts(struct buf *text, const struct sample *sample)
{
	if (!sample->unit && sample->total > 0)
		units_size_of(text, (uint64_t)sample->done, (uint64_t)sample->total);
	else if (!sample->unit)
		units_size(text, (uint64_t)sample->done);
	else
		buf_printf(text, "%.0f/%.0f %s", floor(sample->done), sample->total, sample->unit);
}

static void put_rate(struct buf *text, const struct sample *sample, const struct pace *pace)
{
	if (sample->unit) {
		buf_printf(text, "%.*f %s/s", pace->rate < 9.95, pace->rate, sample->unit);
	} else {
		units_size(text, (uint64_t)pace->rate);
		buf_puts(text, "/s");
	}
}

/* Adds "checking model-00001-of-00004". */
static void put_detail(struct buf *text, const struct sample *sample)
{
	static const char ending[] = ".safetensors";
	size_t n = strlen(sample->detail), cut = sizeof ending - 1;

	if (n > cut && !strcmp(sample->detail + n - cut, ending))
		n -= cut;
	buf_printf(text, "%s%s%.*s", sample->doing ? sample->doing : "",
		   sample->doing && n ? " " : "", (int)n, sample->detail);
}

/* Returns the bytes of the first characters that take at most `width` columns.  A character that is
 * not ASCII may take two. */
static size_t fitting(const char *text, size_t width)
{
	size_t n = 0, used = 0;

	while (text[n]) {
		size_t next = n + 1;

		while (((unsigned char)text[next] & 0xc0) == 0x80)
			next++;
		used += (unsigned char)text[n] < 0x80 ? 1 : 2;
		if (used > width)
			break;
		n = next;
	}
	return n;
}

/* Cuts the text to `width` columns.  Dots show the cut: "12/3" of "12/30" reads as a number. */
static void cut(struct buf *text, size_t width)
{
	if (fitting(text->data, width) == text->len)
		return;
	text->len = fitting(text->data, width - 3);
	text->data[text->len] = '\0';
	buf_puts(text, "...");
}

/* A part of the line: its text, and its columns; 0: left out. */
struct line_part {
	struct buf text;
	size_t width;
};

/* Takes the part, right-aligned in `width` columns, if it fits with two spaces before it. */
static void take_part(struct line_part *part, size_t width, size_t *room)
{
	size_t n = part->text.len < width ? width : part->text.len;

	if (!part->text.len || n + 2 > *room)
		return;
	part->width = n;
	*room -= n + 2;
}

/* Takes as much of the item as fits. */
static void take_detail(struct line_part *part, size_t *room)
{
	if (!part->text.len || *room < DETAIL_MIN + 2)
		return;
	cut(&part->text, *room - 2);
	take_part(part, 0, room);
}

static void put_part(struct buf *text, const struct line_part *part, size_t gap)
{
	if (part->width)
		buf_printf(text, "%*s%*s", text->len ? (int)gap : 0, "", (int)part->width,
			   part->text.data);
}

/* Adds "[=====>  ]" with n columns between the brackets. */
static void put_bar(struct buf *text, const struct sample *sample, size_t n)
{
	size_t full = (size_t)((double)n * sample->done / sample->total);

	buf_puts(text, " [");
	for (size_t i = 0; i < n; i++) {
		if (i < full)
			buf_putc(text, '=');
		else
			buf_putc(text, i == full ? '>' : ' ');
	}
	buf_puts(text, "]");
}

void progress_bar(struct buf *text, const struct sample *sample, const struct pace *pace,
		  size_t width)
{
	struct line_part amounts = { 0 }, rate = { 0 }, left = { 0 }, detail = { 0 };
	bool has_total = sample->total > 0, has_bar;
	size_t room = width;

	if (has_total) {
		buf_printf(text, "%3d%%", percent(sample));
		room -= text->len < room ? text->len : room;
	}
	if (has_total && width < BAR_FROM)
		return;
	put_amounts(&amounts.text, sample);
	if (isfinite(pace->rate))
		put_rate(&rate.text, sample, pace);
	if (isfinite(pace->left))
		units_clock(&left.text, pace->left);
	put_detail(&detail.text, sample);
	take_part(&amounts, 0, &room);
	take_part(&left, 5, &room);
	if (sample->unit)
		take_detail(&detail, &room);
	take_part(&rate, sample->unit ? 0 : 9, &room);
	has_bar = has_total && room >= BAR_MIN + 3;
	room -= has_bar ? BAR_MIN + 3 : 0;
	if (!sample->unit)
		take_detail(&detail, &room);
	if (has_bar)
		put_bar(text, sample, BAR_MIN + room < BAR_MAX ? BAR_MIN + room : BAR_MAX);
	put_part(text, &amounts, has_bar ? 1 : 2);
	put_part(text, &rate, 2);
	put_part(text, &left, 2);
	put_part(text, &detail, 2);
	buf_release(&amounts.text);
	buf_release(&rate.text);
	buf_release(&left.text);
	buf_release(&detail.text);
}

void progress_line(struct buf *text, const struct sample *sample, const struct pace *pace)
{
	struct buf detail = { 0 };

	if (sample->total > 0)
		buf_printf(text, "%d%%, ", percent(sample));
	put_amounts(text, sample);
	if (isfinite(pace->rate)) {
		buf_puts(text, ", ");
		put_rate(text, sample, pace);
	}
	if (isfinite(pace->left)) {
		buf_puts(text, ", ");
		units_clock(text, pace->left);
		buf_puts(text, " left");
	}
	put_detail(&detail, sample);
	if (detail.len)
		buf_printf(text, ", %s", detail.data);
	buf_release(&detail);
}
