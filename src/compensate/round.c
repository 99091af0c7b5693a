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
	char *memory;	    /* of all workers */
	bool divide;	    /* by the factor of a scaling, which is 1 where it does not say so */
};

/* Bytes of the memory of a worker. */
struct round_memory {
	uint64_t e, scales, codes, all;
};

static struct round_memory memory_of(size_t n_cols, struct tile tile)
{
	struct round_memory m = { .e = triangle_padded(n_cols) * ROUND_ROWS * sizeof(float),
				  .codes = triangle_padded(n_cols) * ROUND_ROWS,
				  .scales = tile_count(n_cols, tile.cols) * ROUND_ROWS *
					    sizeof(float) };

	m.all = m.e + 2 * m.scales + m.codes;
	return m;
}

uint64_t round_size(size_t n_cols, struct tile tile, int n_threads)
{
	return (uint64_t)n_threads * memory_of(n_cols, tile).all +
	       triangle_padded(n_cols) * sizeof(uint32_t);
}

/* Copies the scaling of n rows from `row` on, by tiles of columns: what multiplies a value, and
 * what multiplies a code.  Rows after the last have 1. */
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

static void load_weights(const struct round_job *job, size_t row, size_t n, float *e)
{
	const uint32_t *order = job->rounding->factor->order;
	size_t n_cols = job->w->cols, stride = job->w->stride;
	const char *w = (const char *)job->w->data + row * stride * sizeof *e;

	memset(e, 0, triangle_padded(n_cols) * ROUND_ROWS * sizeof *e);
	for (size_t j = 0; j < n_cols; j++)
		for (size_t i = 0; i < n; i++)
			memcpy(&e[j * ROUND_ROWS + i], w + (i * stride + order[j]) * sizeof *e,
			       sizeof *e);
}

static void store_codes(const struct round_job *job, size_t row, size_t n, const uint8_t *codes)
{
	const uint32_t *order = job->rounding->factor->order;
	size_t n_cols = job->w->cols;
	uint8_t *out = job->codes + row * n_cols;

	for (size_t j = 0; j < n_cols; j++)
		for (size_t i = 0; i < n; i++)
			out[i * n_cols + order[j]] = codes[j * ROUND_ROWS + i];
}

static int round_item(void *context, int worker, size_t item, struct err *err)
{
	const struct round_job *job = context;
	const struct rounding *r = job->rounding;
	struct round_memory m = memory_of(job->w->cols, r->spec->tile);
	char *memory = job->memory + (uint64_t)worker * m.all;
	float *factor = (float *)(memory + m.e), *inverse = factor + m.scales / sizeof(float);
	size_t row = item * ROUND_ROWS;
	size_t n = job->w->rows - row < ROUND_ROWS ? job->w->rows - row : ROUND_ROWS;
	const struct round_rows_args args = {
		.u = { r->factor->u, triangle_padded(job->w->cols) },
		.e = (float *)memory,
		.codes = (uint8_t *)(memory + m.e + 2 * m.scales),
		.tile_col = job->tile_col,
		.factor = factor,
		.scale_inv = inverse,
		.divide = job->divide,
		.format = r->spec->format,
	};

	(void)err;
	load_weights(job, row, n, args.e);
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
	job.tile_col =
		(uint32_t *)(job.memory + (uint64_t)rounding->n_threads *
						  memory_of(w->cols, rounding->spec->tile).all);
	for (size_t j = 0; j < triangle_padded(w->cols); j++)
		job.tile_col[j] = j < w->cols && tile_cols != WHOLE
					  ? (uint32_t)(rounding->factor->order[j] / tile_cols)
					  : 0;
	rc = pool_run(rounding->n_threads, (w->rows + ROUND_ROWS - 1) / ROUND_ROWS, round_item,
		      &job, rounding->stop, err);
	free(memory);
	return rc;
}
