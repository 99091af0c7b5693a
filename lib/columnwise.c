/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel of x is transposed in the L2 cache, and the backend quantizes it along its rows.  Of bf16
 * a panel moves 2 bytes from memory to L2, 2 and 2 there, and 1 back; where the amax of a column
 * comes first, x is read and transposed twice.
 */
#include "lib/columnwise.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/pool.h"
#include "base/transpose.h"

#define PANEL_ROWS  ((size_t)512)
#define STRIP_BYTES ((size_t)512) /* of a row of x */
#define CHUNK_ROWS  ((size_t)1024)
#define PAD_BYTES   ((size_t)64) /* after a row of a panel: lines of a column lie in several sets */

/* The memory of a thread. */
struct worker {
	struct buffer panel, codes, scales, amax;
};

int scales_begin(const struct copies *copies, const struct tiles *tiles, struct buffer *scratch,
		 struct quant_out *out, struct err *err)
{
	const struct scale_grid *grid = &copies->grid;
	size_t size = dtype_bits(copies->scales.dtype) / 8;

	if (!grid->swizzled && grid->col_stride == 1) {
		out->scale_inv = (char *)stack_at(&copies->scales, tiles->matrix, 0) +
				 (tiles->row * grid->row_stride + tiles->col) * size;
		out->scale_stride = grid->row_stride;
		return 0;
	}
	if (buffer_ensure(scratch, tiles->n_rows * tiles->n_cols * size, "scales", err))
		return -1;
	out->scale_inv = scratch->data;
	out->scale_stride = tiles->n_cols;
	return 0;
}

void scales_place(const struct copies *copies, const struct tiles *tiles,
		  const struct quant_out *out)
{
	const struct scale_grid *grid = &copies->grid;
	size_t size = dtype_bits(copies->scales.dtype) / 8;
	char *to = stack_at(&copies->scales, tiles->matrix, 0);

	if (!grid->swizzled && grid->col_stride == 1)
		return;
	for (size_t i = 0; i < tiles->n_rows; i++)
		for (size_t j = 0; j < tiles->n_cols; j++) {
			size_t at = scale_index(grid, tiles->row + i, tiles->col + j);
			const char *from =
				(const char *)out->scale_inv + (i * out->scale_stride + j) * size;

			memcpy(to + at * size, from, size == 1 ? 1 : 4);
		}
}

/* Rows and columns of x in a matrix. */
struct part {
	size_t matrix, row, col, n_rows, n_cols;
	size_t ahead; /* rows below */
};

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Moves to the next panel of an item. Returns false at its end. */
static bool panel_next(const struct columnwise *c, const struct part *item, struct part *p)
{
	size_t end = item->row + item->n_rows;
	size_t tile = c->q->spec.tile.cols;

	p->row += p->n_rows;
	p->n_rows = min_size(round_up(PANEL_ROWS, tile == WHOLE ? 1 : tile), end - p->row);
	p->ahead = min_size(PANEL_ROWS, end - p->row - p->n_rows);
	return p->n_rows > 0;
}

/* Sets *panel (columns of p, rows of p) to the transpose of a part of x. */
static int panel_read(const struct columnwise *c, const struct part *p, struct buffer *memory,
		      struct matrix *panel, struct err *err)
{
	size_t size = dtype_bits(c->x.dtype) / 8, stride = p->n_rows + PAD_BYTES / size;

	if (buffer_ensure(memory, p->n_cols * stride * size, "a panel of the transpose", err))
		return -1;
	transpose(&(struct transpose){ .from = (char *)stack_at(&c->x, p->matrix, p->row) +
					       p->col * size,
				       .from_stride = c->x.stride,
				       .to = memory->data,
				       .to_stride = stride,
				       .rows = p->n_rows,
				       .cols = p->n_cols,
				       .element = size,
				       .ahead = p->ahead });
	*panel = (struct matrix){ memory->data, c->x.dtype, p->n_cols, p->n_rows, stride };
	return 0;
}

/* Sets amax of each column of an item. */
static int columns_amax(const struct columnwise *c, const struct part *item, struct worker *worker,
			struct err *err)
{
	struct part p = { item->matrix, item->row, item->col, 0, item->n_cols, 0 };
	uint64_t counted_by_cast = 0;
	struct matrix panel;

	if (buffer_ensure(&worker->amax, item->n_cols * sizeof(float), "the amax of columns", err))
		return -1;
	memset(worker->amax.data, 0, item->n_cols * sizeof(float));
	while (panel_next(c, item, &p)) {
		if (panel_read(c, &p, &worker->panel, &panel, err))
			return -1;
		backend_amax(c->context->backend, &panel, c->q->spec.tile, worker->amax.data, 1,
			     &counted_by_cast);
	}
	return 0;
}

/* Quantizes a panel into out->codes, of any stride.  amax: of its tiles, or NULL. */
static void panel_quantize(const struct columnwise *c, const struct matrix *panel,
			   const float *amax, const struct quant_out *out)
{
	const struct backend *backend = c->context->backend;
	struct qspec spec = c->q->spec;

	if (c->q->scale) {
		spec.arith = ARITH_GIVEN;
		spec.pow2 = false;
	}
	backend_cast(backend, panel, &spec, amax, 1, out);
}

