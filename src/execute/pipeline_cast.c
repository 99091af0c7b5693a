/* SPDX-License-Identifier: Apache-2.0
 *
 * The cast pass: converts bands to codes and scales, and writes both to their places in the file.
 */
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "execute/pipeline.h"
#include "plan/rescale.h"
#include "source/unpack.h"

/* SQNR is measured on all rows of units with up to SQNR_ALL elements.  Larger units use evenly
 * spaced rows with about SQNR_SAMPLE elements, independent of the bands: a hundred thousand
 * elements give it to 0.02 dB. */
#define SQNR_ALL    ((uint64_t)1 << 20)
#define SQNR_SAMPLE ((uint64_t)1 << 17)

/* Each has a MiB of output; together more is read than a disk has in flight. */
#define EXTENTS_AHEAD 8

/* Writes the scale of a table, a power of two, in the type of its tensor, once for all parts. */
static int write_table_scale(struct pipeline *pipeline, const struct band *band,
			     const struct quant_out *out, struct err *err)
{
	const struct output_shard *shard = pipeline->work.shard;
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];
	uint16_t scale = bf16_from_f32(*(const float *)out->scale_inv);

	if (pipeline->plan->groups[unit->scale_group].first != band->unit)
		return 0;
	return writer_pwrite(pipeline->work.writer, (const char *)&scale, sizeof scale,
			     shard->header_size + shard->tensors[band->output + 1].begin, err);
}

/* Writes the scales of a band to their place in the file: whole rows of the grid are contiguous. */
static int write_scales(struct pipeline *pipeline, struct write_queue *queue,
			const struct band *band, const struct quant_out *out, struct err *err)
{
	const struct plan *plan = pipeline->plan;
	const struct output_shard *shard = pipeline->work.shard;
	const struct st_tensor *scale = &shard->tensors[band->output + 1];
	const struct qspec *spec = plan->units[band->unit].spec;
	const struct unit *unit = &plan->selection.units[band->unit];
	struct tile tile = spec->tile;
	size_t size = scale_size(spec->scale_type);
	uint64_t grid_cols = tile_count(unit->cols, tile.cols);
	uint64_t n_rows = tile_count(band->rect.n_rows, tile.rows);
	uint64_t n_cols = tile_count(band->rect.n_cols, tile.cols);
	uint64_t col = tile.cols == WHOLE ? 0 : band->rect.col / tile.cols;
	uint64_t row = unit_tile_row(unit, tile, band->rect.row);
	uint64_t at = shard->header_size + scale->begin + (row * grid_cols + col) * size;

	/* Only one of the bands that share a tile writes its scale. */
	if ((tile.rows == WHOLE && band->rect.row % unit_matrix_rows(unit)) ||
	    (tile.cols == WHOLE && band->rect.col))
		return 0;
	if (unit->table)
		return write_table_scale(pipeline, band, out, err);
	if (n_cols == grid_cols)
		return write_queue_add(queue, out->scale_inv, n_rows * n_cols * size, at, err);
	for (uint64_t r = 0; r < n_rows; r++) {
		if (writer_pwrite(pipeline->work.writer,
				  (const char *)out->scale_inv + r * n_cols * size, n_cols * size,
				  at + r * grid_cols * size, err))
			return -1;
	}
	return 0;
}

/* A band and its codes. */
struct rounded {
	const struct qspec *spec;
	const struct quant_out *out;
	const struct unit *unit;
	struct matrix x;
	float *values;	       /* of x, where fp4 has what they are decoded from */
	struct fp4_matrix fp4; /* codes NULL: x has its values */
};

/* Returns the codes of rows [row, row + n) of the band. */
static struct quant_in rows_codes(const struct rounded *rounded, size_t row, size_t n)
{
	const struct qspec *spec = rounded->spec;
	const struct quant_out *out = rounded->out;
	size_t scale = (spec->tile.rows == WHOLE ? 0 : row / spec->tile.rows) * out->scale_stride;

