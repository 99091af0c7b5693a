/* SPDX-License-Identifier: Apache-2.0 */
#include "source/source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/matrix.h"
#include "base/mem.h"
#include "base/transpose.h"
#include "ckpt/gathered.h"
#include "source/unpack.h"
#include "num/e8m0.h"
#include "num/fp8.h"

#define MAX_OPEN 64 /* files at once: some systems let a process have 256 */

/* Read at once of elements that lie apart: a column of most experts. */
#define SPREAD_BYTES 16384

void source_init(struct source *source, const struct io *io, const struct checkpoint *checkpoint,
		 const struct backend *backend, int stream_fd)
{
	*source = (struct source){ .io = io,
				   .checkpoint = checkpoint,
				   .backend = backend,
				   .stream_fd = stream_fd,
				   .lock = PTHREAD_MUTEX_INITIALIZER };
	source->files = xcalloc(checkpoint->n_files, sizeof *source->files);
	for (size_t i = 0; i < checkpoint->n_files; i++)
		source->files[i].fd = -1;
}

/* Closes a file that is open.  rc as in source_close(). */
static int close_file(struct source *source, size_t i, int rc, struct err *err)
{
	const struct st_file *file = &source->checkpoint->files[i].file;
	struct source_file *open = &source->files[i];

	if (!rc)
		rc = io_check_unchanged(&(struct file){ source->io, open->fd, file->path },
					&file->identity, err);
	source->io->close(source->io, open->fd);
	open->fd = -1;
	source->n_open--;
	return rc;
}

