/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/plan_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "ckpt/checkpoint.h"
#include "lib/context.h"
#include "num/scale_grid.h"

/* Descriptors, above those of the system. */
enum { FD_FOLDER = INT_MAX - 3, FD_CONFIG, FD_MODEL, FD_OUTPUT };

static const struct memory_file *file_of(const struct io *io, int fd)
{
	const struct plan_files *files = (const struct plan_files *)io;

	return fd == FD_CONFIG ? &files->config : fd == FD_MODEL ? &files->model : &files->output;
}

/* Returns the descriptor of a path; -1: it is not one of these files, and where it is in the
 * directory there is no file. */
static int find(const struct io *io, int dirfd, const char *path, bool *inside)
{
	const struct plan_files *files = (const struct plan_files *)io;
	size_t n = strlen(PLAN_PATH);

	*inside = dirfd == FD_FOLDER;
	if (!*inside && !strncmp(path, PLAN_PATH, n) && (!path[n] || path[n] == '/')) {
		*inside = true;
		path += n;
		path += strspn(path, "/");
	}
	if (!*inside)
		return -1;
	if (!*path)
		return FD_FOLDER;
	if (!strcmp(path, CONFIG_NAME) && files->has_config)
		return FD_CONFIG;
	return strcmp(path, MODEL_NAME) != 0 ? -1 : FD_MODEL;
}

static int no_file(void)
{
	errno = ENOENT;
	return -1;
}

static int memory_openat(const struct io *io, int dirfd, const char *path, int flags, mode_t mode)
{
	bool inside;
	int fd = find(io, dirfd, path, &inside);

	if (!inside)
		return io_system.openat(&io_system, dirfd, path, flags, mode);
	if (fd == FD_FOLDER && (flags & O_TMPFILE) == O_TMPFILE)
		return FD_OUTPUT;
	return fd < 0 ? no_file() : fd;
}

static int memory_close(const struct io *io, int fd)
{
	(void)io;
	return fd >= FD_FOLDER ? 0 : io_system.close(&io_system, fd);
}

/* Returns the range of a byte, or NULL. */
static const struct memory_range *range_at(const struct memory_file *file, uint64_t at)
{
	size_t i;

	SEARCH(i, file->n, file->ranges[i].end <= at);
	return i < file->n && file->ranges[i].begin <= at ? &file->ranges[i] : NULL;
}

static ssize_t memory_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	const struct memory_file *file = file_of(io, fd);
	uint64_t at = (uint64_t)offset, end = file->head.len;
	const char *from = file->head.data;
	const struct memory_range *range;

	if (fd < FD_FOLDER)
		return io_system.pread(&io_system, fd, data, n, offset);
	if (at >= file->size)
		return 0;
	if (at < end) {
		from += at;
	} else {
		range = range_at(file, at);
		if (!range || !range->data) {
			errno = ENODATA;
			return -1;
		}
		end = range->end;
		from = (const char *)range->data + (at - range->begin);
	}
	if (n > end - at)
		n = (size_t)(end - at);
	memcpy(data, from, n);
	return (ssize_t)n;
}

static ssize_t memory_pwrite(const struct io *io, int fd, const void *data, size_t n, off_t offset)
{
	uint64_t at = (uint64_t)offset;
	const struct memory_range *range;

	if (fd < FD_FOLDER)
		return io_system.pwrite(&io_system, fd, data, n, offset);
	range = range_at(file_of(io, fd), at);
	if (!range || !range->data) {
		errno = ENODATA;
		return -1;
	}
	if (n > range->end - at)
		n = (size_t)(range->end - at);
	memcpy(range->data + (at - range->begin), data, n);
	return (ssize_t)n;
}

static ssize_t memory_read(const struct io *io, int fd, void *data, size_t n)
{
	(void)io;
	return io_system.read(&io_system, fd, data, n);
}

static int memory_fallocate(const struct io *io, int fd, off_t offset, off_t n)
{
	(void)io, (void)fd, (void)offset, (void)n;
	return 0;
}

static void state_of(const struct io *io, int fd, struct stat *st)
{
	*st = (struct stat){ .st_mode = fd == FD_FOLDER ? S_IFDIR | 0555 : S_IFREG | 0444,
			     .st_ino = (ino_t)fd,
			     .st_nlink = 1 };
	if (fd != FD_FOLDER)
		st->st_size = (off_t)file_of(io, fd)->size;
}