	return (struct quant_in){ .codes = out->codes + row * out->stride,
				  .rows = n,
				  .cols = rounded->x.cols,
				  .stride = out->stride,
				  .format = spec->format,
				  .tile = spec->tile,
				  .scale_type = spec->scale_type,
				  .scale_inv = (char *)out->scale_inv +
					       scale * scale_size(spec->scale_type),
				  .scale_stride = out->scale_stride };
}

/* Adds the error of rows [row, row + n) of the band. */
static void rows_error(const struct backend *backend, const struct rounded *rounded, size_t row,
		       size_t n, struct error_stats *error)
{
	struct matrix rows = rounded->x;
	struct quant_in q = rows_codes(rounded, row, n);

	if (rounded->fp4.codes)
		unpack_fp4_rows(rounded->unit, &rounded->fp4, row, n,
				rounded->values + row * rows.stride);
	rows.data = (const char *)rows.data + row * rows.stride * dtype_bits(rows.dtype) / 8;
	rows.rows = n;
	backend_error(backend, &rows, &q, error);
}

/* Returns the distance of the measured rows; odd, so that it follows no period of the model. */
static uint64_t sqnr_step(const struct pipeline *pipeline, const struct unit *unit)
{
	uint64_t n = unit->rows * unit->cols;

	return n <= SQNR_ALL || pipeline->every_row ? 1 : n / SQNR_SAMPLE | 1;
}

/* Returns the number of values of a band other than zero whose code is zero. */
static uint64_t count_underflow(const struct rounded *rounded)
{
	const struct matrix *x = &rounded->x;
	const size_t size = dtype_bits(x->dtype) / 8;
	const uint32_t sign = 1u << (8 * size - 1);
	uint64_t n = 0;

	for (size_t row = 0; row < x->rows; row++) {
		const uint8_t *codes = rounded->out->codes + row * rounded->out->stride;
		const char *values = (const char *)x->data + row * x->stride * size;

		for (size_t col = 0; col < x->cols; col++) {
			uint32_t bits = 0;

			memcpy(&bits, values + col * size, size);
			n += !(codes[col] & 0x7F) && (bits & ~sign);
		}
	}
	return n;
}

static void band_stats(struct pipeline *pipeline, const struct band *band,
		       const struct rounded *rounded)
{
	uint64_t step = sqnr_step(pipeline, &pipeline->plan->selection.units[band->unit]);
	size_t n_rows = rounded->x.rows;
	struct output_figures *figures = &pipeline->outputs[band->output];
	struct error_stats error = { 0 };
	uint64_t n_underflow = 0;

	if (step == 1) {
		rows_error(pipeline->backend, rounded, 0, n_rows, &error);
	} else {
		for (uint64_t row = (step - band->rect.row % step) % step; row < n_rows;
		     row += step)
			rows_error(pipeline->backend, rounded, row, 1, &error);
	}
	if (pipeline->every_row)
		n_underflow = count_underflow(rounded);
	pthread_mutex_lock(&pipeline->lock);
	figures->error.signal += error.signal;
	figures->error.noise += error.noise;
	figures->n_underflow += n_underflow;
	figures->n_overflow += rounded->out->stats->saturated;
	pipeline->counts.saturated += rounded->out->stats->saturated;
	pipeline->counts.nonfinite += rounded->out->stats->nonfinite;
	pthread_mutex_unlock(&pipeline->lock);
}

static void add_changed(struct pipeline *pipeline, const struct band *band, uint64_t n_changed)
{
	pthread_mutex_lock(&pipeline->lock);
	pipeline->outputs[band->output].n_changed += n_changed;
	pthread_mutex_unlock(&pipeline->lock);
}

/* Decodes the codes of a low-bit weight into `values`, and compares them with the source. */
static void band_compare(struct pipeline *pipeline, const struct band *band,
			 const struct rounded *rounded, float *values)
{
	const struct matrix *x = &rounded->x;
	struct quant_in q = rows_codes(rounded, 0, x->rows);

	backend_dequantize(pipeline->backend, &q, DT_F32, values, x->cols);
	add_changed(pipeline, band, values_changed(x->data, values, x->rows * x->cols));
}

