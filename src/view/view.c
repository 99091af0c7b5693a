/* SPDX-License-Identifier: Apache-2.0 */
#include "view/view.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/sort.h"

#define SPAN_BYTES 65536 /* read at once of elements that lie apart */
#define MAX_GAP	   16	 /* a span is read where its elements are at least 1 / MAX_GAP of it */
#define DIRECT	   8192	 /* bytes of a row that is worth a read of its own */

/* --- what is checked once --- */

static int compare_offsets(const void *a, const void *b, const void *context)
{
	const struct view_piece *x = a, *y = b;
	const struct tensor_view *view = context;

	for (int i = 0; i < view->n_dims; i++)
		if (x->offsets[i] != y->offsets[i])
			return x->offsets[i] < y->offsets[i] ? -1 : 1;
	return 0;
}

/* Appends "[0:384, 0:576]". */
static void put_range(struct buf *text, const struct tensor_view *view,
		      const struct view_piece *piece)
{
	buf_printf(text, "[");
	for (int i = 0; i < view->n_dims; i++)
		buf_printf(text, "%s%" PRIu64 ":%" PRIu64, i ? ", " : "", piece->offsets[i],
			   piece->offsets[i] + piece->sizes[i]);
	buf_printf(text, "]");
}

static int overlap(const struct tensor_view *view, const struct view_piece *a,
		   const struct view_piece *b, const struct view_names *names, struct err *err)
{
	struct buf one = { 0 }, other = { 0 };

	put_range(&one, view, a);
	put_range(&other, view, b);
	err_set(err, ERR_INPUT,
		"slices of tensor '%s' overlap: %s in '%s' and %s in '%s': give the files of one "
		"save",
		names->tensor, one.data, names->file(names->context, a->file), other.data,
		names->file(names->context, b->file));
	buf_release(&one);
	buf_release(&other);
	return -1;
}

static bool boxes_meet(const struct tensor_view *view, const struct view_piece *a,
		       const struct view_piece *b)
{
	for (int i = 0; i < view->n_dims; i++)
		if (a->offsets[i] >= b->offsets[i] + b->sizes[i] ||
		    b->offsets[i] >= a->offsets[i] + a->sizes[i])
			return false;
	return true;
}

/* The pieces in the order of their offsets in one dimension. */
struct sweep_order {
	const struct view_piece **list;
	size_t n;
	int dim;
};

static int compare_in_dim(const void *a, const void *b, const void *context)
{
	const struct view_piece *x = *(const struct view_piece *const *)a;
	const struct view_piece *y = *(const struct view_piece *const *)b;
	int dim = *(const int *)context;

	return (x->offsets[dim] > y->offsets[dim]) - (x->offsets[dim] < y->offsets[dim]);
}

static void order_by(struct sweep_order *order, const struct tensor_view *view, int dim)
{
	for (size_t i = 0; i < order->n; i++)
		order->list[i] = &view->pieces[i];
	order->dim = dim;
	sort_in(order->list, order->n, sizeof(void *), compare_in_dim, &dim);
}

static size_t n_distinct(const struct sweep_order *order)
{
	size_t n = 1;

	for (size_t i = 1; i < order->n; i++)
		n += order->list[i]->offsets[order->dim] != order->list[i - 1]->offsets[order->dim];
	return n;
}

/* Compares each piece with the ones before it that end behind its begin, along the dimension that
 * separates most. */
static int check_overlap(const struct tensor_view *view, const struct view_names *names,
			 struct err *err)
{
	struct sweep_order order = { NULL, view->n_pieces, 0 };
	const struct view_piece **active;
	size_t best = 0, n_active = 0;
	int dim = 0, rc = 0;

	if (!view->n_dims)
		return overlap(view, &view->pieces[0], &view->pieces[1], names, err);
	order.list = xcalloc(view->n_pieces, sizeof(void *));
	active = xcalloc(view->n_pieces, sizeof *active);
	for (int i = 0; i < view->n_dims; i++) {
		order_by(&order, view, i);
		if (n_distinct(&order) > best) {
			best = n_distinct(&order);
			dim = i;
		}
	}
	order_by(&order, view, dim);
	for (size_t i = 0; i < order.n && !rc; i++) {
		const struct view_piece *piece = order.list[i];
		size_t kept = 0;

		for (size_t j = 0; j < n_active && !rc; j++) {
			if (active[j]->offsets[dim] + active[j]->sizes[dim] <= piece->offsets[dim])
				continue;
			active[kept++] = active[j];
			if (boxes_meet(view, active[j], piece))
				rc = overlap(view, active[j], piece, names, err);
		}
		active[kept] = piece;
		n_active = kept + 1;
	}
	free(order.list);
	free(active);
	return rc;
}

static uint64_t volume(const uint64_t *sizes, int n_dims)
{
	uint64_t n = 1;

	for (int i = 0; i < n_dims; i++)
		n *= sizes[i];
	return n;
}