static int open_file(struct source *source, size_t opened, struct err *err)
{
	const struct st_file *file = &source->checkpoint->files[opened].file;
	struct file_identity identity;
	int fd;

	for (size_t i = 0; source->n_open >= MAX_OPEN && i < source->checkpoint->n_files; i++)
		if (source->files[i].fd >= 0 && !source->files[i].n_users &&
		    close_file(source, i, 0, err))
			return -1;
	if (io_open_regular(source->io, AT_FDCWD, file->path, &fd, &identity, err))
		return -1;
	if (!file_identity_equal(&identity, &file->identity)) {
		source->io->close(source->io, fd);
		return err_set(err, ERR_INPUT, "'%s' changed while it was read", file->path);
	}
	source->io->fadvise(source->io, fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	source->files[opened].fd = fd;
	source->n_open++;
	return 0;
}

/* Finds the descriptor of a file, which stays open until source_done(). */
static int source_use(struct source *source, size_t file, int *fd, struct err *err)
{
	int rc = 0;

	pthread_mutex_lock(&source->lock);
	if (source->stream_fd < 0 && source->files[file].fd < 0)
		rc = open_file(source, file, err);
	*fd = source->stream_fd < 0 ? source->files[file].fd : source->stream_fd;
	source->files[file].n_users += !rc;
	pthread_mutex_unlock(&source->lock);
	return rc;
}

/* Returns rc. */
static int source_done(struct source *source, size_t file, int rc)
{
	pthread_mutex_lock(&source->lock);
	source->files[file].n_users--;
	pthread_mutex_unlock(&source->lock);
	return rc;
}

int source_codes(struct source *source, const struct unit *unit, const struct rect *rect,
		 uint8_t *codes, struct err *err)
{
	uint64_t first = unit->slice.first + rect->row * unit->cols;

	if (rect->n_cols == unit->cols)
		return source_read_bytes(source, unit->source, first,
					 (size_t)(rect->n_rows * rect->n_cols), codes, err);
	for (uint64_t r = 0; r < rect->n_rows; r++)
		if (source_read_bytes(source, unit->source, first + r * unit->cols + rect->col,
				      (size_t)rect->n_cols, codes + r * rect->n_cols, err))
			return -1;
	return 0;
}

/* A view_pread_fn. */
static int pread_file(void *context, size_t file, uint64_t offset, size_t n, void *data,
		      struct err *err)
{
	struct source *source = context;
	const char *path = source->checkpoint->files[file].file.path;
	int fd, rc;

	if (source_use(source, file, &fd, err))
		return -1;
	rc = io_pread_full(&(struct file){ source->io, fd, path }, data, n, offset, err);
	return source_done(source, file, rc);
}

int source_read_file(struct source *source, size_t shard, uint64_t offset, size_t n, void *data,
		     struct err *err)
{
	return pread_file(source, shard, offset, n, data, err);
}

int source_read_bytes(struct source *source, const struct tensor_ref *ref, uint64_t offset,
		      size_t n, void *data, struct err *err)
{
	const struct shard *shard = &source->checkpoint->shards[ref->shard];
	uint64_t begin = ref->tensor->begin + offset;

	if (shard->gathered
		    ? gathered_read(shard, &(struct view_range){ begin, n, data }, pread_file,
				    source, err)
		    : pread_file(source, ref->shard, shard->file.data_start + begin, n, data, err))
		return err_wrap(err, "tensor '%s'", ref->tensor->name);
	return 0;
}

/* Reads n contiguous elements of the file, from element `first` of the tensor. */
static int read_segment(struct source *source, const struct source_request *request, uint64_t first,
			uint64_t n, char *data, struct err *err)
{
	const struct tensor_ref *ref = request->unit->source;
	const struct source_tee *tee = &request->tee;
	size_t size = dtype_bits(ref->tensor->dtype) / 8;

	if (source_read_bytes(source, ref, first * size, (size_t)(n * size), data, err))
		return -1;
	if (!tee->writer)
		return 0;
	return writer_pwrite(tee->writer, data, (size_t)(n * size), tee->offset + first * size,
			     err);
}

/* Lines of elements in the file: the rows of a unit, or the columns of a transposed one. */
struct element_lines {
	uint64_t first; /* element of the tensor */
	uint64_t n;
	uint64_t size;	 /* elements of a line */
	uint64_t stride; /* elements from one line to the next */
	uint64_t step;	 /* elements from one of a line to the next: 2 in interleaved experts */
};

/* Moves n elements that lie `apart` bytes apart together.  Nearly all have 16 bits. */
static void gather(const char *from, size_t apart, char *to, size_t n, size_t size)
{
	if (size == 2) {
		for (size_t i = 0; i < n; i++)
			memcpy(to + 2 * i, from + apart * i, 2);
		return;
	}
	for (size_t i = 0; i < n; i++)
		memcpy(to + size * i, from + apart * i, size);
}

/* Reads the elements of a line that lie apart, together with those between them.  Of the units that
 * share them, only the one with the first element copies them to the tee. */
static int read_spread(struct source *source, const struct source_request *request,
		       const struct element_lines *lines, uint64_t first, char *data,
		       struct err *err)
{
	size_t size = dtype_bits(request->unit->source->tensor->dtype) / 8;
	size_t apart = lines->step * size;
	uint64_t max = SPREAD_BYTES / apart, offset = first % lines->step;
	struct source_request all = *request;
	char between[SPREAD_BYTES];

	if (offset)
		all.tee.writer = NULL;
	for (uint64_t at = 0, n; at < lines->size; at += n) {
		n = lines->size - at < max ? lines->size - at : max;
		if (read_segment(source, &all, first - offset + at * lines->step, n * lines->step,
				 between, err))
			return -1;
		gather(between + offset * size, apart, data + at * size, n, size);
	}
	return 0;
}

/* Reads the lines into memory without gaps. */
static int read_lines(struct source *source, const struct source_request *request,
		      const struct element_lines *lines, char *data, struct err *err)
{
	size_t size = dtype_bits(request->unit->source->tensor->dtype) / 8;

	if (lines->size == lines->stride && lines->step == 1)
		return read_segment(source, request, lines->first, lines->n * lines->size, data,
				    err);
	for (uint64_t i = 0; i < lines->n; i++) {
		uint64_t first = lines->first + i * lines->stride;
		char *line = data + i * lines->size * size;

		if (lines->step == 1 ? read_segment(source, request, first, lines->size, line, err)
				     : read_spread(source, request, lines, first, line, err))
			return -1;
	}
	return 0;
}

static float element_to_f32(const char *data, enum dtype dtype, size_t i)
{
	if (dtype_bits(dtype) == 8)
		return e8m0_to_f32((uint8_t)data[i]);
	return float_at(data, dtype, i);
}

static bool is_scale_type(enum dtype dtype)
{
	return dtype == DT_F32 || dtype == DT_BF16 || dtype == DT_F16 || dtype == DT_F8_E8M0 ||
	       dtype == DT_U8;
}

int source_check_scales(const struct source *source, const struct tensor_ref *ref, uint64_t first,
			size_t n, const void *elements, struct err *err)
{
	const struct st_tensor *tensor = ref->tensor;

	for (size_t i = 0; is_scale_type(tensor->dtype) && i < n; i++) {
		float scale = element_to_f32(elements, tensor->dtype, i);

		if (!(scale > 0) || isinf(scale))
			return err_set(err, ERR_INPUT,
				       "scale '%s' in '%s' is %g at %" PRIu64
				       ", but no code has a value unless its scale is finite and "
				       "above 0: 'fp8conv verify' lists all such scales",
				       tensor->name,
				       source->checkpoint->shards[ref->shard].file.path,
				       (double)scale, first + i);
	}
	return 0;
}

int source_read_floats(struct source *source, const struct floats_request *request, float *values,
		       struct err *err)
{
	enum dtype dtype = request->ref->tensor->dtype;
	size_t size = dtype_bits(dtype) / 8;

	if (size != 1 && dtype != DT_F32 && dtype != DT_BF16 && dtype != DT_F16)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has the type %s, but its values must be F32, BF16, F16 "
			       "or F8_E8M0",
			       request->ref->tensor->name, dtype_name(dtype));
	if (source_read_bytes(source, request->ref, request->first * size, request->n * size,
			      values, err) ||
	    (request->are_scales &&
	     source_check_scales(source, request->ref, request->first, request->n, values, err)))
		return -1;
	/* Narrower values are widened in place, from the end. */
	for (size_t i = request->n; i-- > 0;) {
		float value = element_to_f32((const char *)values, dtype, i);

		values[i] = request->inverted ? 1.0f / value : value;
	}
	return 0;
}