/* Sets where the codes of a panel go: to the tensor, or to memory that is transposed back. */
static int codes_begin(const struct columnwise *c, const struct part *p, struct buffer *memory,
		       struct quant_out *out, struct err *err)
{
	if (c->q->spec.scale_type != SCALE_E8M0) {
		out->codes = (uint8_t *)stack_at(&c->copies.codes, p->matrix, p->col) + p->row;
		out->stride = c->copies.codes.stride;
		return 0;
	}
	out->stride = p->n_rows + PAD_BYTES;
	if (buffer_ensure(memory, p->n_cols * out->stride, "the codes of a panel", err))
		return -1;
	out->codes = memory->data;
	return 0;
}

static void codes_place(const struct columnwise *c, const struct part *p,
			const struct quant_out *out)
{
	if (c->q->spec.scale_type == SCALE_E8M0)
		transpose(&(struct transpose){
			.from = out->codes,
			.from_stride = out->stride,
			.to = (char *)stack_at(&c->copies.codes, p->matrix, p->row) + p->col,
			.to_stride = c->copies.codes.stride,
			.rows = p->n_cols,
			.cols = p->n_rows,
			.element = 1 });
}

static size_t tile_of(size_t at, size_t tile)
{
	return tile == WHOLE ? 0 : at / tile;
}

/* Writes the part of the copy that is the transpose of a panel of x. */
static int panel_write(const struct columnwise *c, const struct part *p, const float *amax,
		       struct worker *worker, struct err *err)
{
	struct tile tile = c->q->spec.tile;
	struct tiles tiles = { p->matrix, tile_of(p->col, tile.rows), tile_of(p->row, tile.cols),
			       tile_count(p->n_cols, tile.rows), tile_count(p->n_rows, tile.cols) };
	struct quant_stats unwanted = { 0 };
	struct quant_out out = { .stats = c->stats ? &c->stats[worker - c->workers] : &unwanted,
				 .streaming = c->streaming };
	bool shared = tile.rows == WHOLE && (p->row || p->col);
	struct matrix panel;
	float other;

	if (panel_read(c, p, &worker->panel, &panel, err) ||
	    codes_begin(c, p, &worker->codes, &out, err) ||
	    scales_begin(&c->copies, &tiles, &worker->scales, &out, err))
		return -1;
	if (shared) /* the scale of the matrix, which the first panel writes */
		out.scale_inv = &other;
	panel_quantize(c, &panel, amax, &out);
	codes_place(c, p, &out);
	if (!shared)
		scales_place(&c->copies, &tiles, &out);
	return backend_failed(c->context->backend, "x", err);
}

static int item_write(void *context, int worker, size_t item, struct err *err)
{
	struct columnwise *c = context;
	size_t strip = item % c->n_strips, chunk = item / c->n_strips % c->n_chunks;
	struct part whole = { .matrix = item / c->n_strips / c->n_chunks,
			      .row = chunk * c->chunk,
			      .col = strip * c->strip,
			      .n_rows = min_size(c->chunk, c->x.rows - chunk * c->chunk),
			      .n_cols = min_size(c->strip, c->x.cols - strip * c->strip) };
	struct part p = { whole.matrix, whole.row, whole.col, 0, whole.n_cols, 0 };
	struct tile tile = c->q->spec.tile;
	const float *amax = NULL;

	if (c->q->scale) {
		amax = c->q->scale;
	} else if (tile.rows == WHOLE) {
		amax = &c->amax[whole.matrix * c->amax_stride];
	} else if (tile.cols == WHOLE) {
		if (columns_amax(c, &whole, &c->workers[worker], err))
			return -1;
		amax = c->workers[worker].amax.data;
	}
	while (panel_next(c, &whole, &p))
		if (panel_write(c, &p, amax, &c->workers[worker], err))
			return -1;
	return 0;
}

int columnwise_write(struct columnwise *c, struct err *err)
{
	struct tile tile = c->q->spec.tile;
	size_t width = STRIP_BYTES / (dtype_bits(c->x.dtype) / 8);
	int rc;

	c->strip = round_up(width, tile.rows == WHOLE ? 1 : tile.rows);
	c->chunk = tile.cols != WHOLE	? round_up(CHUNK_ROWS, tile.cols)
		   : tile.rows == WHOLE ? CHUNK_ROWS
					: c->x.rows;
	c->n_strips = tile_count(c->x.cols, c->strip);
	c->n_chunks = tile_count(c->x.rows, c->chunk);
	c->workers = xcalloc((size_t)c->n_threads, sizeof *c->workers);
	rc = pool_run(c->n_threads, c->x.n * c->n_chunks * c->n_strips, item_write, c, NULL, err);
	for (int i = 0; i < c->n_threads; i++) {
		buffer_release(&c->workers[i].panel);
		buffer_release(&c->workers[i].codes);
		buffer_release(&c->workers[i].scales);
		buffer_release(&c->workers[i].amax);
	}
	free(c->workers);
	return rc;
}
