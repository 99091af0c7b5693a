/* SPDX-License-Identifier: Apache-2.0
 *
 * All packings have the low nibble of a byte before the high one, so that element e of a tensor is
 * in byte e / 2, and its scale is e / group of the scales.
 */
#include "source/unpack.h"

#include <inttypes.h>
#include <string.h>

#include "backend/matrix.h"
#include "num/e8m0.h"
#include "num/float16.h"
#include "num/fp4.h"
#include "num/fp8.h"
#include "num/int4.h"

/* The values of two elements, without their scale. */
union value_pair {
	float values[2];
	uint64_t both;
};

/* A weight while it is read. */
struct unpacking {
	const struct low_bit_weight *weight;
	size_t scale_size;	     /* bytes */
	float global;		     /* 1 without one */
	union value_pair pairs[256]; /* by byte of codes */
};

static void unpacking_pairs(struct unpacking *unpacking)
{
	float (*value)(uint8_t) =
		unpacking->weight->packing->dtype == DT_INT4 ? int4_to_f32 : fp4_to_f32;

	for (unsigned byte = 0; byte < 256; byte++) {
		unpacking->pairs[byte].values[0] = value((uint8_t)byte);
		unpacking->pairs[byte].values[1] = value((uint8_t)(byte >> 4));
	}
}

static float scale_at(const struct unpacking *unpacking, const uint8_t *scales, size_t i)
{
	float scale;

	switch (unpacking->weight->scale->tensor->dtype) {
	case DT_BF16:
	case DT_F16:
		return float_at(scales, unpacking->weight->scale->tensor->dtype, i);
	case DT_F8_E4M3:
		scale = fp8_e4m3_to_f32(scales[i]);
		return unpacking->weight->packing->global_divides ? scale / unpacking->global
								  : scale * unpacking->global;
	default:
		return e8m0_to_f32(scales[i]);
	}
}

/* Unpacks elements [first, first + n) of the group at codes. */
static void unpack_group(const struct unpacking *unpacking, const uint8_t *codes, size_t first,
			 size_t n, float scale, float *values)
{
	for (size_t i = first; i < first + n; i++)
		*values++ = unpacking->pairs[codes[i / 2]].values[i % 2] * scale;
}

/* The same for a whole group: two loads of 8 bytes and one product for four values. */
static void unpack_whole(const struct unpacking *unpacking, const uint8_t *codes, size_t group,
			 float scale, float *values)
{
	typedef float four __attribute__((vector_size(16)));
	typedef uint64_t two __attribute__((vector_size(16)));
	const union value_pair *pairs = unpacking->pairs;
	const four scales = { scale, scale, scale, scale };

	for (size_t i = 0; i < group / 2; i += 2) {
		two both = { pairs[codes[i]].both, pairs[codes[i + 1]].both };
		four products = (four)both * scales;

		memcpy(values + 2 * i, &products, sizeof products);
	}
}

/* Unpacks n elements of a row.  codes and scales are of the first one's group, whose first
 * `skip` elements are left out. */
static void unpack_row(const struct unpacking *unpacking, const uint8_t *codes,
		       const uint8_t *scales, uint64_t skip, uint64_t n, float *values)
{
	size_t group = unpacking->weight->packing->group, length;

	for (size_t g = 0; n; g++) {
		float scale = scale_at(unpacking, scales, g);

		length = n < group - skip ? n : group - skip;
		if (length == group)
			unpack_whole(unpacking, codes, group, scale, values);
		else
			unpack_group(unpacking, codes, skip, length, scale, values);
		codes += group / 2;
		values += length;
		n -= length;
		skip = 0;
	}
}

static int read_global(struct source *source, struct unpacking *unpacking, struct err *err)
{
	if (!unpacking->weight->global)
		return 0;
	return source_read_floats(source,
				  &(struct floats_request){ unpacking->weight->global, false, 0, 1,
							    source->check_scales },
				  &unpacking->global, err);
}

/* Rows of elements in the file. */
struct rows {
	uint64_t first; /* element, at the beginning of a group */
	uint64_t skip;	/* of the elements from first on, in every row */
	uint64_t n, size, stride;
};

/* Returns the bytes of codes from the first element of n rows to the last one. */
static uint64_t span_codes(const struct unpacking *unpacking, const struct rows *rows, uint64_t n)
{
	size_t group = unpacking->weight->packing->group;
	uint64_t size = (rows->skip + rows->size + group - 1) / group * group;

	return ((n - 1) * rows->stride + size) / 2;
}

