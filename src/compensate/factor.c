/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/factor.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/sort.h"
#include "num/bits.h"

#define DAMPING 0.001f

/* A factorization in progress, by one rho. */
struct factoring {
	const struct hessian *hessian;
	const struct factor *factor; /* its order and rank */
	struct triangle t;
	float *pivots; /* (t.n) */
	float keep;    /* 1 - rho */
	float damp;
	size_t fill_rows; /* of an item of fill_item() */

	/* Of the blocks of columns, from the last one on, how many have their diagonal block; and
	 * how many does each ROUND_ROWS rows above have. */
	size_t n_blocks;
	_Atomic size_t n_diagonals;
	_Atomic size_t *n_done;
	atomic_bool failed; /* a pivot is not positive */
};

uint64_t factor_size(size_t n)
{
	return 4 * (triangle_count(n) + 2 * (uint64_t)n + triangle_padded(n));
}

struct sort_key {
	float diagonal;
	uint32_t column;
};

COMPARISON(compare_keys, struct sort_key, ORDER(y->diagonal, x->diagonal))

/* Fills order and rank; NaN counts as the lowest value. */
static void find_order(const struct hessian *hessian, struct factor *factor)
{
	size_t n = hessian->n;
	struct sort_key *keys = xcalloc(n, sizeof *keys);

	for (size_t j = 0; j < n; j++) {
		float diagonal = hessian->data[j * n + j];

		keys[j].diagonal = f32_is_nan(diagonal) ? -INFINITY : diagonal;
		keys[j].column = (uint32_t)j;
	}
	sort(keys, n, sizeof *keys, compare_keys);
	factor->order = xcalloc(n, sizeof *factor->order);
	factor->rank = xcalloc(n, sizeof *factor->rank);
	for (size_t j = 0; j < n; j++) {
		factor->order[j] = keys[j].column;
		factor->rank[keys[j].column] = (uint32_t)j;
	}
	free(keys);
}

static float mean_diagonal(const struct hessian *hessian)
{
	double sum = 0;

	for (size_t j = 0; j < hessian->n; j++)
		sum += (double)hessian->data[j * hessian->n + j];
	return (float)(sum / (double)hessian->n);
}

/* Writes the 16 elements of column j, which is column b of H, to the panel that begins at `row`. */
static void fill_column(const struct factoring *f, size_t row, size_t j, size_t b)
{
	const float *h = f->hessian->data;
	const uint32_t *order = f->factor->order + row;
	float *x = triangle_at(&f->t, row, j);
	size_t n = f->hessian->n, n_above = j - row < TRIANGLE_PANEL ? j - row : TRIANGLE_PANEL;

	for (size_t i = 0; i < n_above; i++) {
		size_t a = order[i], at = a < b ? a * n + b : b * n + a;

		x[i] = h[at] * f->keep;
	}
	if (n_above == TRIANGLE_PANEL)
		return;
	x[n_above] = h[b * n + b] + f->damp;
	for (size_t i = n_above + 1; i < TRIANGLE_PANEL; i++)
		x[i] = 0;
}

/* Copies some rows of the shrunk, damped and ordered matrix.  It goes through H in the order of H,
 * so that the elements in one line of memory are read close in time. */
static int fill_item(void *context, int worker, size_t item, struct err *err)
{
	const struct factoring *f = context;
	size_t n = f->hessian->n, first = item * f->fill_rows;
	size_t end = f->t.n - first < f->fill_rows ? f->t.n : first + f->fill_rows;

	(void)worker, (void)err;
	for (size_t b = 0; b < n; b++) {
		size_t j = f->factor->rank[b];

		for (size_t row = first; row < end && row <= j; row += TRIANGLE_PANEL)
			fill_column(f, row, j, b);
	}
	for (size_t j = n; j < f->t.n; j++)
		for (size_t row = first; row < end; row += TRIANGLE_PANEL) {
			float *x = triangle_at(&f->t, row, j);

			for (size_t i = 0; i < TRIANGLE_PANEL; i++)
				x[i] = row + i == j ? 1 : 0;
		}
	return 0;
}

/* Ends the factorization by this rho. */
static int factor_fail(struct factoring *f, struct err *err)
{
	atomic_store(&f->failed, true);
	return err_set(err, ERR_INPUT, "a pivot is not positive: raise rho");
}

/* Waits until n blocks are done. */
static int await(struct factoring *f, _Atomic size_t *n_done, size_t n, struct err *err)
{
	while (atomic_load_explicit(n_done, memory_order_acquire) < n) {
		if (atomic_load(&f->failed))
			return factor_fail(f, err);
		if (progress_stopped(f->hessian->stop, err))
			return -1;
		sched_yield();
	}
	return 0;
}

#define GROUPS (TRIANGLE_BLOCK / ROUND_ROWS) /* of rows, in a block */

static int factor_diagonal(struct factoring *f, size_t block, struct err *err)
{
	size_t n_before = f->n_blocks - 1 - block;

	for (size_t i = 0; i < GROUPS; i++)
		if (await(f, &f->n_done[block * GROUPS + i], n_before, err))
			return -1;
	if (!f->hessian->ops->factor_diagonal(&f->t, block * TRIANGLE_BLOCK))
		return factor_fail(f, err);
	atomic_store_explicit(&f->n_diagonals, n_before + 1, memory_order_release);
	return 0;
}