/* Names the slices of the first dimension between which there is a gap; else the last slice. */
static int missing(const struct tensor_view *view, uint64_t n_found, const struct view_names *names,
		   struct err *err)
{
	const struct view_piece *last = NULL, *next = NULL;
	struct buf text = { 0 };
	uint64_t end = 0;

	for (size_t i = 0; i < view->n_pieces && !next; i++) {
		const struct view_piece *piece = &view->pieces[i];

		if (view->n_dims && piece->offsets[0] > end) {
			next = piece;
			continue;
		}
		last = piece;
		if (view->n_dims && piece->offsets[0] + piece->sizes[0] > end)
			end = piece->offsets[0] + piece->sizes[0];
	}
	for (int i = 0; i < 2; i++) {
		const struct view_piece *piece = i ? next : last;

		if (!piece)
			continue;
		buf_puts(&text, !i     ? next ? ", with a gap between " : ", the last one is "
				: last ? " and "
				       : ", the first one is ");
		put_range(&text, view, piece);
		buf_printf(&text, " in '%s'", names->file(names->context, piece->file));
	}
	err_set(err, ERR_INPUT,
		"tensor '%s' has %" PRIu64 " elements, but its slices (%zu) have %" PRIu64
		"%s: copy the files of all ranks",
		names->tensor, volume(view->shape, view->n_dims), view->n_pieces, n_found,
		text.len ? text.data : "");
	buf_release(&text);
	return -1;
}

static int check_place(const struct tensor_view *view, const struct view_piece *piece,
		       const struct view_names *names, struct err *err)
{
	struct buf text = { 0 };

	for (int i = 0; i < view->n_dims; i++) {
		if (piece->offsets[i] <= view->shape[i] &&
		    piece->sizes[i] <= view->shape[i] - piece->offsets[i])
			continue;
		put_range(&text, view, piece);
		err_set(err, ERR_INPUT,
			"slice %s of tensor '%s' in '%s' ends after dimension %d of the tensor "
			"(%" PRIu64 ")",
			text.data, names->tensor, names->file(names->context, piece->file), i,
			view->shape[i]);
		buf_release(&text);
		return -1;
	}
	return 0;
}

int view_check(const struct tensor_view *view, struct view_piece *pieces,
	       const struct view_names *names, struct err *err)
{
	uint64_t n = 0;

	for (size_t i = 0; i < view->n_pieces; i++)
		if (check_place(view, &pieces[i], names, err))
			return -1;
	if (view->n_pieces > 1) {
		sort_in(pieces, view->n_pieces, sizeof *pieces, compare_offsets, view);
		if (check_overlap(view, names, err))
			return -1;
	}
	for (size_t i = 0; i < view->n_pieces; i++)
		n += volume(pieces[i].sizes, view->n_dims);
	return n == volume(view->shape, view->n_dims) ? 0 : missing(view, n, names, err);
}

/* --- reading --- */

/* A dimension of bytes to copy. */
struct copy_dim {
	uint64_t n;
	uint64_t from; /* bytes of the file from one to the next */
	uint64_t to;   /* of memory */
};

/* A box of one piece: bytes of a file, and their place in memory. */
struct view_copy {
	int n_dims;
	struct copy_dim
		dims[VIEW_MAX_DIMS + 1]; /* the first one has neighbors: from and to are 1 */
	size_t file;
	uint64_t at;
	char *to;
};

struct view_reader {
	const struct tensor_view *view;
	view_pread_fn *pread;
	void *context;
};

/* Broadcast dimensions (0) come last. */
COMPARISON(compare_dims, struct copy_dim, ORDER(!x->from, !y->from) ?: ORDER(x->from, y->from))

/* Sorts the dimensions, nearest elements first, and joins those without gaps on both sides. */
static void copy_simplify(struct view_copy *copy)
{
	int n = 0;

	for (int i = 1; i < copy->n_dims; i++) {
		if (copy->dims[i].n > 1)
			copy->dims[++n] = copy->dims[i];
	}
	copy->n_dims = n + 1;
	qsort(copy->dims + 1, (size_t)n, sizeof *copy->dims, compare_dims);
	n = 0;
	for (int i = 1; i < copy->n_dims; i++) {
		struct copy_dim *last = &copy->dims[n];

		if (copy->dims[i].from == last->n * last->from &&
		    copy->dims[i].to == last->n * last->to)
			last->n *= copy->dims[i].n;
		else
			copy->dims[++n] = copy->dims[i];
	}
	copy->n_dims = n + 1;
}

/* Copies n rows of the second dimension, through one read of all of them. */
static int copy_span(const struct view_reader *reader, const struct view_copy *copy, uint64_t at,
		     char *to, uint64_t n, struct err *err)
{
	const struct copy_dim *bytes = &copy->dims[0], *rows = &copy->dims[1];
	char span[SPAN_BYTES];

	if (reader->pread(reader->context, copy->file, at,
			  (size_t)((n - 1) * rows->from + bytes->n), span, err))
		return -1;
	if (bytes->n == 2) {
		for (uint64_t i = 0; i < n; i++)
			memcpy(to + i * rows->to, span + i * rows->from, 2);
		return 0;
	}
	for (uint64_t i = 0; i < n; i++)
		memcpy(to + i * rows->to, span + i * rows->from, (size_t)bytes->n);
	return 0;
}

