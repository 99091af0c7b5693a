/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/fp8_values.h"

#include <math.h>

const struct fp8_recipe fp8_recipes[N_FP8_RECIPES] = {
	{ "blockwise", NULL, POWERS, { 128, 128 }, { 1, 128 } },
	{ "blockwise", "float", FLOATS, { 128, 128 }, { 1, 128 } },
	{ "mxfp8", NULL, EXPONENTS, { 1, 32 }, { 1, 32 } },
	{ "channelwise", NULL, FLOATS, { 1, WHOLE }, { 1, WHOLE } },
	{ "current", NULL, FLOATS, { WHOLE, WHOLE }, { WHOLE, WHOLE } },
	{ "current", "ue8m0", POWERS, { WHOLE, WHOLE }, { WHOLE, WHOLE } },
};

float e4m3(float v)
{
	int exponent;
	float step;

	frexpf(v, &exponent);
	step = ldexpf(1, exponent - 4 < -9 ? -9 : exponent - 4);
	return fmaxf(fminf(rintf(v / step) * step, 448), -448);
}

void fp8_values_fill(float *x, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		x[i] = ldexpf((float)(int32_t)seed, -31 - (int)(seed >> 3 & 7));
	}
}

static float scale_of(float amax, enum scales scales)
{
	if (scales == EXPONENTS)
		return ldexpf(1, -(int)ceilf(log2f(amax / 448)));
	return scales == POWERS ? ldexpf(1, (int)floorf(log2f(448 / amax))) : 448 / amax;
}

/* Of the tile whose first element is [row, col]. */
static void tile_values(const struct fp8_values *of, const float *x, size_t row, size_t col,
			struct tile tile, float *values)
{
	float amax = of->least, scale;

	for (size_t r = row; r < row + tile.rows && r < of->n_rows; r++)
		for (size_t c = col; c < col + tile.cols && c < of->n_cols; c++)
			amax = fmaxf(amax, fabsf(x[r * of->stride + c]));
	scale = scale_of(amax, of->scales);
	for (size_t r = row; r < row + tile.rows && r < of->n_rows; r++)
		for (size_t c = col; c < col + tile.cols && c < of->n_cols; c++)
			values[r * of->stride + c] =
				e4m3(x[r * of->stride + c] * scale) * (1 / scale);
}

void fp8_values(const struct fp8_values *of, const float *x, float *values)
{
	const struct tile tile = { of->tile.rows == WHOLE ? of->n_rows : of->tile.rows,
				   of->tile.cols == WHOLE ? of->n_cols : of->tile.cols };

	for (size_t row = 0; row < of->n_rows; row += tile.rows)
		for (size_t col = 0; col < of->n_cols; col += tile.cols)
			tile_values(of, x, row, col, tile, values);
}
