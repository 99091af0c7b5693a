/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/weight_matrix.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "source/fp8_source.h"
#include "source/unpack.h"

#define BAND_SIZE ((uint64_t)4 << 20) /* bytes as fp32, unless a tile is larger */
#define LINES	  128 /* lines of a band are a multiple, so that readable tiles are whole */

/* The matrix as a unit of the source. */
struct layout {
	struct unit unit;
	uint64_t first_row; /* of the matrix, in a stack */
	bool by_column;	    /* bands are whole columns, which are contiguous in the file */
};

/* Places a matrix in a stack of FP8 matrices, where it must have whole tiles. */
static int place_in_stack(struct layout *layout, const struct linear_ref *ref, struct err *err)
{
	const struct st_tensor *tensor = ref->weight->tensor;
	uint64_t rows = tensor->shape[1], cols = tensor->shape[2];
	size_t tile = layout->unit.source_scale.tile.rows;

	layout->first_row = ref->slice.first / cols;
	if (ref->slice.col_stride != 1 || (tile != WHOLE && layout->first_row % rows % tile))
		return err_set(err, ERR_INPUT,
			       "FP8 tensor '%s' stores '%s' transposed or in part of a block, "
			       "which is unsupported: dequantize it first",
			       tensor->name, ref->module);
	layout->unit.rows = tensor->shape[0] * rows;
	layout->unit.stack = rows;
	return 0;
}

static int layout_make(struct layout *layout, const struct weight_reader *reader,
		       const struct linear_ref *ref, struct err *err)
{
	enum dtype dtype = ref->weight->tensor->dtype;

	*layout = (struct layout){ .unit = { .name = ref->weight->tensor->name,
					     .source = ref->weight,
					     .rows = ref->n,
					     .cols = ref->k,
					     .slice = ref->slice },
				   .by_column = ref->slice.col_stride != 1 };
	layout->unit.low_bit = low_bit_of_model(ref->weight);
	if (layout->unit.low_bit)
		return unpack_check_shape(reader->source, layout->unit.low_bit, err);
	if (detection_is_weight(ref->weight)) {
		if (fp8_source_scale(reader->detection, ref->weight, &layout->unit.source_scale,
				     err))
			return -1;
		if (ref->weight->tensor->n_dims == 3) {
			layout->unit.slice =
				(struct slice){ .row_stride = ref->k, .col_stride = 1 };
			return place_in_stack(layout, ref, err);
		}
		return layout->by_column ? err_set(err, ERR_INPUT,
						   "FP8 tensor '%s' is transposed, which is "
						   "unsupported: dequantize it first",
						   ref->weight->tensor->name)
					 : 0;
	}
	if (dtype == DT_BF16 || dtype == DT_F16 || dtype == DT_F32)
		return 0;
	return err_set(
		err, ERR_INPUT,
		"tensor '%s' has the unsupported type %s: a weight must be BF16, F16, F32, FP8 or "
		"4 bits",
		ref->weight->tensor->name, dtype_name(dtype));
}

/* Is the matrix multiplied in FP8? */
static bool in_fp8(const struct weight_reader *reader, const struct linear_ref *ref)
{
	return reader->fp8 && fp8_forward_cast(reader->fp8, ref);
}

/* Writes the rows of a band to their places, from element `first` of the matrix on.  line has
 * memory for one row. */
static void place(const struct matrix *x, size_t first, const struct weight_reader *reader,
		  const struct weight_matrix *matrix, float *line)
{
	bool is_bf16 = matrix->dtype == DT_BF16,
	     round = reader->round && !in_fp8(reader, matrix->ref);

	for (size_t row = 0; row < x->rows; row++, first += matrix->ref->k) {
		float *to = is_bf16 ? line : (float *)matrix->values + first;

		if (is_bf16 && x->dtype == DT_BF16) {
			memcpy((uint16_t *)matrix->values + first,
			       (const uint16_t *)x->data + row * x->stride,
			       x->cols * sizeof(uint16_t));
			continue;
		}
		matrix_row(x, row, to);
		if (is_bf16)
			reader->host->round_bf16(line, x->cols, (uint16_t *)matrix->values + first);
		else if (round)
			reader->host->round_bf16_f32(to, x->cols, to);
	}
}

/* Bands of lines of a matrix: rows, or columns. */
struct line_bands {
	uint64_t all, across; /* lines, and the values of each */
	uint64_t lines;	      /* of a band: whole tiles */
};

static struct line_bands bands_of(const struct weight_reader *reader,
				  const struct weight_matrix *matrix, bool by_column)
{
	const struct linear_ref *ref = matrix->ref;
	struct line_bands bands = { .all = by_column ? ref->k : matrix->n,
				    .across = by_column ? matrix->n : ref->k };
	struct tile tile = { 1, 1 };
	uint64_t unit, n;

	if (in_fp8(reader, ref))
		tile = fp8_forward_tile(reader->fp8, ref);
	unit = by_column ? tile.cols : tile.rows;
	unit = unit == WHOLE ? bands.all : unit < LINES ? LINES : unit;
	n = BAND_SIZE / sizeof(float) / bands.across / unit;
	bands.lines = n > 1 ? n * unit : unit;
	if (bands.lines > bands.all)
		bands.lines = bands.all;
	return bands;
}

