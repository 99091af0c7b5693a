/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/factor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"
#include "num/bits.h"

#define DAMPING 0.001f

/* A factorization in progress, by one rho. */
struct factoring {
	const struct hessian *hessian;
	const uint32_t *order;
	struct triangle t;
	float *pivots; /* (t.n) */
	float keep;    /* 1 - rho */
	float damp;
	size_t first; /* the current block */
};

uint64_t factor_size(size_t n)
{
	return 4 * (triangle_count(n) + n + triangle_padded(n));
}

struct sort_key {
	float diagonal;
	uint32_t column;
};

static int compare_keys(const void *a, const void *b)
{
	float x = ((const struct sort_key *)a)->diagonal;
	float y = ((const struct sort_key *)b)->diagonal;

	return (x < y) - (x > y);
}

/* Fills p; NaN counts as the lowest value. */
static void find_order(const struct hessian *hessian, uint32_t *order)
{
	size_t n = hessian->n;
	struct sort_key *keys = xcalloc(n, sizeof *keys);

	for (size_t j = 0; j < n; j++) {
		float diagonal = hessian->data[j * n + j];

		keys[j].diagonal = f32_is_nan(diagonal) ? -INFINITY : diagonal;
		keys[j].column = (uint32_t)j;
	}
	sort(keys, n, sizeof *keys, compare_keys);
	for (size_t j = 0; j < n; j++)
		order[j] = keys[j].column;
	free(keys);
}

static float mean_diagonal(const struct hessian *hessian)
{
	double sum = 0;

	for (size_t j = 0; j < hessian->n; j++)
		sum += (double)hessian->data[j * hessian->n + j];
	return (float)(sum / (double)hessian->n);
}

/* Returns an element of the shrunk, damped and ordered matrix, for i <= j, or of its padding. */
static float element(const struct factoring *f, size_t i, size_t j)
{
	size_t n = f->hessian->n, a, b;

	if (j >= n)
		return i == j;
	a = f->order[i];
	b = f->order[j];
	if (i == j)
		return f->hessian->data[a * n + a] + f->damp;
	return f->hessian->data[a < b ? a * n + b : b * n + a] * f->keep;
}

static int fill_panel(void *context, int worker, size_t item, struct err *err)
{
	const struct factoring *f = context;
	size_t row = item * TRIANGLE_PANEL;

	(void)worker, (void)err;
	for (size_t col = row; col < f->t.n; col++) {
		float *x = triangle_at(&f->t, row, col);

		for (size_t i = 0; i < TRIANGLE_PANEL; i++)
			x[i] = row + i > col ? 0 : element(f, row + i, col);
	}
	return 0;
}

static int factor_row_item(void *context, int worker, size_t item, struct err *err)
{
	const struct factoring *f = context;

	(void)worker, (void)err;
	f->hessian->ops->factor_rows(&f->t, f->first, item * ROUND_ROWS);
	return 0;
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

/* *positive becomes false if a pivot is not. */
static int factor_blocks(struct factoring *f, bool *positive, struct err *err)
{
	size_t n_blocks = (f->t.n + TRIANGLE_BLOCK - 1) / TRIANGLE_BLOCK;

	for (size_t b = n_blocks; b-- > 0;) {
		f->first = b * TRIANGLE_BLOCK;
		*positive = f->hessian->ops->factor_diagonal(&f->t, f->first);
		if (!*positive)
			return 0;
		if (run(f, f->first / ROUND_ROWS, factor_row_item, err))
			return -1;
	}
	return 0;
}

static int factor_once(struct factoring *f, bool *positive, struct err *err)
{
	size_t n_panels = f->t.n / TRIANGLE_PANEL;

	if (run(f, n_panels, fill_panel, err) || factor_blocks(f, positive, err))
		return -1;
	if (!*positive)
		return 0;
	for (size_t j = 0; j < f->t.n; j++)
		f->pivots[j] = triangle_at(&f->t, j - j % TRIANGLE_PANEL, j)[j % TRIANGLE_PANEL];
	return run(f, n_panels, unit_panel, err);
}

/* Returns the rho after a failure. */
static float next_rho(float rho)
{
	return rho < 0.8f ? 0.8f : rho < 0.9f ? 0.9f : 1.0f;
}

static int factor_raising(struct factor *factor, const struct hessian *hessian, float mean,
			  struct err *err)
{
	struct factoring f = { .hessian = hessian,
			       .order = factor->order,
			       .t = { .n = triangle_padded(hessian->n) },
			       .damp = DAMPING * mean };
	void *memory = NULL;
	bool positive = false;
	int rc = -1;

	if (buffer_alloc(&memory, 4 * triangle_count(hessian->n), "the factor of a Hessian", err))
		return -1;
	f.t.data = memory;
	f.pivots = xcalloc(f.t.n, sizeof *f.pivots);
	for (; factor->rho < 1; factor->rho = next_rho(factor->rho)) {
		f.keep = 1 - factor->rho;
		if (factor_once(&f, &positive, err))
			goto out;
		if (positive)
			break;
	}
	if (positive) {
		factor->u = memory;
		memory = NULL;
	}
	rc = 0;
out:
	free(memory);
	free(f.pivots);
	return rc;
}

int factor_make(struct factor *factor, const struct hessian *hessian, float rho, struct err *err)
{
	float mean = mean_diagonal(hessian);

	*factor = (struct factor){ .n = hessian->n, .rho = rho, .zero = mean == 0 };
	factor->order = xcalloc(hessian->n, sizeof *factor->order);
	find_order(hessian, factor->order);
	if (!factor->zero && factor_raising(factor, hessian, mean, err)) {
		factor_release(factor);
		return -1;
	}
	return 0;
}

void factor_release(struct factor *factor)
{
	free(factor->order);
	free(factor->u);
	*factor = (struct factor){ 0 };
}
