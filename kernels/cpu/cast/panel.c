/* SPDX-License-Identifier: Apache-2.0
 *
 * Traffic of quantize, per element: the source once from memory and once from L2, one byte of code.
 * Where a tile is larger than L2 (a whole tensor), the source comes from memory twice.
 */
#include "kernels/cpu/cast/panel.h"

#include <string.h>

#include "kernels/cpu/cpu.h"
#include "num/scale.h"

#define PANEL_BYTES ((size_t)256 * 1024) /* of the source; L2 is 1-2 MiB */
#define BAND_ROWS   128			 /* rows between two looks at the lanes */
#define FETCH_ROWS  3 /* of the next panel, from the fetch of a row into L2 to its amax */
/* If rows are read in the order of memory, the bytes between fetching and casting: into L1, so that
 * a row of PANEL_COLS bf16 is there for its amax, and into L2. */
#define LINEAR_NEAR 8192
#define LINEAR_FAR  ((ptrdiff_t)2 * LINEAR_NEAR)

static int source_of(enum dtype dtype)
{
	return dtype == DT_BF16 ? SOURCE_BF16 : dtype == DT_F16 ? SOURCE_F16 : SOURCE_F32;
}

static size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The panels of a matrix with tiles. */
struct grid {
	size_t rows, cols;
	size_t tile_rows, tile_cols; /* no WHOLE in them */
	size_t panel_tiles;	     /* side by side */
	size_t piece; /* columns of a row function: a panel's, unless the panel is one wide tile */
};

static struct grid grid_of(struct tile tile, size_t rows, size_t cols, size_t element_size)
{
	struct grid g = { rows, cols, tile.rows, tile.cols, 1, PANEL_COLS };
	size_t panel_cols, n_tiles;

	if (tile.rows == WHOLE || tile.rows > rows)
		g.tile_rows = rows;
	if (tile.cols == WHOLE || tile.cols > cols)
		g.tile_cols = cols;
	if (rows == 0 || cols == 0)
		return g;
	panel_cols =
		min_size(PANEL_COLS, PANEL_BYTES / element_size / min_size(g.tile_rows, BAND_ROWS));
	if (g.tile_cols <= PANEL_COLS) {
		g.panel_tiles = min_size(PANEL_TILES, panel_cols / g.tile_cols);
		if (g.panel_tiles == 0)
			g.panel_tiles = 1;
		n_tiles = tile_count(cols, g.tile_cols);
		g.panel_tiles = tile_count(n_tiles, tile_count(n_tiles, g.panel_tiles));
		g.piece = g.panel_tiles * g.tile_cols;
	}
	return g;
}

/* One panel. */
struct cast_panel {
	size_t row, n_rows;
	size_t col, n_cols;
	size_t grid_row, grid_col;
	size_t n_tiles;
};

/* Moves to the next panel in reading order, the tiles of a band first; to the first one if
 * p->n_rows is 0.  Returns false at the end. */
static bool panel_next(const struct grid *g, struct cast_panel *p)
{
	if (p->n_rows && p->col + p->n_cols < g->cols) {
		p->col += p->n_cols;
		p->grid_col += p->n_tiles;
	} else {
		p->grid_row += p->n_rows ? 1 : 0;
		p->row += p->n_rows;
		p->col = 0;
		p->grid_col = 0;
	}
	if (p->row >= g->rows || g->cols == 0)
		return false;
	p->n_rows = min_size(g->tile_rows, g->rows - p->row);
	p->n_cols = min_size(g->panel_tiles * g->tile_cols, g->cols - p->col);
	p->n_tiles = tile_count(p->n_cols, g->tile_cols);
	return true;
}

static struct matrix matrix_part(const struct matrix *x, size_t row, size_t n_rows, size_t col,
				 size_t n_cols)
{
	struct matrix part = *x;

	part.data = (const char *)x->data + (row * x->stride + col) * (dtype_bits(x->dtype) / 8);
	part.rows = n_rows;
	part.cols = n_cols;
	return part;
}

/* Raises the lanes of a band's tiles by one row. */
static void row_lanes(const struct row_ops *ops, const struct grid *g, const struct matrix *band,
		      size_t row, void *lanes)
{
	for (size_t col = 0; col < band->cols; col += g->piece) {
		struct matrix part =
			matrix_part(band, row, 1, col, min_size(g->piece, band->cols - col));

		ops->row_amax[source_of(band->dtype)](part.data, part.cols, g->tile_cols, lanes,
						      !row && !col);
	}
}