uint64_t source_first_scale(const struct unit *unit, uint64_t row)
{
	const struct weight_scale *from = &unit->source_scale;
	const struct st_tensor *tensor = unit->source->tensor, *scale = from->scale->tensor;
	uint64_t rows = tensor->shape[tensor->n_dims - 2];
	uint64_t n_cols = tile_count(unit->cols, from->tile.cols);
	uint64_t grid = tile_count(rows, from->tile.rows) * n_cols;
	uint64_t first = 0;

	if (!unit->rows || !unit->cols)
		return 0;
	row += unit->slice.first / unit->cols;
	if (st_n_elements(scale->shape, scale->n_dims) != grid)
		first = row / rows * grid;
	return from->tile.rows == WHOLE ? first : first + row % rows / from->tile.rows * n_cols;
}

int source_scales(struct source *source, const struct unit *unit, const struct rect *rect,
		  void **scales, struct err *err)
{
	const struct weight_scale *from = &unit->source_scale;
	uint64_t first = source_first_scale(unit, rect->row);
	size_t n =
		tile_count(rect->n_rows, from->tile.rows) * tile_count(unit->cols, from->tile.cols);
	int rc;

	*scales = xmalloc(n * sizeof(float));
	if (from->scale_type == SCALE_E8M0) {
		rc = source_read_bytes(source, from->scale, first, n, *scales, err);
		if (!rc && source->check_scales)
			rc = source_check_scales(source, from->scale, first, n, *scales, err);
	} else {
		rc = source_read_floats(source,
					&(struct floats_request){ from->scale, from->inverted,
								  first, n, source->check_scales },
					*scales, err);
	}
	if (rc)
		free(*scales);
	return rc;
}

/* Converts the codes in buffers.raw to values.  Rects begin at tile borders, or contain whole
 * rows. */
static int decode(struct source *source, const struct source_request *request, enum dtype dtype,
		  void *values, struct err *err)
{
	const struct unit *unit = request->unit;
	const struct rect *rect = &request->rect;
	const struct weight_scale *from = &unit->source_scale;
	uint64_t col = from->tile.cols == WHOLE ? 0 : rect->col / from->tile.cols;
	void *scales;
	struct quant_in q;

	if (source_scales(source, unit, rect, &scales, err))
		return -1;
	q = (struct quant_in){ .codes = request->buffers.raw,
			       .rows = rect->n_rows,
			       .cols = rect->n_cols,
			       .stride = rect->n_cols,
			       .format = fp8_of_dtype(unit->source->tensor->dtype),
			       .tile = from->tile,
			       .scale_type = from->scale_type,
			       .scale_inv = (char *)scales + col * scale_size(from->scale_type),
			       .scale_stride = tile_count(unit->cols, from->tile.cols) };
	backend_dequantize(source->backend, &q, dtype, values, rect->n_cols);
	free(scales);
	return backend_failed(source->backend, unit->name, err);
}