/* Copies the two innermost dimensions. */
static int copy_rows(const struct view_reader *reader, const struct view_copy *copy, uint64_t at,
		     char *to, struct err *err)
{
	const struct copy_dim *bytes = &copy->dims[0];
	const struct copy_dim one = { 1, 0, 0 };
	const struct copy_dim *rows = copy->n_dims > 1 ? &copy->dims[1] : &one;
	uint64_t max = 1;

	if (bytes->n < DIRECT && rows->from / MAX_GAP <= bytes->n)
		max = rows->from ? (SPAN_BYTES - bytes->n) / rows->from + 1 : rows->n;
	for (uint64_t i = 0, n; i < rows->n; i += n) {
		uint64_t from = at + i * rows->from;

		n = rows->n - i < max ? rows->n - i : max;
		if (max > 1 ? copy_span(reader, copy, from, to + i * rows->to, n, err)
			    : reader->pread(reader->context, copy->file, from, (size_t)bytes->n,
					    to + i * rows->to, err))
			return -1;
	}
	return 0;
}

static int copy_box(const struct view_reader *reader, struct view_copy *copy, struct err *err)
{
	uint64_t index[VIEW_MAX_DIMS + 1] = { 0 };
	uint64_t at = copy->at;
	char *to = copy->to;
	int i = 0;

	copy_simplify(copy);
	while (i < copy->n_dims) {
		if (copy_rows(reader, copy, at, to, err))
			return -1;
		for (i = 2; i < copy->n_dims; i++) {
			const struct copy_dim *dim = &copy->dims[i];

			at += dim->from;
			to += dim->to;
			if (++index[i] < dim->n)
				break;
			at -= dim->n * dim->from;
			to -= dim->n * dim->to;
			index[i] = 0;
		}
	}
	return 0;
}

/* A box of the tensor whose bytes lie together in rows without gaps.  In the dimensions before
 * `dim` it has one index; behind it, all. */
struct view_part {
	uint64_t first[VIEW_MAX_DIMS + 1];
	uint64_t n[VIEW_MAX_DIMS + 1];
	char *data; /* of its first byte */
};

/* Copies what a piece has of the part. */
static int read_piece(const struct view_reader *reader, const struct view_piece *piece,
		      const struct view_part *part, struct err *err)
{
	const struct tensor_view *view = reader->view;
	struct view_copy copy = { .file = piece->file, .at = piece->at, .to = part->data };
	uint64_t to = 1;
	int last = view->n_dims;

	copy.n_dims = last + 1;
	copy.dims[0] = (struct copy_dim){ part->n[last], 1, 1 };
	copy.at += part->first[last];
	to = view->element;
	for (int i = last - 1; i >= 0; i--) {
		uint64_t begin = part->first[i], end = begin + part->n[i];

		if (begin < piece->offsets[i])
			begin = piece->offsets[i];
		if (end > piece->offsets[i] + piece->sizes[i])
			end = piece->offsets[i] + piece->sizes[i];
		if (begin >= end)
			return 0;
		copy.dims[last - i] = (struct copy_dim){ end - begin, piece->strides[i], to };
		copy.at += (begin - piece->offsets[i]) * piece->strides[i];
		copy.to += (begin - part->first[i]) * to;
		to *= view->shape[i];
	}
	return copy_box(reader, &copy, err);
}

/* The last dimension is that of the bytes of an element. */
static uint64_t length_of(const struct tensor_view *view, int dim)
{
	return dim == view->n_dims ? view->element : view->shape[dim];
}

/* Makes the largest part that begins at byte `begin` and has at most n.  Returns its bytes. */
static uint64_t part_make(const struct tensor_view *view, uint64_t begin, uint64_t n,
			  struct view_part *part)
{
	uint64_t size = 1, rest = begin;
	int dim;

	for (int i = view->n_dims; i >= 0; i--) {
		uint64_t length = length_of(view, i);

		part->first[i] = rest % length;
		part->n[i] = 1;
		rest /= length;
	}
	for (dim = view->n_dims; dim > 0; dim--) {
		uint64_t length = length_of(view, dim);

		if (part->first[dim] || size * length > n)
			break;
		part->n[dim] = length;
		size *= length;
	}
	rest = length_of(view, dim) - part->first[dim];
	part->n[dim] = n / size < rest ? n / size : rest;
	return size * part->n[dim];
}

int view_read(const struct tensor_view *view, const struct view_range *range, view_pread_fn *pread,
	      void *context, struct err *err)
{
	const struct view_reader reader = { view, pread, context };
	struct view_part part = { 0 };

	for (uint64_t at = 0, n; at < range->n; at += n) {
		n = part_make(view, range->begin + at, range->n - at, &part);
		part.data = (char *)range->data + at;
		for (size_t i = 0; i < view->n_pieces; i++)
			if (read_piece(&reader, &view->pieces[i], &part, err))
				return -1;
	}
	return 0;
}
