/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading parts of matrices from a checkpoint's files: whatever the layout in the file (rows, a
 * slice of a fused tensor, transposed, FP8 codes with scales), a matrix in memory comes out.
 */
#ifndef FP8CONV_SOURCE_SOURCE_H
#define FP8CONV_SOURCE_SOURCE_H

#include <pthread.h>

#include "backend/backend.h"
#include "ckpt/checkpoint.h"
#include "ckpt/writer.h"
#include "source/unit.h"

/* The files of a checkpoint, opened when first needed.  Thread-safe. */
struct source {
	const struct io *io;
	const struct checkpoint *checkpoint;
	const struct backend *backend; /* decodes FP8 sources */
	int stream_fd;		       /* the only shard, if not -1: not ours to close */
	pthread_mutex_t lock;
	int *fds; /* by shard; -1: not open */
};

/* A rectangle of a unit. */
struct rect {
	uint64_t row, col;
	uint64_t n_rows, n_cols;
};

/* Memory of one worker. */
struct source_buffers {
	void *matrix; /* the rect as rows */
	/* what was read, where that is not yet the matrix; may be NULL if no unit needs it */
	void *raw;
	uint64_t size; /* of each */
};

/* Where source bytes are copied while they pass by; writer NULL: nowhere. */
struct source_tee {
	struct writer *writer;
	uint64_t offset; /* in that file, of the source tensor's first byte */
};

void source_init(struct source *source, const struct io *io, const struct checkpoint *checkpoint,
		 const struct backend *backend, int stream_fd);

/* What is read of a unit, and where to. */
struct source_request {
	const struct unit *unit;
	struct rect rect;
	struct source_buffers buffers;
	struct source_tee tee;
};

/* Reads a rect of a quantized unit; *x points into the buffers. */
int source_read(struct source *source, const struct source_request *request, struct matrix *x,
		struct err *err);

/* Reads a rect of an FP8 unit and puts (T)((float)code * scale_inv) of its codes, one product and
 * one rounding, close together into values; dtype T is F32, BF16 or F16.  The rect begins at a
 * tile border of each dimension that it does not hold whole, and lies in one matrix of a stack. */
int source_decode(struct source *source, const struct source_request *request, enum dtype dtype,
		  void *values, struct err *err);

/* Elements of a tensor of F32, BF16, F16 or exponents (8 bits: E8M0). */
struct floats_request {
	const struct tensor_ref *ref;
	bool inverted; /* 1 / each */
	uint64_t first;
	size_t n;
};

/* Reads the elements as fp32. */
int source_read_floats(struct source *source, const struct floats_request *request, float *values,
		       struct err *err);

/* Reads bytes [offset, offset + n) of a tensor as they are. */
int source_read_bytes(struct source *source, const struct tensor_ref *ref, uint64_t offset,
		      size_t n, void *data, struct err *err);

/* The scales of an FP8 unit that a rect needs, in whole rows of the grid: as fp32, or as the E8M0
 * bytes they are.  The caller frees. */
int source_scales(struct source *source, const struct unit *unit, const struct rect *rect,
		  void **scales, struct err *err);

/* Has the kernel read bytes [offset, offset + n) of a tensor, and does not wait for it. */
int source_read_ahead(struct source *source, const struct tensor_ref *ref, uint64_t offset,
		      uint64_t n, struct err *err);

/* Tells the kernel that the files open now are not needed again soon. */
void source_drop_cache(struct source *source);

/* Closes all files.  ERR_INPUT if one of them was changed since its header was read. */
int source_close(struct source *source, struct err *err);
void source_release(struct source *source);

#endif