/* Returns the lines of the rect: its rows, or its columns in a transposed unit. */
static struct element_lines rect_lines(const struct source_request *request)
{
	const struct slice *slice = &request->unit->slice;
	const struct rect *rect = &request->rect;
	uint64_t first =
		slice->first + rect->row * slice->row_stride + rect->col * slice->col_stride;

	if (slice->col_stride == 1)
		return (struct element_lines){ first, rect->n_rows, rect->n_cols, slice->row_stride,
					       1 };
	return (struct element_lines){ first, rect->n_cols, rect->n_rows, slice->col_stride,
				       slice->row_stride };
}

int source_decode(struct source *source, const struct source_request *request, enum dtype dtype,
		  void *values, struct err *err)
{
	struct element_lines lines = rect_lines(request);

	if (request->unit->low_bit)
		return unpack_decode(source, request, dtype, values, err);
	if (read_lines(source, request, &lines, request->buffers.raw, err))
		return -1;
	return decode(source, request, dtype, values, err);
}

int source_read(struct source *source, const struct source_request *request, struct matrix *x,
		struct err *err)
{
	const struct unit *unit = request->unit;
	const struct rect *rect = &request->rect;
	const struct source_buffers *buffers = &request->buffers;
	struct element_lines lines = rect_lines(request);

	*x = (struct matrix){ .data = buffers->matrix,
			      .dtype = unit_dtype(unit),
			      .rows = rect->n_rows,
			      .cols = rect->n_cols,
			      .stride = rect->n_cols };
	if (unit_is_coded(unit))
		return source_decode(source, request, DT_F32, buffers->matrix, err);
	if (unit->slice.col_stride == 1)
		return read_lines(source, request, &lines, buffers->matrix, err);
	if (read_lines(source, request, &lines, buffers->raw, err))
		return -1;
	transpose(&(struct transpose){ .from = buffers->raw,
				       .from_stride = rect->n_rows,
				       .to = buffers->matrix,
				       .to_stride = rect->n_cols,
				       .rows = rect->n_cols,
				       .cols = rect->n_rows,
				       .element = dtype_bits(unit->source->tensor->dtype) / 8 });
	return 0;
}

int source_read_part(struct source *source, const struct unit *unit, uint64_t first, uint64_t n,
		     void *data, struct err *err)
{
	const struct source_request request = { .unit = unit };
	const struct slice *slice = &unit->slice;
	const struct element_lines lines = { .first = slice->first + first * slice->row_stride,
					     .n = 1,
					     .size = n,
					     .stride = n,
					     .step = slice->row_stride };

	return read_lines(source, &request, &lines, data, err);
}

int source_read_ahead(struct source *source, const struct tensor_ref *ref, uint64_t offset,
		      uint64_t n, struct err *err)
{
	const struct st_file *file = &source->checkpoint->shards[ref->shard].file;
	int fd;

	if (source->checkpoint->shards[ref->shard].gathered)
		return 0;
	if (source_use(source, ref->shard, &fd, err))
		return -1;
	source->io->fadvise(source->io, fd, (off_t)(file->data_start + ref->tensor->begin + offset),
			    (off_t)n, POSIX_FADV_WILLNEED);
	return source_done(source, ref->shard, 0);
}

void source_drop_cache(struct source *source)
{
	for (size_t i = 0; i < source->checkpoint->n_files; i++) {
		if (source->files[i].fd >= 0)
			source->io->fadvise(source->io, source->files[i].fd, 0, 0,
					    POSIX_FADV_DONTNEED);
	}
}

int source_close(struct source *source, int rc, struct err *err)
{
	/* Standard input may be a file that another process writes. */
	if (!rc && source->stream_fd >= 0)
		rc = io_check_unchanged(&(struct file){ source->io, source->stream_fd,
							source->checkpoint->files[0].file.path },
					&source->checkpoint->files[0].file.identity, err);
	for (size_t i = 0; i < source->checkpoint->n_files; i++)
		if (source->files[i].fd >= 0)
			rc = close_file(source, i, rc, err);
	return rc;
}

void source_release(struct source *source)
{
	struct err ignored;

	if (!source->files)
		return;
	source_close(source, 0, &ignored);
	pthread_mutex_destroy(&source->lock);
	free(source->files);
	source->files = NULL;
}