static int memory_fstat(const struct io *io, int fd, struct stat *st)
{
	if (fd < FD_FOLDER)
		return io_system.fstat(&io_system, fd, st);
	state_of(io, fd, st);
	return 0;
}

static int memory_fstatat(const struct io *io, int dirfd, const char *path, struct stat *st,
			  int flags)
{
	bool inside;
	int fd = find(io, dirfd, path, &inside);

	if (!inside)
		return io_system.fstatat(&io_system, dirfd, path, st, flags);
	if (fd < 0)
		return no_file();
	state_of(io, fd, st);
	return 0;
}

static void memory_fadvise(const struct io *io, int fd, off_t offset, off_t n, int advice)
{
	(void)io;
	if (fd < FD_FOLDER)
		io_system.fadvise(&io_system, fd, offset, n, advice);
}

static int memory_list(const struct io *io, int fd, int (*take)(void *context, const char *name),
		       void *context)
{
	const struct plan_files *files = (const struct plan_files *)io;

	if (fd < FD_FOLDER)
		return io_system.list(&io_system, fd, take, context);
	if (!take(context, MODEL_NAME) && files->has_config)
		take(context, CONFIG_NAME);
	return 0;
}

static bool memory_explain(const struct io *io, struct err *err)
{
	(void)io;
	if (errno != ENODATA)
		return false;
	err_set(err, ERR_USAGE, "its data are needed, and NULL");
	return true;
}

/* A plan makes no file, so that other entries are not used. */
static const struct io memory_io = { .openat = memory_openat,
				     .close = memory_close,
				     .read = memory_read,
				     .pread = memory_pread,
				     .pwrite = memory_pwrite,
				     .fallocate = memory_fallocate,
				     .fstat = memory_fstat,
				     .fstatat = memory_fstatat,
				     .fadvise = memory_fadvise,
				     .list = memory_list,
				     .explain = memory_explain };

void memory_file_lay(struct memory_file *file, const struct st_tensor *tensors, size_t n,
		     uint64_t start)
{
	file->ranges = xcalloc(n, sizeof *file->ranges);
	file->range_of = xcalloc(n, sizeof *file->range_of);
	for (size_t i = 0; i < n; i++)
		if (tensors[i].end > tensors[i].begin)
			file->ranges[file->n++] =
				(struct memory_range){ .begin = start + tensors[i].begin,
						       .end = start + tensors[i].end };
	qsort(file->ranges, file->n, sizeof *file->ranges, compare_u64);
	for (size_t i = 0; i < n; i++)
		file->range_of[i] =
			tensors[i].end > tensors[i].begin
				? (size_t)(range_at(file, start + tensors[i].begin) - file->ranges)
				: SIZE_MAX;
}

void memory_file_set(struct memory_file *file, size_t i, const void *data)
{
	if (file->range_of[i] != SIZE_MAX)
		file->ranges[file->range_of[i]].data = (unsigned char *)data;
}

void *memory_file_get(const struct memory_file *file, size_t i)
{
	return file->range_of[i] == SIZE_MAX ? NULL : file->ranges[file->range_of[i]].data;
}

static void matrix_by_columns(float *values, size_t rows, size_t columns)
{
	size_t padded = round_up(rows, COLUMN_ALIGN);
	float *from = xcalloc(rows * columns, sizeof *from);

	memcpy(from, values, rows * columns * sizeof *from);
	memset(values, 0, padded * columns * sizeof *values);
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < columns; c++)
			values[c * padded + r] = from[r * columns + c];
	free(from);
}

/* From the last matrix on, because each grows. */
void memory_by_columns(float *values, const struct st_tensor *tensor)
{
	uint64_t n = st_n_elements(tensor->shape, tensor->n_dims), rows, columns;

	if (tensor->n_dims < 2 || !n)
		return;
	rows = tensor->shape[tensor->n_dims - 2];
	columns = tensor->shape[tensor->n_dims - 1];
	for (size_t i = n / (rows * columns); i-- > 0;) {
		float *to = values + i * round_up(rows, COLUMN_ALIGN) * columns;

		memmove(to, values + i * rows * columns, rows * columns * sizeof *to);
		matrix_by_columns(to, rows, columns);
	}
}