struct band_buffers {
	struct source_buffers source;
	void *values; /* of codes in FP8 */
	float *line;
};

static int buffers_alloc(struct band_buffers *buffers, const struct weight_reader *reader,
			 const struct weight_matrix *matrix, const struct layout *layout,
			 uint64_t n_values, struct err *err)
{
	uint64_t size = n_values * sizeof(float);

	buffers->source.size = size;
	buffers->line = xcalloc(matrix->ref->k, sizeof *buffers->line);
	if (buffer_alloc(&buffers->source.matrix, size, "part of a weight", err))
		return -1;
	if (unit_needs_raw(&layout->unit) &&
	    buffer_alloc(&buffers->source.raw, size, "part of a weight as it is stored", err))
		return -1;
	return matrix->values && in_fp8(reader, matrix->ref)
		       ? buffer_alloc(&buffers->values, size, "part of a weight in FP8", err)
		       : 0;
}

static int weight_matrix_refuse(const struct weight_matrix *matrix, uint64_t n_nonfinite,
				struct err *err)
{
	const char *name = matrix->ref->weight->tensor->name;
	const char *values = n_nonfinite == 1 ? "value that is" : "values that are";

	if (matrix->n == matrix->ref->n)
		return err_set(err, ERR_INPUT, "tensor '%s' has %" PRIu64 " %s NaN or infinite",
			       name, n_nonfinite, values);
	return err_set(err, ERR_INPUT,
		       "rows %zu to %zu of tensor '%s' have %" PRIu64 " %s NaN or infinite",
		       matrix->first, matrix->first + matrix->n - 1, name, n_nonfinite, values);
}

/* Adds the values of a band to the amax of the matrix, and counts its NaN and infinities. */
static int look_at(const struct weight_reader *reader, struct weight_matrix *matrix,
		   const struct matrix *x, uint64_t *n_nonfinite, struct err *err)
{
	const struct backend *backend = reader->source->backend;

	backend_amax(backend, x, (struct tile){ WHOLE, WHOLE }, &matrix->amax, 1, n_nonfinite);
	return backend_failed(backend, matrix->ref->weight->tensor->name, err);
}

/* Is every value one of bf16? */
static bool all_bf16(const struct matrix *x)
{
	const float *values = x->data;
	uint32_t bits = 0;

	for (size_t i = 0; i < x->rows * x->cols; i++)
		bits |= f32_bits(values[i]);
	return (bits & 0xFFFF) == 0;
}

/* Writes a band, which begins at element `first` of the matrix, as the matrix is wanted. */
static int keep(const struct weight_reader *reader, struct weight_matrix *matrix, size_t first,
		const struct matrix *x, const struct band_buffers *buffers, struct err *err)
{
	struct matrix values = *x;

	if (in_fp8(reader, matrix->ref)) {
		if (fp8_forward_quantize(reader->fp8, matrix->ref, x, buffers->values, &values,
					 err))
			return -1;
		if (matrix->dtype == DT_BF16 && !all_bf16(&values))
			matrix->inexact = true;
	}
	place(&values, first, reader, matrix, buffers->line);
	return 0;
}

int weight_matrix_read(const struct weight_reader *reader, struct weight_matrix *matrix,
		       struct err *err)
{
	const struct linear_ref *ref = matrix->ref;
	struct band_buffers buffers = { 0 };
	uint64_t n_nonfinite = 0;
	struct layout layout;
	struct line_bands bands;
	int rc = -1;

	matrix->amax = 0;
	matrix->inexact = false;
	if (layout_make(&layout, reader, ref, err))
		return -1;
	bands = bands_of(reader, matrix, layout.by_column);
	if (buffers_alloc(&buffers, reader, matrix, &layout, bands.lines * bands.across, err))
		goto out;
	for (uint64_t i = 0, n; i < bands.all; i += n) {
		uint64_t row = layout.first_row + matrix->first;
		struct source_request request = { .unit = &layout.unit, .buffers = buffers.source };
		struct matrix x;

		n = bands.all - i < bands.lines ? bands.all - i : bands.lines;
		request.rect = layout.by_column ? (struct rect){ row, i, matrix->n, n }
						: (struct rect){ row + i, 0, n, ref->k };
		if (source_read(reader->source, &request, &x, err) ||
		    look_at(reader, matrix, &x, &n_nonfinite, err) ||
		    (matrix->values &&
		     keep(reader, matrix, layout.by_column ? i : i * ref->k, &x, &buffers, err)))
			goto out;
	}
	rc = n_nonfinite ? weight_matrix_refuse(matrix, n_nonfinite, err) : 0;
out:
	free(buffers.source.matrix);
	free(buffers.source.raw);
	free(buffers.values);
	free(buffers.line);
	return rc;
}
