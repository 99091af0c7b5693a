/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/weight_matrix.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "source/fp8_source.h"
#include "num/float16.h"

#define BAND_SIZE ((uint64_t)4 << 20) /* bytes as fp32, unless a tile of an FP8 source is larger */
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
		"tensor '%s' has the unsupported type %s: a weight must be BF16, F16, F32 or FP8",
		ref->weight->tensor->name, dtype_name(dtype));
}

/* Writes the rows of a band to their places, from element `first` of the matrix on.  line has
 * memory for one row. */
static void place(const struct weight_reader *reader, const struct matrix *x, size_t first,
		  const struct weight_matrix *matrix, float *line)
{
	bool is_bf16 = matrix->dtype == DT_BF16;

	for (size_t row = 0; row < x->rows; row++, first += matrix->ref->k) {
		float *to = is_bf16 ? line : (float *)matrix->values + first;

		matrix_row(x, row, to);
		if (is_bf16)
			reader->host->round_bf16(line, x->cols, (uint16_t *)matrix->values + first);
		else if (reader->round)
			reader->host->round_bf16_f32(to, x->cols, to);
	}
}

/* Returns the lines of a band, of `all` lines with `across` values each. */
static uint64_t band_lines(uint64_t all, uint64_t across)
{
	uint64_t lines = BAND_SIZE / sizeof(float) / across / LINES * LINES;

	lines = lines ? lines : LINES;
	return lines < all ? lines : all;
}

struct band_buffers {
	struct source_buffers source;
	float *line;
};

static int buffers_alloc(struct band_buffers *buffers, uint64_t n_values, uint64_t cols, bool raw,
			 struct err *err)
{
	buffers->source.size = n_values * sizeof(float);
	buffers->line = xcalloc(cols, sizeof *buffers->line);
	if (buffer_alloc(&buffers->source.matrix, buffers->source.size, "part of a weight", err))
		return -1;
	return raw ? buffer_alloc(&buffers->source.raw, buffers->source.size,
				  "part of a weight as it is stored", err)
		   : 0;
}

static void buffers_release(struct band_buffers *buffers)
{
	free(buffers->source.matrix);
	free(buffers->source.raw);
	free(buffers->line);
}

static int weight_matrix_refuse(const struct weight_matrix *matrix, uint64_t n_nonfinite,
				struct err *err)
{
	const char *name = matrix->ref->weight->tensor->name;

	if (matrix->n == matrix->ref->n)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has %" PRIu64 " values that are NaN or infinite", name,
			       n_nonfinite);
	return err_set(err, ERR_INPUT,
		       "rows %zu to %zu of tensor '%s' have %" PRIu64
		       " values that are NaN or infinite",
		       matrix->first, matrix->first + matrix->n - 1, name, n_nonfinite);
}

int weight_matrix_read(const struct weight_reader *reader, struct weight_matrix *matrix,
		       struct err *err)
{
	const struct linear_ref *ref = matrix->ref;
	const struct tile whole = { WHOLE, WHOLE };
	struct band_buffers buffers = { 0 };
	uint64_t lines, all, across, n_nonfinite = 0;
	struct layout layout;
	int rc = -1;

	matrix->amax = 0;
	if (layout_make(&layout, reader, ref, err))
		return -1;
	all = layout.by_column ? ref->k : matrix->n;
	across = layout.by_column ? matrix->n : ref->k;
	lines = band_lines(all, across);
	if (buffers_alloc(&buffers, lines * across, ref->k, unit_needs_raw(&layout.unit), err))
		goto out;
	for (uint64_t i = 0; i < all; i += lines) {
		uint64_t now = all - i < lines ? all - i : lines;
		uint64_t row = layout.first_row + matrix->first;
		struct source_request request = {
			.unit = &layout.unit,
			.rect = { .row = row + i, .n_rows = now, .n_cols = ref->k },
			.buffers = buffers.source,
		};
		struct matrix x;
		float amax = 0;

		if (layout.by_column)
			request.rect = (struct rect){
				.row = row, .col = i, .n_rows = matrix->n, .n_cols = now
			};
		if (source_read(reader->source, &request, &x, err))
			goto out;
		backend_amax(reader->source->backend, &x, whole, &amax, 1, &n_nonfinite);
		if (backend_failed(reader->source->backend, ref->weight->tensor->name, err))
			goto out;
		matrix->amax = amax > matrix->amax ? amax : matrix->amax;
		if (matrix->values)
			place(reader, &x, layout.by_column ? i : i * ref->k, matrix, buffers.line);
	}
	rc = n_nonfinite ? weight_matrix_refuse(matrix, n_nonfinite, err) : 0;
out:
	buffers_release(&buffers);
	return rc;
}
