/* SPDX-License-Identifier: Apache-2.0
 *
 * What scans of recurrent layers share that take the tokens in chunks, compiled once for each
 * instruction set, as ops_loops.h is.
 *
 * Within a chunk, what a token gets of those before it is a product of matrices, and so is what the
 * state gives to all tokens of the chunk, and what they leave in it (arXiv 2405.21060, section 6;
 * 2412.06464, section 3.3).  The decay between two tokens is a product of the decays between them,
 * as it is step by step: no quotient of two products, which could be 0 / 0.
 *
 * Matrices between tokens of a chunk are (SCAN_CHUNK, SCAN_CHUNK).
 */
#ifndef FP8CONV_KERNELS_CPU_FORWARD_CHUNK_H
#define FP8CONV_KERNELS_CPU_FORWARD_CHUNK_H

#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/tiles.h"

/* n tokens from `first` on. */
struct chunk {
	size_t first, n;
};

struct chunk_decays {
	float begin[SCAN_CHUNK];	       /* from before the chunk to after each token */
	float between[SCAN_CHUNK][SCAN_CHUNK]; /* [t][s]: from after s to after t; 0 for s > t */
};

LANE_FN struct chunk chunk_at(size_t first, size_t n_tokens)
{
	return (struct chunk){ first,
			       n_tokens - first < SCAN_CHUNK ? n_tokens - first : SCAN_CHUNK };
}

/* Returns n rounded up to whole vectors. */
LANE_FN size_t chunk_padded(size_t n)
{
	return (n + LANES - 1) / LANES * LANES;
}

/* y (n_cols, SCAN_CHUNK) = x^T, with zeros after the chunk's tokens. */
static void chunk_transpose(float *y, struct rows_in x, struct chunk chunk, size_t n_cols)
{
	const float *from = x.data + chunk.first * x.stride;

	for (size_t i = 0; i < n_cols; i++, y += SCAN_CHUNK) {
		for (size_t t = 0; t < chunk.n; t++)
			y[t] = from[t * x.stride + i];
		memset(y + chunk.n, 0, (SCAN_CHUNK - chunk.n) * sizeof *y);
	}
}

/* Computes the rows of a product of n columns, a multiple of LANES, a few at a time. */
static void chunk_product(const struct tiled *product, size_t n_rows, size_t n)
{
	struct tiled rows = *product;

	for (size_t row = 0; row < n_rows; row += TILE_ROWS) {
		rows.a = product->a + row * product->a_stride;
		rows.c = product->c + row * product->c_stride;
		tiles(&rows, n_rows - row < TILE_ROWS ? n_rows - row : TILE_ROWS, n);
	}
}

/* y[t][s] = x(t) z(s) for s <= t; z (n_cols, SCAN_CHUNK).  What is written beyond is not read. */
static void chunk_scores(float *y, struct rows_in x, const float *z, struct chunk chunk,
			 size_t n_cols)
{
	struct tiled rows = { .a_stride = x.stride,
			      .b = z,
			      .b_stride = SCAN_CHUNK,
			      .c_stride = SCAN_CHUNK,
			      .k = n_cols };

	for (size_t row = 0; row < chunk.n; row += TILE_ROWS) {
		size_t m = chunk.n - row < TILE_ROWS ? chunk.n - row : TILE_ROWS;

		rows.a = x.data + (chunk.first + row) * x.stride;
		rows.c = y + row * SCAN_CHUNK;
		tiles(&rows, m, chunk_padded(row + m));
	}
}

/* decays: of the chunk's tokens, `stride` apart. */
static void chunk_decays(struct chunk_decays *d, const float *decays, size_t stride, size_t n)
{
	float begin = 1;

	memset(d->between, 0, sizeof d->between);
	for (size_t t = 0; t < n; t++) {
		float decay = decays[t * stride];

		begin *= decay;
		d->begin[t] = begin;
		for (size_t s = 0; s < t; s += LANES)
			lanes_store(&d->between[t][s], decay * lanes_load(&d->between[t - 1][s]));
		d->between[t][t] = 1;
	}
}