static void lanes_amax(const struct row_ops *ops, const struct grid *g, const struct matrix *band,
		       const void *lanes, float *amax, uint64_t *n_nonfinite)
{
	struct tile tile = { band->rows, g->tile_cols };
	size_t n_tiles = tile_count(band->cols, g->tile_cols);

	if (ops->lanes_amax[source_of(band->dtype)](lanes, n_tiles, amax))
		return;
	memset(amax, 0, n_tiles * sizeof *amax);
	backend_reference.amax(band, tile, amax, n_tiles, n_nonfinite);
}

/* Computes the amax of each tile of a band of a panel. */
static void band_amax(const struct row_ops *ops, const struct grid *g, const struct matrix *band,
		      float *amax, uint64_t *n_nonfinite)
{
	_Alignas(64) unsigned char raised[PANEL_TILES * LANES_SIZE];
	const void *lanes = raised;

	if (g->tile_cols == LANES_SIZE / 2 && band->dtype != DT_F32 && band->rows == 1 &&
	    band->cols % g->tile_cols == 0) {
		lanes = band->data; /* an MX block is one set of lanes */
	} else {
		for (size_t row = 0; row < band->rows; row++)
			row_lanes(ops, g, band, row, raised);
	}
	lanes_amax(ops, g, band, lanes, amax, n_nonfinite);
}

static void panel_amax_of(const struct row_ops *ops, const struct grid *g, const struct matrix *x,
			  const struct cast_panel *p, float *amax, uint64_t *n_nonfinite)
{
	float of_band[PANEL_TILES];

	for (size_t row = 0; row < p->n_rows; row += BAND_ROWS) {
		struct matrix band = matrix_part(
			x, p->row + row, min_size(BAND_ROWS, p->n_rows - row), p->col, p->n_cols);

		/* cppcheck-suppress legacyUninitvar ; band_amax() writes it */
		band_amax(ops, g, &band, row ? of_band : amax, n_nonfinite);
		for (size_t i = 0; row && i < p->n_tiles; i++) {
			if (of_band[i] > amax[i])
				amax[i] = of_band[i];
		}
	}
}

void panel_amax(const struct row_ops *ops, const struct matrix *x, struct tile tile, float *amax,
		size_t amax_stride, uint64_t *n_nonfinite)
{
	struct grid g = grid_of(tile, x->rows, x->cols, dtype_bits(x->dtype) / 8);
	struct cast_panel p = { 0 };
	float of_panel[PANEL_TILES];

	while (panel_next(&g, &p)) {
		float *to = amax + p.grid_row * amax_stride + p.grid_col;

		panel_amax_of(ops, &g, x, &p, of_panel, n_nonfinite);
		for (size_t i = 0; i < p.n_tiles; i++) {
			if (of_panel[i] > to[i])
				to[i] = of_panel[i];
		}
	}
}

bool panel_scales_scalar(const struct qspec *spec, float limit, const float *amax, size_t n,
			 struct panel_scales *scales)
{
	bool power_of_two = spec->pow2 || spec->scale_type == SCALE_E8M0;

	for (size_t i = 0; i < n; i++) {
		struct scaling s = scaling_from_amax(spec, amax[i], limit);
		int exponent = (int)(f32_bits(s.factor) >> 23);

		scales->factor[i] = s.factor;
		scales->scale_inv[i] = s.scale_inv;
		scales->e8m0[i] = s.e8m0;
		if (amax[i] == 0 && scales->amax_exact)
			exponent = 127; /* only zeros: any factor is exact */
		if (exponent < SHIFT_EXPONENT_MIN || exponent > SHIFT_EXPONENT_MAX)
			power_of_two = false;
		else
			scales->base[i] = 0x10001u * (uint32_t)shift_base(spec->format, exponent);
	}
	return power_of_two;
}

static void panel_scales_store(const struct quant_out *out, enum scale_type type,
			       const struct cast_panel *p, const struct panel_scales *scales)
{
	size_t i = p->grid_row * out->scale_stride + p->grid_col;

	if (type == SCALE_E8M0)
		memcpy((char *)out->scale_inv + i, scales->e8m0, p->n_tiles);
	else
		memcpy((char *)out->scale_inv + 4 * i, scales->scale_inv, 4 * p->n_tiles);
}