static struct source_tee preserved_tee(const struct pipeline *pipeline, size_t u)
{
	const struct plan *plan = pipeline->plan;
	const struct output_shard *shard;

	if (!pipeline->work.preserved)
		return (struct source_tee){ 0 };
	shard = &plan->preserved[plan->selection.units[u].source->shard];
	return (struct source_tee){ .writer = pipeline->work.preserved,
				    .offset = shard->header_size +
					      shard->tensors[plan->units[u].preserved].begin };
}

/* Reads and quantizes MXFP4 without decoding it.  *done becomes false where the backend does not
 * take it. */
static int quantize_fp4(struct pipeline *pipeline, const struct band *band,
			const struct source_request *request, struct rounded *rounded, bool *done,
			struct err *err)
{
	uint64_t n_changed = 0;

	*done = false;
	if (!pipeline->backend->quantize_fp4 || !unpack_has_fp4(request) ||
	    unit_needs_amax(request->unit, rounded->spec, &pipeline->limits))
		return 0;
	if (unpack_read_fp4(&pipeline->source, request, &rounded->fp4, err))
		return -1;
	*done = backend_quantize_fp4(pipeline->backend, &rounded->fp4, rounded->spec, rounded->out,
				     &n_changed);
	if (!*done) {
		rounded->fp4.codes = NULL;
		return 0;
	}
	rounded->values = request->buffers.matrix;
	rounded->x = (struct matrix){ .data = rounded->values,
				      .dtype = DT_F32,
				      .rows = band->rect.n_rows,
				      .cols = band->rect.n_cols,
				      .stride = band->rect.n_cols };
	add_changed(pipeline, band, n_changed);
	return 0;
}

/* Reads and quantizes the values of a band. */
static int quantize_values(struct pipeline *pipeline, const struct band *band,
			   const struct source_request *request, struct rounded *rounded,
			   struct err *err)
{
	const struct unit *unit = request->unit;
	const struct qspec *spec = rounded->spec;
	const float *amax = NULL; /* of whole matrices, or of rows */

	if (source_read(&pipeline->source, request, &rounded->x, err))
		return -1;
	if (unit_needs_amax(unit, spec, &pipeline->limits))
		amax = pipeline_known_amax(pipeline, band->unit) +
		       unit_tile_row(unit, spec->tile, band->rect.row);
	backend_cast(pipeline->backend, &rounded->x, spec, amax, 1, rounded->out);
	if (unit->low_bit)
		band_compare(pipeline, band, rounded, request->buffers.raw);
	return 0;
}

/* Replaces the nearest codes of a band by the store's codes, if the store has the unit. */
static int compensate_band(struct pipeline *pipeline, const struct pipeline_worker *worker,
			   const struct band *band, uint8_t *codes, struct err *err)
{
	const struct rect *rect = &band->rect;
	uint64_t cols = pipeline->plan->selection.units[band->unit].cols, n_moved = 0;
	size_t n = (size_t)(rect->n_rows * rect->n_cols);
	uint8_t *stored = worker->buffers.raw; /* free: the band is in buffers.matrix */
	struct store_span span;

	if (!pipeline->store || pipeline->places[band->unit].stage == STORE_NONE)
		return 0;
	span = (struct store_span){ pipeline->places[band->unit].stage,
				    pipeline->store->outcome.rho,
				    pipeline->places[band->unit].offset + rect->row * cols +
					    rect->col,
				    rect->n_cols == cols ? n : (size_t)rect->n_cols };
	for (uint8_t *to = stored; to < stored + n; to += span.n, span.offset += cols)
		if (store_read(pipeline->store, &span, to, err))
			return -1;
	for (size_t i = 0; i < n; i++)
		n_moved += codes[i] != stored[i];
	memcpy(codes, stored, n);
	pthread_mutex_lock(&pipeline->lock);
	pipeline->n_compensated += n;
	pipeline->n_moved += n_moved;
	pthread_mutex_unlock(&pipeline->lock);
	return 0;
}

