/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between a GPU and memory of the host through two pieces of pinned memory: while one is on
 * the bus, the thread fills or empties the other.  For memory that is not pinned, the runtime would
 * make such copies itself, one at a time, and a copy to the host would block the thread until all
 * earlier work is done.
 */
#ifndef FP8CONV_KERNELS_GPU_CUDA_STAGING_H
#define FP8CONV_KERNELS_GPU_CUDA_STAGING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STAGE_SIZE ((size_t)4 << 20) /* bytes of a piece */

struct device_stream;
struct device_copy;

/* The staging memory of one stream. */
struct staging;

/* Returns staging for the GPU of this index, the thread's current one.  If no memory can be pinned,
 * the runtime makes the copies. */
struct staging *staging_new(int device);

/* Keeps the memory for the next staging_new().  The caller has waited for the stream. */
void staging_free(struct staging *staging);

/* As device_copy_in() and device_copy_out(). */
void staging_in(struct staging *staging, struct device_stream *stream,
		const struct device_copy *copy);
void staging_out(struct staging *staging, struct device_stream *stream,
		 const struct device_copy *copy);

/* Waits until all copies to the host are complete.  A stream that has stopped copies nothing
 * more. */
void staging_settle(struct staging *staging, struct device_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
