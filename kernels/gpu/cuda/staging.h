/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between a GPU and memory of the host by way of two pieces of pinned memory: while one is
 * on the bus, the thread fills or empties the other.  Of memory that is not pinned, the runtime
 * would make such copies itself, one at a time, and those out would hold up the thread until all
 * before them is done.
 */
#ifndef FP8CONV_KERNELS_GPU_CUDA_STAGING_H
#define FP8CONV_KERNELS_GPU_CUDA_STAGING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STAGE_SIZE ((size_t)4 << 20) /* bytes of a piece */

struct device_stream;

/* That of one stream. */
struct staging;

/* For the GPU of this index, the thread's current one.  Where no memory can be pinned, the copies
 * are the runtime's. */
struct staging *staging_new(int device);

/* The next staging_new() has its memory.  The stream has been waited for. */
void staging_free(struct staging *staging);

/* As device_copy_in() and device_copy_out(). */
void staging_in(struct staging *staging, struct device_stream *stream, void *to, size_t to_stride,
		const void *from, size_t from_stride, size_t row_size, size_t n_rows);
void staging_out(struct staging *staging, struct device_stream *stream, void *to, size_t to_stride,
		 const void *from, size_t from_stride, size_t row_size, size_t n_rows);

/* Until all that was copied out is there.  Of a stream that has stopped nothing more comes. */
void staging_settle(struct staging *staging, struct device_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
