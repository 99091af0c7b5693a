/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/round.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"

/* A matrix that is being rounded. */
struct round_job {
	const struct rounding *rounding;
	const struct matrix *w;
	uint8_t *codes;
	uint32_t *tile_col; /* (padded columns), in the order of the factor */
	float *memory;	    /* of all workers */
	bool divide;	    /* by the factor of a scaling, which is 1 where it does not say so */
};

/* The memory of a worker, in floats. */
struct round_memory {
	size_t e, scales, codes, all;
};

static struct round_memory memory_of(size_t n_cols, struct tile tile)
{
	struct round_memory m = { .e = triangle_padded(n_cols) * ROUND_ROWS,
				  .scales = tile_count(n_cols, tile.cols) * ROUND_ROWS,
				  .codes = triangle_padded(n_cols) * ROUND_ROWS / sizeof(float) };

	m.all = m.e + 2 * m.scales + m.codes;
	return m;
}

uint64_t round_size(size_t n_cols, struct tile tile, int n_threads)
{
	return (uint64_t)n_threads * memory_of(n_cols, tile).all * sizeof(float) +
	       triangle_padded(n_cols) * sizeof(uint32_t);
}

/* Copies the scaling of n rows from `row` on, by tiles of columns: the factor of a value, and that
 * of a code.  Rows after the last have 1. */
static void load_scales(const struct round_job *job, size_t row, size_t n, float *factor,
			float *inverse)
{
	struct tile tile = job->rounding->spec->tile;
	size_t n_tiles = tile_count(job->w->cols, tile.cols);

	for (size_t t = 0; t < n_tiles; t++)
		for (size_t i = 0; i < ROUND_ROWS; i++) {
			size_t tile_row = tile.rows == WHOLE ? 0 : (row + i) / tile.rows;
			struct scaling one = { .factor = 1, .scale_inv = 1 };
			const struct scaling *s =
				i < n ? &job->rounding->scales[tile_row * n_tiles + t] : &one;

			factor[t * ROUND_ROWS + i] = s->factor;
			inverse[t * ROUND_ROWS + i] = s->scale_inv;
		}
}

/* Columns are moved in strips, so that every line of memory is touched once. */
#define STRIP 16

/* Writes n rows from `row` on to e, with their columns in the order of the factor; zeros are in its
 * padding. */
static void load_weights(const struct round_job *job, size_t row, size_t n, float *e)
{
	size_t n_cols = job->w->cols, stride = job->w->stride;
	const char *w = (const char *)job->w->data + row * stride * sizeof *e;
	float strip[STRIP][ROUND_ROWS] = { { 0 } }, values[STRIP] = { 0 };

	for (size_t col = 0; col < n_cols; col += STRIP) {
		size_t width = n_cols - col < STRIP ? n_cols - col : STRIP;

		for (size_t i = 0; i < n; i++) {
			const char *x = w + (i * stride + col) * sizeof *e;

			__builtin_prefetch(x + 2 * sizeof values);
			if (width == STRIP) /* of constant size */
				memcpy(values, x, sizeof values);
			else
				memcpy(values, x, width * sizeof *e);
			for (size_t c = 0; c < STRIP; c++)
				strip[c][i] = values[c];
		}
		for (size_t c = 0; c < width; c++)
			memcpy(e + (size_t)job->rounding->factor->rank[col + c] * ROUND_ROWS,
			       strip[c], sizeof strip[c]);
	}
	memset(e + n_cols * ROUND_ROWS, 0,
	       (triangle_padded(n_cols) - n_cols) * ROUND_ROWS * sizeof *e);
}

/* Swaps the upper groups of `bits` bits of *a with the lower ones of *b, which mask has. */
static inline void exchange(uint64_t *a, uint64_t *b, int bits, uint64_t mask)
{
	uint64_t changed = (*a >> bits ^ *b) & mask;

	*a ^= changed << bits;
	*b ^= changed;
}

