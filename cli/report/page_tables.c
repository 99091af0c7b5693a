/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of a page: kept tensors by group, and the list of all tensors.  The list is data for
 * the script: a hundred thousand rows as elements would take seconds to open.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/report/page.h"
#include "cli/print/units.h"
#include "report/escape.h"

/* --- kept tensors --- */

static void put_kept_row(struct buf *out, const struct tensor_group *group)
{
	buf_puts(out, "<tr><td>");
	escape_html(out, group->pattern);
	buf_printf(out, "</td><td class=\"n\">%zu</td><td>", group->n_tensors);
	report_put_type(out, group);
	buf_puts(out, "</td><td>");
	if (group->one_shape)
		st_shape_format(out, group->first->shape, group->first->n_dims);
	else
		buf_puts(out, "several");
	buf_puts(out, "</td><td class=\"n\">");
	units_size(out, group->n_bytes);
	buf_puts(out, "</td><td>");
	escape_html(out, group->reason ? group->reason : "unknown");
	buf_puts(out, "</td></tr>\n");
}

void page_put_kept(struct buf *out, const struct reported *reported)
{
	const struct summary *summary = reported->summary;
	size_t n = 0;

	page_open(out, "kept", "Tensors kept in high precision");
	buf_puts(out, "<div class=\"scroll\" tabindex=\"0\" role=\"group\" "
		      "aria-label=\"Kept tensors\"><table><thead><tr><th scope=\"col\">tensors</th>"
		      "<th scope=\"col\" class=\"n\">number</th><th scope=\"col\">type</th>"
		      "<th scope=\"col\">shape</th><th scope=\"col\" class=\"n\">bytes</th>"
		      "<th scope=\"col\">reason</th></tr></thead>\n<tbody>\n");
	for (size_t g = 0; g < summary->n; g++)
		if (!summary->groups[g].fp8 && n++ < PAGE_MAX_ROWS)
			put_kept_row(out, &summary->groups[g]);
	buf_puts(out, "</tbody></table></div>\n");
	if (n > PAGE_MAX_ROWS)
		buf_printf(out,
			   "<p class=\"note\">%zu more groups are in the list of all "
			   "tensors.</p>\n",
			   n - PAGE_MAX_ROWS);
	page_close(out);
}

/* --- all tensors --- */

#define MAX_NUMBERS 16 /* of a name; more are left out */

/* Adds the numbers of a name in their order, with points between. */
static void put_name_numbers(struct buf *out, const char *name)
{
	int n = 0;

	for (const char *at = name, *end; at && n < MAX_NUMBERS; at = *end ? end + 1 : NULL) {
		struct segment segment = { at, strcspn(at, ".") };

		end = at + segment.n;
		if (!segment_is_number(&segment))
			continue;
		if (n++)
			buf_putc(out, '.');
		buf_add(out, at, segment.n < MAX_NUMBERS ? segment.n : MAX_NUMBERS);
	}
}

static void put_shape(struct buf *out, const struct st_tensor *tensor)
{
	for (int i = 0; i < tensor->n_dims; i++)
		buf_printf(out, "%s%llu", i ? "x" : "", (unsigned long long)tensor->shape[i]);
	if (!tensor->n_dims)
		buf_puts(out, "scalar");
}

/* Adds "NUMBERS,SHAPE,AMAX,SATURATED,ZEROS,SQNR;", where the shape is empty if it is that of the
 * group, and fields at the end are left out. */
