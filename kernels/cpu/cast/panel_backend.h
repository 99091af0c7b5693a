/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a backend over the row functions of an instruction set.  Included behind their
 * table, which has the name ops.
 */
static void rows_amax(const struct matrix *x, struct tile tile, float *amax, size_t amax_stride,
		      uint64_t *n_nonfinite)
{
	panel_amax(&ops, x, tile, amax, amax_stride, n_nonfinite);
}

static void rows_quantize(const struct matrix *x, const struct qspec *spec,
			  const struct quant_out *out)
{
	panel_quantize(&ops, x, spec, NULL, 0, out);
}

static void rows_cast(const struct matrix *x, const struct qspec *spec, const float *amax,
		      size_t amax_stride, const struct quant_out *out)
{
	panel_quantize(&ops, x, spec, amax, amax_stride, out);
}

static void rows_dequantize(const struct quant_in *q, enum dtype dtype, void *y, size_t y_stride)
{
	panel_dequantize(&ops, q, dtype, y, y_stride);
}

static void rows_error(const struct matrix *x, const struct quant_in *q, struct error_stats *stats)
{
	panel_error(&ops, x, q, stats);
}

/* The members of a struct backend that these functions fill. */
#define PANEL_BACKEND                                                    \
	.amax = rows_amax, .quantize = rows_quantize, .cast = rows_cast, \
	.quantize_fp4 = cpu_quantize_fp4, .dequantize = rows_dequantize, .error = rows_error