static uint64_t span_scales(const struct unpacking *unpacking, uint64_t codes)
{
	return codes * 2 / unpacking->weight->packing->group * unpacking->scale_size;
}

/* Returns the number of rows to read at once: together they lie close, and fit the buffer. */
static uint64_t rows_at_once(const struct unpacking *unpacking, const struct rows *rows,
			     uint64_t buffer)
{
	uint64_t row = rows->stride / 2 + span_scales(unpacking, rows->stride / 2);
	uint64_t n = row ? buffer / row : 1;

	if (rows->stride > 2 * rows->size || n < 1)
		return 1;
	return n < rows->n ? n : rows->n;
}

/* Reads the codes of all rows to buffers.raw, and behind them *scales. */
static int read_packed(struct source *source, const struct source_request *request,
		       const struct unpacking *unpacking, const struct rows *rows,
		       const uint8_t **scales, struct err *err)
{
	const struct low_bit_weight *weight = unpacking->weight;
	uint64_t n_codes = span_codes(unpacking, rows, rows->n);
	uint8_t *codes = request->buffers.raw;

	*scales = codes + n_codes;
	if (source_read_bytes(source, weight->packed, rows->first / 2, n_codes, codes, err))
		return -1;
	return source_read_bytes(source, weight->scale,
				 rows->first / weight->packing->group * unpacking->scale_size,
				 span_scales(unpacking, n_codes), codes + n_codes, err);
}

/* Unpacks all rows, of which these are the codes and scales. */
static void unpack_rows(const struct unpacking *unpacking, const struct rows *rows,
			const uint8_t *codes, const uint8_t *scales, float *values)
{
	size_t group = unpacking->weight->packing->group;

	for (uint64_t i = 0; i < rows->n; i++) {
		uint64_t at = i * rows->stride;

		unpack_row(unpacking, codes + at / 2, scales + at / group * unpacking->scale_size,
			   rows->skip, rows->size, values + i * rows->size);
	}
}

static int read_rows(struct source *source, const struct source_request *request,
		     const struct unpacking *unpacking, const struct rows *rows, float *values,
		     struct err *err)
{
	uint64_t step = rows_at_once(unpacking, rows, request->buffers.size);

	for (uint64_t r = 0; r < rows->n; r += step) {
		struct rows some = *rows;
		const uint8_t *scales;

		some.first += r * rows->stride;
		some.n = rows->n - r < step ? rows->n - r : step;
		if (read_packed(source, request, unpacking, &some, &scales, err))
			return -1;
		unpack_rows(unpacking, &some, request->buffers.raw, scales,
			    values + r * rows->size);
	}
	return 0;
}

/* Returns the rows of a rect of a unit whose rows are rows of the file. */
static struct rows rows_of(const struct source_request *request)
{
	const struct unit *unit = request->unit;
	const struct rect *rect = &request->rect;
	uint64_t first = unit->slice.first + rect->row * unit->slice.row_stride + rect->col;
	uint64_t skip = first % unit->low_bit->packing->group;

	return (struct rows){ .first = first - skip,
			      .skip = skip,
			      .n = rect->n_rows,
			      .size = rect->n_cols,
			      .stride = unit->slice.row_stride };
}

static struct unpacking unpacking_of(const struct low_bit_weight *weight)
{
	struct unpacking unpacking = { .weight = weight, .global = 1 };

	unpacking.scale_size = dtype_bits(weight->scale->tensor->dtype) / 8;
	unpacking_pairs(&unpacking);
	return unpacking;
}

/* Does what must be done before a rect is read. */
static int rect_begin(struct source *source, const struct source_request *request,
		      struct unpacking *unpacking, struct err *err)
{
	*unpacking = unpacking_of(request->unit->low_bit);
	return read_global(source, unpacking, err);
}

/* Reads a rect of a unit whose rows are rows of the file. */
static int unpack_plain(struct source *source, const struct source_request *request, float *values,
			struct err *err)
{
	struct rows rows = rows_of(request);
	struct unpacking unpacking;

	if (rect_begin(source, request, &unpacking, err))
		return -1;
	return read_rows(source, request, &unpacking, &rows, values, err);
}

bool unpack_has_fp4(const struct source_request *request)
{
	const struct unit *unit = request->unit;
	struct unpacking unpacking;
	struct rows rows;

	if (!unit->low_bit || unit->low_bit->packing->dtype != DT_MXFP4 ||
	    unit->slice.col_stride != 1)
		return false;
	unpacking = (struct unpacking){ .weight = unit->low_bit, .scale_size = 1 };
	rows = rows_of(request);
	return !rows.skip && rows.size % MXFP4_GROUP == 0 && rows.stride % MXFP4_GROUP == 0 &&
	       rows_at_once(&unpacking, &rows, request->buffers.size) == rows.n;
}