/* The state of panel_quantize(). */
struct panel_quantizer {
	const struct row_ops *ops;
	const struct matrix *x;
	const struct qspec *spec;
	const struct quant_out *out;
	struct grid grid;
	ptrdiff_t row_bytes; /* from one row of x to the next */

	/* The next panel, if its amax is computed together with the codes of this one, because a
	 * row of codes is bound by arithmetic and a row of amax by memory.  Else it has no rows. */
	struct matrix next;
	_Alignas(64) unsigned char next_lanes[PANEL_TILES * LANES_SIZE];
};

static void panel_quantizer_look(struct panel_quantizer *q, const struct cast_panel *p,
				 bool has_amax)
{
	struct cast_panel next = *p;

	q->next.rows = 0;
	if (q->out->streaming && !has_amax && panel_next(&q->grid, &next) && next.n_rows > 1 &&
	    next.n_rows <= min_size(p->n_rows, BAND_ROWS))
		q->next = matrix_part(q->x, next.row, next.n_rows, next.col, next.n_cols);
}

/* The distances, in bytes, at which the first n rows of a panel fetch (struct row). */
struct fetch {
	ptrdiff_t to_cast, to_amax, ahead;
	size_t n_cast, n_amax, n_ahead;
};

static struct fetch fetch_of(const struct panel_quantizer *q, const struct cast_panel *p)
{
	struct cast_panel next = *p;
	size_t n_early = min_size(q->next.rows, FETCH_ROWS);
	ptrdiff_t to_next;

	if (p->n_rows == 1 || p->n_rows > BAND_ROWS)
		return (struct fetch){ .to_cast = LINEAR_NEAR,
				       .ahead = LINEAR_FAR,
				       .n_cast = p->n_rows,
				       .n_ahead = p->n_rows };
	if (!panel_next(&q->grid, &next))
		return (struct fetch){ 0 };
	to_next = (ptrdiff_t)(next.row - p->row) * q->row_bytes +
		  ((ptrdiff_t)next.col - (ptrdiff_t)p->col) * (dtype_bits(q->x->dtype) / 8);
	return (struct fetch){ .to_cast = q->row_bytes,
			       .to_amax = to_next,
			       .ahead = to_next + (ptrdiff_t)n_early * q->row_bytes,
			       .n_cast = p->n_rows - 1,
			       .n_amax = q->next.rows,
			       .n_ahead = min_size(next.n_rows, p->n_rows) - n_early };
}

static struct row row_job_of(const struct panel_quantizer *q, const struct matrix *part,
			     const struct fetch *fetch, size_t row,
			     const struct panel_scales *scales, uint8_t *codes)
{
	const char *x = part->data;

	return (struct row){ .x = x,
			     .to_cast = x + (row < fetch->n_cast ? fetch->to_cast : 0),
			     .to_amax = x + (row < fetch->n_amax ? fetch->to_amax : 0),
			     .ahead = x + (row < fetch->n_ahead ? fetch->ahead : 0),
			     .n = part->cols,
			     .tile_cols = q->grid.tile_cols,
			     .scales = scales,
			     .codes = codes,
			     .streaming = q->out->streaming };
}

/* Casts a row that the vector code refused. */
static void row_cast_slow(const struct matrix *part, const struct qspec *spec, const float *amax,
			  const struct quant_out *out, uint8_t *codes)
{
	struct quant_out to = { .codes = codes, .stride = part->cols, .stats = out->stats };
	float scale_inv[PANEL_TILES];

	to.scale_inv = scale_inv;
	to.scale_stride = PANEL_TILES;
	backend_reference.cast(part, spec, amax, PANEL_TILES, &to);
}

static void panel_cast(struct panel_quantizer *q, const struct cast_panel *p, const float *amax,
		       const struct panel_scales *scales, enum cast_path path)
{
	row_cast *cast = q->ops->casts[path][source_of(q->x->dtype)][q->spec->format];
	struct matrix panel = matrix_part(q->x, p->row, p->n_rows, p->col, p->n_cols);
	struct fetch fetch = fetch_of(q, p);

	for (size_t row = 0; row < p->n_rows; row++) {
		uint8_t *codes = q->out->codes + (p->row + row) * q->out->stride + p->col;

		for (size_t col = 0; col < p->n_cols; col += q->grid.piece) {
			struct matrix part = matrix_part(&panel, row, 1, col,
							 min_size(q->grid.piece, p->n_cols - col));
			struct row r = row_job_of(q, &part, &fetch, row, scales, codes + col);

			if (!cast(&r))
				row_cast_slow(&part, q->spec, amax, q->out, r.codes);
		}
		if (row < q->next.rows)
			row_lanes(q->ops, &q->grid, &q->next, row, q->next_lanes);
	}
}