/* y[t][s] = scores[t][s], decayed from s to t. */
static void chunk_decay(float *y, const float *scores, const struct chunk_decays *d, size_t n)
{
	for (size_t t = 0; t < n; t++)
		for (size_t s = 0; s <= t; s += LANES)
			lanes_store(y + t * SCAN_CHUNK + s,
				    lanes_load(&d->between[t][s]) *
					    lanes_load(scores + t * SCAN_CHUNK + s));
}

/* Some columns of the values of a head, from `col` on, and of its state. */
struct chunk_panel {
	size_t col, n;	/* at most SCAN_PANEL */
	float *state;	/* (features, SCAN_PANEL), before and after a chunk */
	float *x;	/* (SCAN_CHUNK, SCAN_PANEL): values that the tokens add to the state */
	float *y;	/* (SCAN_CHUNK, SCAN_PANEL) */
	float *between; /* (SCAN_CHUNK, SCAN_CHUNK): weights of x in y, read for s <= t alone */
	struct chunk_decays *decays;
};

/* y (SCAN_CHUNK, SCAN_PANEL) = what the rows q (n_tokens, n_features) read of the state that the
 * chunk begins with, decayed to each token. */
static void chunk_read(const struct chunk_panel *p, struct rows_in q, struct chunk chunk,
		       size_t n_features, float *y)
{
	size_t width = chunk_padded(p->n);
	const struct tiled product = { .a = q.data + chunk.first * q.stride,
				       .a_stride = q.stride,
				       .b = p->state,
				       .b_stride = SCAN_PANEL,
				       .c = y,
				       .c_stride = SCAN_PANEL,
				       .k = n_features };

	if (chunk.first == 0) {
		memset(y, 0, chunk.n * SCAN_PANEL * sizeof *y);
		return;
	}
	chunk_product(&product, chunk.n, width);
	for (size_t t = 0; t < chunk.n; t++)
		for (size_t i = 0; i < width; i += LANES)
			lanes_store(y + t * SCAN_PANEL + i,
				    p->decays->begin[t] * lanes_load(y + t * SCAN_PANEL + i));
}

/* y += between x. */
static void chunk_add(const struct chunk_panel *p, size_t n)
{
	struct tiled rows = { .a_stride = SCAN_CHUNK,
			      .b = p->x,
			      .b_stride = SCAN_PANEL,
			      .c_stride = SCAN_PANEL,
			      .add = true };

	for (size_t row = 0; row < n; row += TILE_ROWS) {
		size_t m = n - row < TILE_ROWS ? n - row : TILE_ROWS;

		for (size_t t = row; t < row + m; t++)
			for (size_t s = t + 1; s < row + m; s++)
				p->between[t * SCAN_CHUNK + s] = 0;
		rows.a = p->between + row * SCAN_CHUNK;
		rows.c = p->y + row * SCAN_PANEL;
		rows.k = row + m;
		tiles(&rows, m, chunk_padded(p->n));
	}
}

/* The state after the chunk; k (n_features, SCAN_CHUNK) weighs x, which is decayed in place. */
static void chunk_leave(const struct chunk_panel *p, const float *k, size_t n, size_t n_features)
{
	size_t width = chunk_padded(p->n);
	const struct tiled product = { .a = k,
				       .a_stride = SCAN_CHUNK,
				       .b = p->x,
				       .b_stride = SCAN_PANEL,
				       .c = p->state,
				       .c_stride = SCAN_PANEL,
				       .k = n,
				       .add = true };

	for (size_t t = 0; t < n; t++)
		for (size_t i = 0; i < width; i += LANES)
			lanes_store(p->x + t * SCAN_PANEL + i,
				    p->decays->between[n - 1][t] *
					    lanes_load(p->x + t * SCAN_PANEL + i));
	for (size_t f = 0; f < n_features; f++)
		for (size_t i = 0; i < width; i += LANES)
			lanes_store(p->state + f * SCAN_PANEL + i,
				    p->decays->begin[n - 1] *
					    lanes_load(p->state + f * SCAN_PANEL + i));
	chunk_product(&product, n_features, width);
}

#endif