int unpack_read_fp4(struct source *source, const struct source_request *request,
		    struct fp4_matrix *x, struct err *err)
{
	struct rows rows = rows_of(request);
	struct unpacking unpacking;

	*x = (struct fp4_matrix){ .codes = request->buffers.raw,
				  .rows = rows.n,
				  .cols = rows.size,
				  .stride = rows.stride };
	if (rect_begin(source, request, &unpacking, err))
		return -1;
	return read_packed(source, request, &unpacking, &rows, &x->scales, err);
}

void unpack_fp4_rows(const struct unit *unit, const struct fp4_matrix *x, size_t row, size_t n,
		     float *values)
{
	struct unpacking unpacking = unpacking_of(unit->low_bit);
	struct rows rows = { .n = n, .size = x->cols, .stride = x->stride };

	unpack_rows(&unpacking, &rows, x->codes + row * x->stride / 2,
		    x->scales + row * x->stride / MXFP4_GROUP, values);
}

int unpack_check_shape(struct source *source, const struct low_bit_weight *weight, struct err *err)
{
	const struct st_tensor *tensor = &weight->tensor;
	bool is_wide = weight->shape && weight->shape->tensor->dtype == DT_I64;
	int32_t narrow[2] = { 0 };
	int64_t sides[2] = { 0 };

	if (!weight->shape)
		return 0;
	if (source_read_bytes(source, weight->shape, 0, is_wide ? sizeof sides : sizeof narrow,
			      is_wide ? (void *)sides : (void *)narrow, err))
		return -1;
	for (int i = 0; i < 2 && !is_wide; i++)
		sides[i] = narrow[i];
	if ((uint64_t)sides[0] == tensor->shape[0] && (uint64_t)sides[1] == tensor->shape[1])
		return 0;
	return err_set(err, ERR_INPUT,
		       "'%s' says [%" PRId64 ", %" PRId64 "], but '%s' packs [%" PRIu64 ", %" PRIu64
		       "]",
		       weight->shape->tensor->name, sides[0], sides[1],
		       weight->packed->tensor->name, tensor->shape[0], tensor->shape[1]);
}

int unpack_check_shapes(struct source *source, const struct low_bit *low_bit, struct err *err)
{
	for (size_t i = 0; i < low_bit->n; i++)
		if (unpack_check_shape(source, &low_bit->list[i], err))
			return -1;
	return 0;
}

/* Writes element i of the output. */
static void put(void *values, enum dtype dtype, uint64_t i, float value)
{
	if (dtype == DT_F32)
		((float *)values)[i] = value;
	else
		((uint16_t *)values)[i] =
			dtype == DT_BF16 ? bf16_from_f32(value) : f16_from_f32(value);
}

/* The same rect of a transposed unit: its columns are rows of the file.  A stack of matrices has
 * one matrix's after the other's. */
static int unpack_transposed(struct source *source, const struct source_request *request,
			     enum dtype dtype, void *values, struct err *err)
{
	const struct rect *rect = &request->rect;
	struct unit plain = *request->unit;
	struct source_request turned = *request;
	const float *from = request->buffers.matrix;
	uint64_t matrix = rect->row / plain.stack;

	plain.slice = (struct slice){ .row_stride = plain.stack, .col_stride = 1 };
	turned.unit = &plain;
	turned.rect = (struct rect){ .row = matrix * plain.cols + rect->col,
				     .col = rect->row % plain.stack,
				     .n_rows = rect->n_cols,
				     .n_cols = rect->n_rows };
	if (unpack_plain(source, &turned, request->buffers.matrix, err))
		return -1;
	for (uint64_t r = 0; r < rect->n_rows; r++)
		for (uint64_t c = 0; c < rect->n_cols; c++)
			put(values, dtype, r * rect->n_cols + c, from[c * rect->n_rows + r]);
	return 0;
}

int unpack_decode(struct source *source, const struct source_request *request, enum dtype dtype,
		  void *values, struct err *err)
{
	const struct rect *rect = &request->rect;
	const float *from = request->buffers.matrix;

	if (request->unit->slice.col_stride != 1)
		return unpack_transposed(source, request, dtype, values, err);
	if (dtype == DT_F32)
		return unpack_plain(source, request, values, err);
	if (unpack_plain(source, request, request->buffers.matrix, err))
		return -1;
	for (uint64_t i = 0; i < rect->n_rows * rect->n_cols; i++)
		put(values, dtype, i, from[i]);
	return 0;
}
