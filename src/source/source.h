/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads parts of matrices from a checkpoint's files.  Whatever the layout in the file (rows, a
 * slice of a fused tensor, transposed, FP8 codes with scales), the result is a matrix in memory.
 *
 * Order: source_init(); any reads, from any thread; source_close(), which fails if a file was
 * changed meanwhile; source_release().
 */
#ifndef FP8CONV_SOURCE_SOURCE_H
#define FP8CONV_SOURCE_SOURCE_H

#include <pthread.h>

#include "backend/backend.h"
#include "ckpt/checkpoint.h"
#include "ckpt/writer.h"
#include "source/unit.h"

struct source_file {
	int fd;		/* -1: not open */
	size_t n_users; /* reads that use it now */
};

/* The files of a checkpoint, each opened at its first use; of many the first ones are closed until
 * they are used again.  Thread-safe. */
struct source {
	const struct io *io;
	const struct checkpoint *checkpoint;
	const struct backend *backend; /* decodes FP8 sources */
	int stream_fd;		       /* if not -1, the only shard, which the caller closes */
	bool check_scales; /* refuse FP8 weights whose scales source_check_scales() refuses */
	pthread_mutex_t lock;
	struct source_file *files; /* as checkpoint.files */
	size_t n_open;
};

/* A rectangle of a unit. */
struct rect {
	uint64_t row, col;
	uint64_t n_rows, n_cols;
};

/* Memory of one worker. */
struct source_buffers {
	void *matrix; /* the rect as rows */
	/* bytes as read, where they are not yet the matrix; may be NULL if no unit needs it */
	void *raw;
	uint64_t size; /* bytes of each */
};

/* A copy of the source bytes that are read goes to this file; writer NULL: no copy. */
struct source_tee {
	struct writer *writer;
	uint64_t offset; /* in that file, of the source tensor's first byte */
};

/* Opens no file yet.  io, checkpoint and backend must outlive source. */
void source_init(struct source *source, const struct io *io, const struct checkpoint *checkpoint,
		 const struct backend *backend, int stream_fd);

/* A part of a unit to read, and its destination. */
struct source_request {
	const struct unit *unit;
	struct rect rect;
	struct source_buffers buffers;
	struct source_tee tee;
};

/* Reads a rect of a quantized unit.  *x becomes a matrix (n_rows, n_cols) that points into the
 * buffers. */
int source_read(struct source *source, const struct source_request *request, struct matrix *x,
		struct err *err);

/* Reads n elements of a unit that is kept in parts, from element `first` of its vector on. */
int source_read_part(struct source *source, const struct unit *unit, uint64_t first, uint64_t n,
		     void *data, struct err *err);

/* Reads a rect of a coded unit, and writes (T)((float)code * scale_inv) of its codes, with one
 * product and one rounding, to values (n_rows, n_cols) without gaps.  dtype T is F32, BF16 or F16.
 * In a dimension of which the rect does not contain all, it begins at a tile border (of an FP8
 * unit); it lies in one matrix of a stack. */
int source_decode(struct source *source, const struct source_request *request, enum dtype dtype,
		  void *values, struct err *err);

/* Elements of a tensor of F32, BF16, F16 or 8-bit exponents (E8M0). */
struct floats_request {
	const struct tensor_ref *ref;
	bool inverted; /* return 1 / element */
	uint64_t first;
	size_t n;
	bool are_scales; /* refuse those that source_check_scales() refuses */
};

/* ERR_INPUT, naming the tensor, its file, the element and its value, for a scale that is zero,
 * negative, NaN or infinite, by which no code has a value.  elements: n of the tensor from element
 * `first` on, in the type of the file; types that no scale has pass. */
int source_check_scales(const struct source *source, const struct tensor_ref *ref, uint64_t first,
			size_t n, const void *elements, struct err *err);

/* Reads the n elements as fp32 into values.  ERR_INPUT for a tensor of another type. */
int source_read_floats(struct source *source, const struct floats_request *request, float *values,
		       struct err *err);

/* Reads bytes [offset, offset + n) of a tensor unchanged. */
int source_read_bytes(struct source *source, const struct tensor_ref *ref, uint64_t offset,
		      size_t n, void *data, struct err *err);

/* Reads the FP8 codes of a cut of a unit, row by row. */
int source_codes(struct source *source, const struct unit *unit, const struct rect *rect,
		 uint8_t *codes, struct err *err);

/* Reads bytes [offset, offset + n) of the file of a shard that is not gathered, of its header
 * too. */
int source_read_file(struct source *source, size_t shard, uint64_t offset, size_t n, void *data,
		     struct err *err);

/* Returns the element of the scale tensor of an FP8 unit that has the first scale of a row.  Each
 * matrix of a stack has its own grid of scales, or all share one. */
uint64_t source_first_scale(const struct unit *unit, uint64_t row);

/* Reads the scales of an FP8 unit for a rect, in whole rows of the grid: fp32, or E8M0 bytes as in
 * the file.  The caller frees *scales. */
int source_scales(struct source *source, const struct unit *unit, const struct rect *rect,
		  void **scales, struct err *err);

/* Asks the kernel to read bytes [offset, offset + n) of a tensor ahead, without waiting.  Nothing
 * for a gathered shard. */
int source_read_ahead(struct source *source, const struct tensor_ref *ref, uint64_t offset,
		      uint64_t n, struct err *err);

/* Tells the kernel that the open files are not needed again soon. */
void source_drop_cache(struct source *source);

/* Closes all files.  rc: of the reads, returned with its error if it is not 0.  ERR_INPUT if a file
 * was changed after its header was read. */
int source_close(struct source *source, int rc, struct err *err);
void source_release(struct source *source);

#endif