static int factor_rows(struct factoring *f, size_t block, size_t group, struct err *err)
{
	size_t n_before = f->n_blocks - 1 - block;

	if (await(f, &f->n_diagonals, n_before + 1, err) ||
	    await(f, &f->n_done[group], n_before, err))
		return -1;
	f->hessian->ops->factor_rows(&f->t, block * TRIANGLE_BLOCK, group * ROUND_ROWS);
	atomic_store_explicit(&f->n_done[group], n_before + 1, memory_order_release);
	return 0;
}

/* Items are blocks of columns, from the last one on: the diagonal block, then the rows above it,
 * those next to it first, because the next diagonal block waits for them.  An item waits for
 * earlier ones only, which have begun. */
static int factor_item(void *context, int worker, size_t item, struct err *err)
{
	struct factoring *f = context;
	/* Block b begins with item n_blocks^2 - (b + 1)^2. */
	size_t left = f->n_blocks * f->n_blocks - item;
	size_t block = (size_t)sqrt((double)(left - 1));
	size_t at = (block + 1) * (block + 1) - left;

	(void)worker;
	if (at == 0)
		return factor_diagonal(f, block, err);
	return factor_rows(f, block, block * GROUPS - at, err);
}

static int unit_panel(void *context, int worker, size_t item, struct err *err)
{
	const struct factoring *f = context;

	(void)worker, (void)err;
	f->hessian->ops->factor_unit(&f->t, item * TRIANGLE_PANEL, f->pivots);
	return 0;
}

static int run(struct factoring *f, size_t n_items, pool_fn *fn, struct err *err)
{
	return pool_run(f->hessian->n_threads, n_items, fn, f, f->hessian->stop, err);
}

static int factor_once(struct factoring *f, struct err *err)
{
	size_t n_panels = f->t.n / TRIANGLE_PANEL;

	f->keep = 1 - f->factor->rho;
	atomic_store(&f->failed, false);
	atomic_store(&f->n_diagonals, 0);
	for (size_t i = 0; i < f->n_blocks * GROUPS; i++)
		atomic_store(&f->n_done[i], 0);
	if (run(f, (f->t.n + f->fill_rows - 1) / f->fill_rows, fill_item, err) ||
	    run(f, f->n_blocks * f->n_blocks, factor_item, err))
		return -1;
	for (size_t j = 0; j < f->t.n; j++)
		f->pivots[j] = triangle_at(&f->t, j - j % TRIANGLE_PANEL, j)[j % TRIANGLE_PANEL];
	return run(f, n_panels, unit_panel, err);
}

/* Returns the rho after a failure. */
static float next_rho(float rho)
{
	return rho < 0.8f ? 0.8f : rho < 0.9f ? 0.9f : 1.0f;
}

/* Rows for an item of fill_item(): two for each thread, but not so many that the lines of H which
 * they share leave the cache. */
static size_t fill_rows(const struct hessian *hessian)
{
	size_t n = hessian->n / (2 * (size_t)hessian->n_threads);

	return n < 64 ? 64 : n > 1024 ? 1024 : triangle_padded(n);
}

static int factor_raising(struct factor *factor, const struct hessian *hessian, float mean,
			  struct err *err)
{
	struct factoring f = { .hessian = hessian,
			       .factor = factor,
			       .t = { .n = triangle_padded(hessian->n) },
			       .damp = DAMPING * mean,
			       .fill_rows = fill_rows(hessian),
			       .n_blocks = (hessian->n + TRIANGLE_BLOCK - 1) / TRIANGLE_BLOCK };
	void *memory = NULL;
	int rc = 0;

	if (buffer_alloc(&memory, 4 * triangle_count(hessian->n), "the factor of a Hessian", err))
		return -1;
	f.t.data = memory;
	f.pivots = xcalloc(f.t.n, sizeof *f.pivots);
	f.n_done = xcalloc(f.n_blocks * GROUPS, sizeof *f.n_done);
	while (factor->rho < 1 && !factor->u && !rc) {
		rc = factor_once(&f, err);
		if (!rc) {
			factor->u = memory;
		} else if (atomic_load(&f.failed)) {
			*err = (struct err){ 0 };
			rc = 0;
			factor->rho = next_rho(factor->rho);
		}
	}
	if (!factor->u)
		free(memory);
	free(f.pivots);
	free(f.n_done);
	return rc;
}

int factor_make(struct factor *factor, const struct hessian *hessian, float rho, struct err *err)
{
	float mean = mean_diagonal(hessian);

	*factor = (struct factor){ .n = hessian->n, .rho = rho, .zero = mean == 0 };
	find_order(hessian, factor);
	if (!factor->zero && factor_raising(factor, hessian, mean, err)) {
		factor_release(factor);
		return -1;
	}
	return 0;
}

void factor_release(struct factor *factor)
{
	free(factor->order);
	free(factor->rank);
	free(factor->u);
	*factor = (struct factor){ 0 };
}
