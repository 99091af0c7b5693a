/* SPDX-License-Identifier: Apache-2.0
 *
 * A tensor whose elements lie in pieces: slices that the ranks of a training saved, or storages
 * with strides.  A piece is a box of the tensor; its elements lie in one file, each stride bytes
 * after its neighbor.
 *
 * Order: view_check() once for each tensor, then view_read() from any thread.
 */
#ifndef FP8CONV_VIEW_VIEW_H
#define FP8CONV_VIEW_VIEW_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VIEW_MAX_DIMS 64

/* offsets, sizes and strides have a number for each dimension of the tensor. */
struct view_piece {
	size_t file;		 /* index in a table of the caller */
	uint64_t at;		 /* byte of the file where the first element lies */
	const uint64_t *offsets; /* of the first element in the tensor */
	const uint64_t *sizes;	 /* elements; none is 0 */
	const uint64_t *strides; /* bytes of the file from one element to the next */
};

struct tensor_view {
	int n_dims;
	const uint64_t *shape;
	uint64_t element; /* bytes */
	size_t n_pieces;
	const struct view_piece *pieces; /* in the order of their offsets */
};

/* Names the tensor and the files of pieces in messages. */
struct view_names {
	const char *tensor;
	const char *(*file)(const void *context, size_t file);
	const void *context;
};

/* Sorts the pieces by their offsets.  ERR_INPUT, with the files and the ranges of both, unless the
 * pieces lie in the shape, do not overlap, and have all elements of it.  Costs n log n of pieces in
 * a row or a column, at most n sqrt(n) of a grid. */
int view_check(const struct tensor_view *view, struct view_piece *pieces,
	       const struct view_names *names, struct err *err);

/* Reads n bytes of a file at an offset. */
typedef int view_pread_fn(void *context, size_t file, uint64_t offset, size_t n, void *data,
			  struct err *err);

/* Bytes [begin, begin + n) of the tensor, as if its elements lay in rows without gaps. */
struct view_range {
	uint64_t begin, n;
	void *data;
};

/* Reads a range.  Neighbors in the file are read at once, up to 64 KiB with the gaps in between. */
int view_read(const struct tensor_view *view, const struct view_range *range, view_pread_fn *pread,
	      void *context, struct err *err);

#endif