/* Reads and quantizes one band; writes its codes to `codes` and its scales to the file. */
static int quantize_band(struct pipeline *pipeline, struct pipeline_worker *worker,
			 const struct band *band, uint8_t *codes, struct err *err)
{
	size_t u = band->unit;
	const struct unit *unit = &pipeline->plan->selection.units[u];
	const struct qspec *spec = pipeline->plan->units[u].spec;
	struct source_request request = { .unit = unit,
					  .rect = band->rect,
					  .buffers = worker->buffers,
					  .tee = preserved_tee(pipeline, u) };
	struct quant_stats stats = { 0 };
	struct quant_out out = { .codes = codes,
				 .stride = band->rect.n_cols,
				 .scale_stride = tile_count(band->rect.n_cols, spec->tile.cols),
				 .stats = &stats };
	size_t n_scales = tile_count(band->rect.n_rows, spec->tile.rows) * out.scale_stride;
	struct rounded rounded = { .spec = spec, .out = &out, .unit = unit };
	bool done;

	out.scale_inv = write_queue_take(&worker->queue, n_scales * scale_size(spec->scale_type));
	if (!out.scale_inv)
		out.scale_inv = worker->scales;
	if (quantize_fp4(pipeline, band, &request, &rounded, &done, err) ||
	    (!done && quantize_values(pipeline, band, &request, &rounded, err)))
		return -1;
	if (backend_failed(pipeline->backend, unit->name, err))
		return -1;
	if (stats.nonfinite && pipeline->params->on_nonfinite == NONFINITE_ERROR)
		return pipeline_refuse_nonfinite(pipeline, unit, &band->rect, &rounded.x, err);
	if (compensate_band(pipeline, worker, band, codes, err))
		return -1;
	band_stats(pipeline, band, &rounded);
	return write_scales(pipeline, &worker->queue, band, &out, err);
}

/* Writes the codes or values of part of the columns row by row. */
static int write_scattered(struct pipeline *pipeline, const struct band *band,
			   const struct extent *extent, const char *data, struct err *err)
{
	uint64_t size = output_element_size(pipeline->work.shard, band->output);
	uint64_t header = pipeline->work.shard->header_size;
	uint64_t out_row = pipeline->plan->selection.units[band->unit].cols * size;
	uint64_t row = band->rect.n_cols * size;

	for (uint64_t r = 0; r < band->rect.n_rows; r++) {
		if (writer_pwrite(pipeline->work.writer, data + r * row, row,
				  header + extent->begin + r * out_row, err))
			return -1;
	}
	return 0;
}

/* Returns the byte of the source where a band of OUTPUT_COPY begins: a unit with a slice is a
 * matrix of FP8 codes. */
static uint64_t copy_begin(const struct unit *unit, const struct output *output,
			   const struct band *band)
{
	return band->rect.col + (output->source == unit->source ? unit->slice.first : 0);
}

static int copy_band(struct pipeline *pipeline, const struct band *band, void *data,
		     struct err *err)
{
	const struct output *output = &pipeline->work.shard->outputs[band->output];
	const struct unit *unit = &pipeline->plan->selection.units[band->unit];

	if (source_read_bytes(&pipeline->source, output->source, copy_begin(unit, output, band),
			      (size_t)band->rect.n_cols, data, err))
		return -1;
	if (output->is_scale)
		return pipeline_check_scales(pipeline, band, data, err);
	if (!pipeline->plan->units[band->unit].same_codes || output->source != unit->source)
		return 0;
	return pipeline_check_codes(pipeline, band, data, err);
}

/* Counts the codes in raw that are not zero, and whose values in F16 are. */
static void count_vanished(struct pipeline *pipeline, const struct band *band, const uint8_t *raw,
			   const uint16_t *values)
{
	size_t n = (size_t)(band->rect.n_rows * band->rect.n_cols);
	uint64_t n_codes = 0, n_values = 0;

	for (size_t i = 0; i < n; i++) {
		n_codes += (raw[i] & 0x7F) != 0;
		n_values += (values[i] & 0x7FFF) != 0;
	}
	if (n_codes > n_values)
		add_changed(pipeline, band, n_codes - n_values);
}

