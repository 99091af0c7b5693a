/* SPDX-License-Identifier: Apache-2.0
 *
 * Other tools' arithmetic, element by element: fp8conv-recipes(7) says what was measured.
 */
#include "verify/values/arithmetic.h"

#include <string.h>

#include "backend/matrix.h"
#include "num/bits.h"
#include "num/e8m0.h"
#include "num/fp8.h"
#include "num/scale.h"

static float bf16_round(float x)
{
	return bf16_to_f32(bf16_from_f32(x));
}

/* Columns [col, end) of a row, all in one tile. */
struct row_span {
	size_t row, col, end;
};

static void divide_row(const struct matrix *x, const struct qspec *spec,
		       const struct arithmetic *arithmetic, float divisor, struct row_span span,
		       uint8_t *codes)
{
	for (size_t col = span.col; col < span.end; col++) {
		float quotient = matrix_at(x, span.row, col) / divisor;

		codes[col] = fp8_from_f32(
			spec->format, arithmetic->fp32_quotient ? quotient : bf16_round(quotient));
	}
}

/* Divides by amax / fmax, in fp32 or bf16.  torch divides by a scale in fp32 without dimensions in
 * fp32, and rounds to the type of the weight. */
static void quantize_by_division(const struct arithmetic *arithmetic, const struct matrix *x,
				 const struct qspec *spec, const float *amax,
				 const struct quant_out *out)
{
	size_t n_cols = tile_count(x->cols, spec->tile.cols);
	size_t tile_rows = spec->tile.rows == WHOLE ? x->rows : spec->tile.rows;
	size_t tile_cols = spec->tile.cols == WHOLE ? x->cols : spec->tile.cols;

	for (size_t row = 0; row < x->rows; row++) {
		for (size_t t = 0; t < n_cols; t++) {
			size_t tile = row / tile_rows * n_cols + t, col = t * tile_cols;
			size_t end = x->cols - col < tile_cols ? x->cols : col + tile_cols;
			float scale = amax[tile] == 0 ? 1.0f : amax[tile] / scale_fmax(spec);
			float stored = arithmetic->fp32_stored ? scale : bf16_round(scale);

			divide_row(x, spec, arithmetic,
				   arithmetic->fp32_divisor ? scale : bf16_round(scale),
				   (struct row_span){ row, col, end },
				   out->codes + row * out->stride);
			memcpy((char *)out->scale_inv + 4 * tile, &stored, 4);
		}
	}
}

/* llm-compressor's MXFP8: one binade more where amax is exactly 448 * 2^k. */
static void quantize_mx_spare(const struct arithmetic *arithmetic, const struct matrix *x,
			      const struct qspec *spec, const float *amax,
			      const struct quant_out *out)
{
	size_t n_cols = tile_count(x->cols, spec->tile.cols);

	(void)arithmetic;
	for (size_t row = 0; row < x->rows; row++) {
		for (size_t t = 0; t < n_cols; t++) {
			size_t tile = row * n_cols + t, col = t * spec->tile.cols;
			size_t end =
				x->cols - col < spec->tile.cols ? x->cols : col + spec->tile.cols;
			uint8_t code = e8m0_from_amax(amax[tile], spec->format, MX_UP, 0);

			if (f32_bits(amax[tile]) << 9 == f32_bits(scale_fmax(spec)) << 9)
				code++;
			for (; col < end; col++)
				out->codes[row * out->stride + col] = fp8_from_f32(
					spec->format, matrix_at(x, row, col) * e8m0_factor(code));
			((uint8_t *)out->scale_inv)[tile] = code;
		}
	}
}

float arithmetic_zero_scale(const struct arithmetic *arithmetic)
{
	struct qspec spec = arithmetic->spec;
	struct scaling scaling;

	spec.scale_type = arithmetic->scale_type;
	scaling = scaling_from_amax(&spec, 0, F32_MAX);
	return spec.scale_type == SCALE_E8M0 ? e8m0_to_f32(scaling.e8m0) : scaling.scale_inv;
}

const struct arithmetic arithmetics[] = {
	{ .name = "power of two",
	  .who = "TransformerEngine, DeepSeek-V3.1",
	  .pow2 = true,
	  .spec = { .pow2 = true } },
	{ .name = "te", .who = "TransformerEngine" },
	{ .name = "deepseek",
	  .who = "DeepSeek-V3, ModelOpt, compressed-tensors in fp32",
	  .spec = { .arith = ARITH_DEEPSEEK } },
	{ .name = "deepgemm", .who = "DeepGEMM", .spec = { .arith = ARITH_DEEPGEMM } },
	{ .name = "deepseek, amax at least 1e-12",
	  .who = "slime",
	  .spec = { .arith = ARITH_DEEPSEEK, .amax_epsilon = 1e-12f } },
	{ .name = "deepseek, amax at least 1e-10",
	  .who = "SkyRL",
	  .spec = { .arith = ARITH_DEEPSEEK, .amax_epsilon = 1e-10f } },
	{ .name = "division in bf16",
	  .who = "llm-compressor, auto-round",
	  .quantize = quantize_by_division },
	{ .name = "quotients in bf16",
	  .who = "ModelOpt, per tensor",
	  .quantize = quantize_by_division,
	  .fp32_stored = true,
	  .fp32_divisor = true },
	{ .name = "division in bf16, another scale stored",
	  .who = "Quark",
	  .quantize = quantize_by_division,
	  .fp32_stored = true },
	{ .name = "scale in bf16",
	  .who = "torchao",
	  .quantize = quantize_by_division,
	  .fp32_quotient = true },
	{ .name = "power of two, amax at least 1e-4",
	  .who = "DeepGEMM",
	  .pow2 = true,
	  .spec = { .pow2 = true, .amax_epsilon = 1e-4f } },
	{ .name = "mx round up",
	  .who = "TransformerEngine, cuBLAS, ModelOpt",
	  .scale_type = SCALE_E8M0 },
	{ .name = "mx round up, a binade to spare",
	  .who = "llm-compressor",
	  .scale_type = SCALE_E8M0,
	  .quantize = quantize_mx_spare },
	{ .name = "mx floor",
	  .who = "the OCP text",
	  .scale_type = SCALE_E8M0,
	  .spec = { .mx_rule = MX_FLOOR } },
	{ .name = "mx even",
	  .who = "torchao",
	  .scale_type = SCALE_E8M0,
	  .spec = { .mx_rule = MX_EVEN } },
	{ 0 },
};
