/* SPDX-License-Identifier: Apache-2.0
 *
 * A product of tests/simt/cublaslt.cc: what its descriptors say, whether it is supported, and its
 * sums in double.
 */
#ifndef FP8CONV_TESTS_SIMT_CUBLASLT_PROBLEM_H
#define FP8CONV_TESTS_SIMT_CUBLASLT_PROBLEM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <initializer_list>
#include <vector>

extern "C" {
#include "kernels/gpu/cuda/cublaslt.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"
}
#include "num/float16.h"
#include "num/fp8.h"

#define SUCCESS	    0
#define NOT_READY   1
#define BAD_VALUE   7
#define FAILED	    13
#define UNSUPPORTED 15

struct desc {
	int32_t transposed[2], modes[2];
	const void *scales[2], *d_scale;
	void *amax;
	int8_t fast;
};

struct layout {
	int type;
	uint64_t rows, cols;
	int64_t stride;
};
static bool is_fp8(int type)
{
	return type == LT_R_8F_E4M3 || type == LT_R_8F_E5M2;
}

static size_t type_size(int type)
{
	return is_fp8(type) ? 1 : type == LT_R_16BF ? 2 : 4;
}

static double load(int type, const void *data, size_t i)
{
	if (type == LT_R_16BF)
		return bf16_to_f32(static_cast<const uint16_t *>(data)[i]);
	if (is_fp8(type))
		return fp8_to_f32(type == LT_R_8F_E4M3 ? FP8_E4M3 : FP8_E5M2,
				  static_cast<const uint8_t *>(data)[i]);
	return static_cast<const float *>(data)[i];
}

static void store(int type, void *data, size_t i, float v, float scale)
{
	if (type == LT_R_16BF)
		static_cast<uint16_t *>(data)[i] = bf16_from_f32(v);
	else if (is_fp8(type))
		static_cast<uint8_t *>(data)[i] =
			fp8_from_f32(type == LT_R_8F_E4M3 ? FP8_E4M3 : FP8_E5M2, v * scale);
	else
		static_cast<float *>(data)[i] = v;
}

/* "Scaling factors layouts" and "1D Block Scaling Factors Layout": of element l along K of row i of
 * M (or column i of N). */
static double scale_at(int mode, const void *scales, size_t i, size_t l, size_t rows, size_t k)
{
	const float *floats = static_cast<const float *>(scales);
	size_t k4 = ((k + 127) / 128 + 3) / 4 * 4,
	       blocks = ((k + 31) / 32 + 3) / 4 * 4; /* in a row, to 4 */
	size_t inner = l / 32, outer = i % 128, tile = (inner / 4 * 4 + i / 128 * blocks) * 128;

	switch (mode) {
	case LT_SCALE_VEC128_32F:
		return floats[i + l / 128 * rows];
	case LT_SCALE_BLK128x128_32F:
		return floats[l / 128 + i / 128 * k4];
	case LT_SCALE_VEC32_UE8M0:
		return ldexp(1,
			     static_cast<const uint8_t *>(
				     scales)[tile + outer % 32 * 16 + outer / 32 * 4 + inner % 4] -
				     127);
	default:
		return floats ? floats[0] : 1;
	}
}

/* --- what is refused --- */

struct problem {
	const struct desc *desc;
	const struct layout *a, *b, *c, *d;
	size_t m, n, k;
};

static bool shapes_agree(struct problem *p)
{
	const struct desc *desc = p->desc;
	size_t b_k = desc->transposed[1] ? p->b->cols : p->b->rows;

	p->m = desc->transposed[0] ? p->a->cols : p->a->rows;
	p->k = desc->transposed[0] ? p->a->rows : p->a->cols;
	p->n = desc->transposed[1] ? p->b->rows : p->b->cols;
	for (const struct layout *l : { p->a, p->b, p->c, p->d }) {
		if (l->rows == 0 || l->cols == 0 || l->stride < (int64_t)l->rows)
			return false;
	}
	return b_k == p->k && p->d->rows == p->m && p->d->cols == p->n && p->c->rows == p->m &&
	       p->c->cols == p->n;
}

static bool types_known(const struct problem *p)
{
	int a = p->a->type, b = p->b->type, d = p->d->type;
	bool e5m2 = a == LT_R_8F_E5M2 || b == LT_R_8F_E5M2;

	if (!is_fp8(d) && p->c->type != d)
		return false;
	if (is_fp8(d) && p->c->type != LT_R_16BF)
		return false;
	if (a == LT_R_16BF || b == LT_R_16BF || a == LT_R_32F || b == LT_R_32F)
		return a == b && !is_fp8(d) && (d == a || d == LT_R_32F);
	if (a == LT_R_8F_E5M2 && b == LT_R_8F_E5M2)
		return false;
	return d != LT_R_8F_E5M2 || e5m2;
}