static void put_tensor(struct buf *out, const struct reported *reported,
		       const struct tensor_group *group, size_t t)
{
	const struct checkpoint *checkpoint = &reported->inspection->checkpoint;
	const struct low_bit_weight *low_bit = low_bit_of(&reported->inspection->low_bit, t);
	const struct tensor_stats *stats = &reported->stats[t];
	const double codes = (double)stats->n_codes / 100;

	put_name_numbers(out, checkpoint->tensors[t].tensor->name);
	buf_putc(out, ',');
	if (!group->one_shape)
		put_shape(out, low_bit ? &low_bit->tensor : checkpoint->tensors[t].tensor);
	if (stats->known && stats->amax > 0)
		buf_printf(out, ",%.4g", (double)stats->amax);
	else if (stats->n_codes)
		buf_putc(out, ',');
	if (stats->n_codes)
		buf_printf(out, ",%.3g,%.3g", (double)stats->n_saturated / codes,
			   (double)stats->n_zeros / codes);
	if (stats->n_codes && reported->sqnr && !isnan(reported->sqnr[t])) {
		buf_putc(out, ',');
		page_put_real(out, reported->sqnr[t], 2);
	}
	buf_putc(out, ';');
}

/* Adds what the tensors of a group share. */
static void put_group(struct buf *out, const struct tensor_group *group)
{
	struct buf text = { 0 };

	buf_putc(out, '[');
	escape_json(out, group->pattern);
	buf_putc(out, ',');
	report_put_type(&text, group);
	escape_json(out, text.data);
	buf_puts(out, ",\"");
	if (group->one_shape)
		put_shape(out, group->first);
	text.len = 0;
	if (group->fp8)
		report_put_tile(&text, group);
	else
		buf_puts(&text, group->reason ? group->reason : "unknown");
	buf_puts(out, "\",\"\",");
	escape_json(out, text.data);
	buf_puts(out, ",\"");
	buf_release(&text);
}

/* The tensors of one group follow each other. */
struct place_in_group {
	size_t group, at;
};

static int by_group(const void *a, const void *b)
{
	const struct place_in_group *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* Returns the tensors but scales by group, in the order of names; *n becomes their number. */
static struct place_in_group *list_tensors(const struct reported *reported, size_t *n)
{
	const struct summary *summary = reported->summary;
	size_t n_tensors = reported->inspection->checkpoint.n_tensors;
	struct place_in_group *list = xcalloc(n_tensors, sizeof *list);

	*n = 0;
	for (size_t i = 0; i < n_tensors; i++)
		if (summary->group_of[summary->order[i]] != SIZE_MAX)
			list[(*n)++] =
				(struct place_in_group){ summary->group_of[summary->order[i]], i };
	if (*n)
		qsort(list, *n, sizeof *list, by_group);
	return list;
}

/* Adds the data.  Returns the number of tensors that do not fit. */
static size_t put_data(struct buf *out, const struct reported *reported)
{
	const struct summary *summary = reported->summary;
	size_t n, i = 0, begin = out->len;
	struct place_in_group *list = list_tensors(reported, &n);

	buf_puts(out, "<script type=\"application/json\" id=\"data\">[");
	while (i < n && out->len - begin < PAGE_MAX_DATA) {
		size_t g = list[i].group;

		buf_puts(out, out->data[out->len - 1] == '[' ? "\n" : ",\n");
		put_group(out, &summary->groups[g]);
		for (; i < n && list[i].group == g && out->len - begin < PAGE_MAX_DATA; i++)
			put_tensor(out, reported, &summary->groups[g], summary->order[list[i].at]);
		if (out->data[out->len - 1] == ';')
			out->len--;
		buf_puts(out, "\"]");
	}
	buf_puts(out, "]</script>\n");
	free(list);
	return n - i;
}

void page_put_tensors(struct buf *out, const struct reported *reported)
{
	struct buf data = { 0 };
	size_t n_left = put_data(&data, reported);

	page_open(out, "tensors", "All tensors");
	buf_puts(out,
		 "<noscript><p>The list of single tensors needs the page's script. The sections "
		 "above have all kinds of tensors without it.</p></noscript>\n");
	if (n_left)
		buf_printf(out,
			   "<p class=\"note\">The list ends before %zu more tensors, so that "
			   "the page stays small.</p>\n",
			   n_left);
	buf_puts(out, page_search);
	page_close(out);
	buf_add(out, data.data, data.len);
	buf_printf(out, "<script>\n%s</script>\n", page_script);
	buf_release(&data);
}