static enum cast_path path_of(const struct qspec *spec, enum dtype dtype, bool shift)
{
	if (shift && dtype == DT_BF16)
		return CAST_SHIFT;
	if (spec->scale_type == SCALE_F32 && !spec->pow2 && spec->arith == ARITH_DEEPSEEK)
		return CAST_DIVIDE;
	return CAST_MULTIPLY;
}

void panel_quantize(const struct row_ops *ops, const struct matrix *x, const struct qspec *spec,
		    const float *amax, size_t amax_stride, const struct quant_out *out)
{
	size_t size = dtype_bits(x->dtype) / 8;
	struct panel_quantizer q = { ops, x, spec, out,
				     .row_bytes = (ptrdiff_t)(x->stride * size) };
	float limit = scale_limit(x->dtype, spec->tile);
	struct panel_scales scales = { .amax_exact = !amax };
	struct cast_panel p = { 0 };
	float taken[PANEL_TILES];
	uint64_t counted_by_cast = 0;

	q.grid = grid_of(spec->tile, x->rows, x->cols, size);
	while (panel_next(&q.grid, &p)) {
		const float *of_tiles = amax ? amax + p.grid_row * amax_stride + p.grid_col : taken;
		bool shift;

		if (q.next.rows)
			lanes_amax(ops, &q.grid, &q.next, q.next_lanes, taken, &counted_by_cast);
		else if (!amax)
			panel_amax_of(ops, &q.grid, x, &p, taken, &counted_by_cast);
		shift = ops->scales(spec, limit, of_tiles, p.n_tiles, &scales);
		panel_scales_store(out, spec->scale_type, &p, &scales);
		panel_quantizer_look(&q, &p, amax != NULL);
		panel_cast(&q, &p, of_tiles, &scales, path_of(spec, x->dtype, shift));
	}
}

/* Loads the scale_inv of the tiles of a panel as fp32. */
static void scale_inv_load(const struct quant_in *q, const struct cast_panel *p, float *scale_inv)
{
	size_t first = p->grid_row * q->scale_stride + p->grid_col;

	if (q->scale_type == SCALE_F32) {
		memcpy(scale_inv, (const char *)q->scale_inv + 4 * first, 4 * p->n_tiles);
		return;
	}
	for (size_t i = 0; i < p->n_tiles; i++)
		scale_inv[i] = e8m0_to_f32(((const uint8_t *)q->scale_inv)[first + i]);
}

static struct code_row code_row_of(const struct quant_in *q, const struct grid *g, size_t row,
				   size_t col, size_t n, const float *scale_inv)
{
	return (struct code_row){ q->codes + row * q->stride + col, n, g->tile_cols, scale_inv };
}

void panel_dequantize(const struct row_ops *ops, const struct quant_in *q, enum dtype dtype,
		      void *y, size_t y_stride)
{
	struct grid g = grid_of(q->tile, q->rows, q->cols, 1);
	size_t size = dtype_bits(dtype) / 8;
	struct cast_panel p = { 0 };
	float scale_inv[PANEL_TILES];

	while (panel_next(&g, &p)) {
		scale_inv_load(q, &p, scale_inv);
		for (size_t row = p.row; row < p.row + p.n_rows; row++) {
			struct code_row r = code_row_of(q, &g, row, p.col, p.n_cols, scale_inv);

			ops->dequantizes[source_of(dtype)][q->format](
				&r, (char *)y + (row * y_stride + p.col) * size);
		}
	}
}

void panel_error(const struct row_ops *ops, const struct matrix *x, const struct quant_in *q,
		 struct error_stats *stats)
{
	struct grid g = grid_of(q->tile, q->rows, q->cols, 1);
	struct cast_panel p = { 0 };
	float scale_inv[PANEL_TILES];

	while (panel_next(&g, &p)) {
		scale_inv_load(q, &p, scale_inv);
		for (size_t row = p.row; row < p.row + p.n_rows; row++) {
			struct code_row r = code_row_of(q, &g, row, p.col, p.n_cols, scale_inv);
			struct matrix part = matrix_part(x, row, 1, p.col, p.n_cols);

			ops->errors[source_of(x->dtype)][q->format](&r, part.data, stats);
		}
	}
}