static bool modes_known(const struct problem *p)
{
	const int *modes = p->desc->modes;
	bool block = modes[0] == LT_SCALE_VEC128_32F || modes[0] == LT_SCALE_BLK128x128_32F;
	bool other = modes[1] == LT_SCALE_VEC128_32F || modes[1] == LT_SCALE_BLK128x128_32F;

	if (modes[0] == LT_SCALE_SCALAR && modes[1] == LT_SCALE_SCALAR)
		return simt_capability >= 89;
	if (p->desc->fast ||
	    is_fp8(p->d->type)) /* codes of MX blocks would need a place for their scales */
		return false;
	if (modes[0] == LT_SCALE_VEC32_UE8M0 && modes[1] == LT_SCALE_VEC32_UE8M0)
		return simt_capability >= 100 && simt_capability < 120;
	return block && other && simt_capability == 90 && p->m % 4 == 0 && p->n % 4 == 0 &&
	       !(modes[0] == LT_SCALE_BLK128x128_32F && modes[1] == LT_SCALE_BLK128x128_32F);
}

static bool aligned_16(const struct problem *p, const uint32_t alignments[4])
{
	const struct layout *layouts[] = { p->a, p->b, p->c, p->d };

	for (int i = 0; i < 4; i++) {
		if (layouts[i]->rows * type_size(layouts[i]->type) % 16 ||
		    layouts[i]->stride * type_size(layouts[i]->type) % 16 || alignments[i] < 16)
			return false;
	}
	return true;
}

static int judge(struct problem *p, const uint32_t alignments[4])
{
	const struct desc *desc = p->desc;
	bool tn = desc->transposed[0] && !desc->transposed[1];
	bool scaled = desc->scales[0] || desc->scales[1] || desc->modes[0] || desc->modes[1];

	if (!shapes_agree(p) || !types_known(p))
		return BAD_VALUE;
	if (!is_fp8(p->a->type))
		return scaled || desc->d_scale || desc->amax || desc->fast ? BAD_VALUE : SUCCESS;
	if (!is_fp8(p->d->type) && (desc->d_scale || desc->amax))
		return BAD_VALUE;
	for (int i = 0; i < 2; i++) {
		if (desc->modes[i] &&
		    (!desc->scales[i] || reinterpret_cast<uintptr_t>(desc->scales[i]) % 16))
			return BAD_VALUE;
	}
	if (!modes_known(p) || (!tn && (simt_capability < 100 || simt_capability >= 120)) ||
	    !aligned_16(p, alignments))
		return UNSUPPORTED;
	return SUCCESS;
}

static uint64_t problem_hash(const struct problem *p, bool any_cols)
{
	const struct layout *layouts[] = { p->a, p->b, p->c, p->d };
	uint64_t hash = 14695981039346656037u;
	auto mix = [&hash](uint64_t v) { hash = (hash ^ v) * 1099511628211u; };

	for (const struct layout *l : layouts) {
		mix((uint64_t)l->type);
		mix(l->rows);
		mix(any_cols && l != p->a ? 0 : l->cols);
		mix((uint64_t)l->stride);
	}
	for (int i = 0; i < 2; i++) {
		mix((uint64_t)p->desc->modes[i]);
		mix((uint64_t)p->desc->transposed[i]);
	}
	mix(p->desc->amax != NULL);
	mix(p->desc->d_scale != NULL);
	mix((uint64_t)p->desc->fast);
	return hash;
}

/* --- the product --- */

/* The elements along K of row i of M (side 0), or of column i of N (side 1), times their scales. */
static void elements(const struct problem *p, int side, const void *data, size_t i, double *values)
{
	const struct desc *d = p->desc;
	const struct layout *layout = side ? p->b : p->a;
	size_t stride = layout->stride, rows = side ? p->n : p->m;
	bool along = side ? !d->transposed[1] : d->transposed[0];

	for (size_t l = 0; l < p->k; l++) {
		values[l] = load(layout->type, data, along ? l + i * stride : i + l * stride) *
			    scale_at(d->modes[side], d->scales[side], i, l, rows, p->k);
	}
}

/* In four sums, none of which waits for another. */
static double sum_of(const double *a, const double *b, size_t k)
{
	double sums[4] = { 0 };
	size_t l = 0;

	for (; l + 4 <= k; l += 4) {
		sums[0] += a[l] * b[l];
		sums[1] += a[l + 1] * b[l + 1];
		sums[2] += a[l + 2] * b[l + 2];
		sums[3] += a[l + 3] * b[l + 3];
	}
	for (; l < k; l++)
		sums[0] += a[l] * b[l];
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void multiply(const struct problem *p, const float *scalars, const void *a, const void *b,
		     const void *c, void *d)
{
	float scale = p->desc->d_scale ? *static_cast<const float *>(p->desc->d_scale) : 1,
	      amax = 0;
	std::vector<double> rows(p->m * p->k), column(p->k);

	for (size_t i = 0; i < p->m; i++)
		elements(p, 0, a, i, &rows[i * p->k]);
	for (size_t j = 0; j < p->n; j++) {
		elements(p, 1, b, j, column.data());
		for (size_t i = 0; i < p->m; i++) {
			double v = scalars[0] * sum_of(&rows[i * p->k], column.data(), p->k);

			if (scalars[1] != 0)
				v += scalars[1] * load(p->c->type, c, i + j * p->c->stride);
			amax = fmaxf(amax, fabsf((float)v));
			store(p->d->type, d, i + j * p->d->stride, (float)v, scale);
		}
	}
	if (p->desc->amax)
		*static_cast<float *>(p->desc->amax) = amax;
}

#endif