size_t memory_by_columns_size(const struct st_tensor *tensor)
{
	uint64_t size = st_tensor_size(tensor), rows;

	if (tensor->dtype != DT_F32 || tensor->n_dims < 2 || !size)
		return size;
	rows = tensor->shape[tensor->n_dims - 2];
	return size / rows * round_up(rows, COLUMN_ALIGN);
}

static int read_item(struct plan_files *files, const struct fp8conv_item *item,
		     struct st_tensor *tensor, uint64_t *total, struct err *err)
{
	uint64_t bits;

	if (size_check(item, sizeof *item, "an item of the model", err))
		return -1;
	if (!item->name || !item->dtype || (item->n_dims && !item->shape))
		return err_set(err, ERR_USAGE, "an item of the model has no %s",
			       !item->name    ? "name"
			       : !item->dtype ? "dtype"
					      : "shape");
	if (!dtype_from_name(&tensor->dtype, item->dtype, strlen(item->dtype)))
		return err_set(err, ERR_USAGE,
			       "tensor '%s' has the type '%s', which safetensors does not have",
			       item->name, item->dtype);
	if (item->n_dims > ST_MAX_DIMS)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has %zu dimensions, at most %d are possible",
			       item->name, item->n_dims, ST_MAX_DIMS);
	bits = dtype_bits(tensor->dtype);
	for (size_t d = 0; d < item->n_dims; d++)
		if (__builtin_mul_overflow(bits, item->shape[d], &bits))
			bits = UINT64_MAX;
	if (bits == UINT64_MAX || __builtin_add_overflow(*total, bits / 8, total) ||
	    *total > INT64_MAX / 2)
		return err_set(err, ERR_INPUT, "tensor '%s' is larger than a file can be",
			       item->name);
	tensor->name = arena_text(&files->texts, item->name, strlen(item->name));
	tensor->n_dims = (int)item->n_dims;
	tensor->shape = st_shape_copy(&files->texts, item->shape, tensor->n_dims);
	return 0;
}

int plan_files_init(struct plan_files *files, const struct fp8conv_model *model, struct err *err)
{
	struct st_tensor *tensors = xcalloc(model->n_tensors, sizeof *tensors);
	uint64_t header_size, data_size, total = 0;
	int rc = 0;

	*files = (struct plan_files){ .io = memory_io, .has_config = model->config != NULL };
	for (size_t i = 0; !rc && i < model->n_tensors; i++)
		rc = read_item(files, &model->tensors[i], &tensors[i], &total, err);
	if (rc)
		goto out;
	if (model->config)
		buf_puts(&files->config.head, model->config);
	files->config.size = files->config.head.len;
	st_layout(tensors, model->n_tensors, NULL, 0, &header_size, &data_size);
	st_header(tensors, model->n_tensors, NULL, 0, &files->model.head);
	files->model.size = header_size + data_size;
	memory_file_lay(&files->model, tensors, model->n_tensors, header_size);
	files->sizes = xcalloc(model->n_tensors, sizeof *files->sizes);
	for (size_t i = 0; i < model->n_tensors; i++) {
		files->sizes[i] = tensors[i].end - tensors[i].begin;
		memory_file_set(&files->model, i, model->tensors[i].data);
	}
out:
	free(tensors);
	return rc;
}

int plan_files_give(struct plan_files *files, const struct fp8conv_conversion *conversion,
		    const char *name, struct err *err)
{
	size_t i = conversion->tensor;
	uint64_t size = files->sizes[i];

	if (!conversion->data && size)
		return err_set(err, ERR_USAGE, "the data of tensor '%s' are NULL", name);
	if (conversion->bytes && conversion->bytes != size)
		return err_set(err, ERR_USAGE,
			       "tensor '%s' has %" PRIu64 " bytes in the plan, and %zu at data",
			       name, size, conversion->bytes);
	if (memory_file_get(&files->model, i))
		return err_set(err, ERR_USAGE, "tensor '%s' is in the list twice", name);
	memory_file_set(&files->model, i, conversion->data);
	return 0;
}

void plan_files_forget(struct plan_files *files)
{
	for (size_t i = 0; i < files->model.n; i++)
		files->model.ranges[i].data = NULL;
}

static void file_release(struct memory_file *file)
{
	buf_release(&file->head);
	free(file->ranges);
	free(file->range_of);
}

void plan_files_release(struct plan_files *files)
{
	file_release(&files->config);
	file_release(&files->model);
	file_release(&files->output);
	free(files->sizes);
	arena_release(&files->texts);
}