/* Transposes 8 x 8 bytes: byte j of x[i] and byte i of x[j] change places. */
static inline void transpose_bytes(uint64_t x[8])
{
	const uint64_t bytes = 0x00FF00FF00FF00FF, pairs = 0x0000FFFF0000FFFF;

	exchange(&x[0], &x[1], 8, bytes);
	exchange(&x[2], &x[3], 8, bytes);
	exchange(&x[4], &x[5], 8, bytes);
	exchange(&x[6], &x[7], 8, bytes);
	exchange(&x[0], &x[2], 16, pairs);
	exchange(&x[1], &x[3], 16, pairs);
	exchange(&x[4], &x[6], 16, pairs);
	exchange(&x[5], &x[7], 16, pairs);
	for (int i = 0; i < 4; i++)
		exchange(&x[i], &x[i + 4], 32, UINT32_MAX);
}

/* The way back, for codes. */
static void store_codes(const struct round_job *job, size_t row, size_t n, const uint8_t *codes)
{
	size_t n_cols = job->w->cols;
	uint8_t *out = job->codes + row * n_cols;

	for (size_t col = 0; col < n_cols; col += 8) {
		size_t width = n_cols - col < 8 ? n_cols - col : 8;

		for (size_t i = 0; i < n; i += 8) {
			uint64_t x[8] = { 0 };

			for (size_t c = 0; c < width; c++)
				memcpy(&x[c],
				       codes +
					       (size_t)job->rounding->factor->rank[col + c] *
						       ROUND_ROWS +
					       i,
				       8);
			transpose_bytes(x);
			for (size_t r = 0; r < 8 && i + r < n; r++) {
				if (width == 8)
					memcpy(out + (i + r) * n_cols + col, &x[r], 8);
				else
					memcpy(out + (i + r) * n_cols + col, &x[r], width);
			}
		}
	}
}

static int round_item(void *context, int worker, size_t item, struct err *err)
{
	const struct round_job *job = context;
	const struct rounding *r = job->rounding;
	struct round_memory m = memory_of(job->w->cols, r->spec->tile);
	float *e = job->memory + (size_t)worker * m.all;
	float *factor = e + m.e, *inverse = factor + m.scales;
	size_t row = item * ROUND_ROWS;
	size_t n = job->w->rows - row < ROUND_ROWS ? job->w->rows - row : ROUND_ROWS;
	const struct round_rows_args args = {
		.u = { r->factor->u, triangle_padded(job->w->cols) },
		.e = e,
		.codes = (uint8_t *)(inverse + m.scales),
		.tile_col = job->tile_col,
		.factor = factor,
		.scale_inv = inverse,
		.divide = job->divide,
		.format = r->spec->format,
	};

	(void)err;
	load_weights(job, row, n, e);
	load_scales(job, row, n, factor, inverse);
	r->ops->round_rows(&args);
	store_codes(job, row, n, args.codes);
	return 0;
}

static bool any_divides(const struct rounding *rounding, const struct matrix *w)
{
	struct tile tile = rounding->spec->tile;
	size_t n = tile_count(w->rows, tile.rows) * tile_count(w->cols, tile.cols);

	for (size_t i = 0; i < n; i++)
		if (rounding->scales[i].divide)
			return true;
	return false;
}

int round_matrix(const struct rounding *rounding, const struct matrix *w, uint8_t *codes,
		 struct err *err)
{
	struct round_job job = {
		.rounding = rounding, .w = w, .codes = codes, .divide = any_divides(rounding, w)
	};
	size_t tile_cols = rounding->spec->tile.cols;
	void *memory = NULL;
	int rc;

	if (buffer_alloc(&memory, round_size(w->cols, rounding->spec->tile, rounding->n_threads),
			 "rounding with compensation", err))
		return -1;
	job.memory = memory;
	job.tile_col = xcalloc(triangle_padded(w->cols), sizeof *job.tile_col);
	for (size_t j = 0; tile_cols != WHOLE && j < w->cols; j++)
		job.tile_col[j] = (uint32_t)(rounding->factor->order[j] / tile_cols);
	rc = pool_run(rounding->n_threads, (w->rows + ROUND_ROWS - 1) / ROUND_ROWS, round_item,
		      &job, rounding->stop, err);
	free(memory);
	free(job.tile_col);
	return rc;
}