static int decode_band(struct pipeline *pipeline, const struct source_request *request,
		       const struct band *band, void *data, struct err *err)
{
	enum dtype dtype = pipeline->work.shard->tensors[band->output].dtype;

	if (source_decode(&pipeline->source, request, dtype, data, err))
		return -1;
	if (dtype == DT_F16 && !request->unit->low_bit)
		count_vanished(pipeline, band, request->buffers.raw, data);
	return pipeline_check_values(pipeline, band, dtype, data, err);
}

/* Converts one band into data. */
static int convert_band(struct pipeline *pipeline, struct pipeline_worker *worker,
			const struct band *band, void *data, struct err *err)
{
	const struct output *output = &pipeline->work.shard->outputs[band->output];
	const struct unit *unit = &pipeline->plan->selection.units[output->unit];
	const struct source_request request = { .unit = unit,
						.rect = band->rect,
						.buffers = worker->buffers };

	switch (output->kind) {
	case OUTPUT_COPY:
		return copy_band(pipeline, band, data, err);
	case OUTPUT_PART:
		return source_read_part(&pipeline->source, unit, band->rect.col, band->rect.n_cols,
					data, err);
	case OUTPUT_VALUES:
		return decode_band(pipeline, &request, band, data, err);
	case OUTPUT_VALUE:
		memcpy(data, &output->value, sizeof output->value);
		return 0;
	case OUTPUT_RESCALED:
		return rescale_band(&pipeline->source, pipeline->plan, band, &worker->buffers, data,
				    err);
	case OUTPUT_CODES:
	case OUTPUT_SCALE: /* has no bands */
		break;
	}
	return quantize_band(pipeline, worker, band, data, err);
}

/* Reads the next extents ahead while workers wait for the disk to write. */
static int read_ahead(struct pipeline *pipeline, size_t item, struct err *err)
{
	const struct plan *plan = pipeline->plan;
	int rc = 0;

	if (item >= pipeline->work.n_extents || !writer_is_direct(pipeline->work.writer))
		return 0;
	for (size_t b = 0; !rc && b < pipeline->work.extents[item].n_bands; b++) {
		const struct band *band =
			&pipeline->work.all->bands[pipeline->work.extents[item].first_band + b];
		const struct output *output = &pipeline->work.shard->outputs[band->output];

		if (output->kind == OUTPUT_COPY)
			rc = source_read_ahead(
				&pipeline->source, output->source,
				copy_begin(&plan->selection.units[band->unit], output, band),
				band->rect.n_cols, err);
		else
			rc = band_read_ahead(pipeline, band, err);
	}
	return rc;
}

int pipeline_cast(void *context, int w, size_t item, struct err *err)
{
	struct pipeline *pipeline = context;
	const struct extent *extent = &pipeline->work.extents[item];
	const struct band *bands = &pipeline->work.all->bands[extent->first_band];
	uint64_t begin = pipeline->work.shard->header_size + extent->begin;
	struct pipeline_worker *worker = &pipeline->workers[w];
	uint64_t n = extent->end - extent->begin;
	char *data = write_queue_begin(&worker->queue, (size_t)n, begin, err);
	char *at = data;

	if (!data || read_ahead(pipeline, item + EXTENTS_AHEAD, err))
		return -1;
	for (size_t b = 0; b < extent->n_bands; b++) {
		const struct band *band = &bands[b];

		if (convert_band(pipeline, worker, band, at, err))
			return -1;
		at += band->rect.n_rows * band->rect.n_cols *
		      output_element_size(pipeline->work.shard, band->output);
	}
	atomic_fetch_add(&pipeline->progress->done, extent->input_bytes);
	if (extent->scattered)
		return write_scattered(pipeline, bands, extent, data, err);
	if (write_queue_add(&worker->queue, data, (size_t)n, begin, err))
		return -1;
	return write_queue_flush(&worker->queue, false, err);
}
