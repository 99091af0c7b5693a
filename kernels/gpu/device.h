/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs as their users here see them: memory, and streams, each with memory of its own. Each GPU
 * runtime has its own device.cu; the tests have one of a CPU (tests/simt).  The GPUs that are used
 * are told apart by an index, from 0 on.
 *
 * A call that fails is remembered by its stream with its name and the device, and all that come
 * after it do nothing, until device_stream_failed() is asked.
 */
#ifndef FP8CONV_KERNELS_GPU_DEVICE_H
#define FP8CONV_KERNELS_GPU_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No more GPUs are used than this. */
#define DEVICES_MOST 64

/* What one thread of the host works with, at a time: any thread, which may work with others in
 * between. */
struct device_stream;

/* NULL where there is a GPU that can run the kernels, else why not.  Asked once; any thread. */
const char *device_missing(void);

/* Compute capability of the calling thread's GPU, 90 for 9.0; 0: there is none. */
int device_capability(void);

/* That of the calling thread, made on the first call and freed at the thread's end; threads take
 * the GPUs in turn. */
struct device_stream *device_stream_here(void);

/* One of nobody's, on that GPU.  NULL: ERR_SYSTEM. */
struct device_stream *device_stream_new(int device, struct err *err);

/* Waits for what it was given.  NULL: nothing to do. */
void device_stream_free(struct device_stream *stream);

/* size bytes of that GPU, aligned to 256, for all streams; size 0 is one byte.  ERR_SYSTEM with the
 * size wanted and what is free; what: its use.  Not for each operation: device_memory_free() waits
 * for all that the GPU does. */
int device_memory_new(int device, void **memory, uint64_t size, const char *what, struct err *err);
void device_memory_free(void *memory); /* NULL: nothing to do */

/* 0, or ERR_SYSTEM with the first call that failed since this was last asked, what it said, and the
 * device. */
int device_stream_failed(struct device_stream *stream, struct err *err);

/* True: a call has failed, and there is no use in going on. */
bool device_stream_stopped(const struct device_stream *stream);

/* True: it has stopped since memory ran out, which is forgotten, with all that was taken: the
 * stream goes on, and less may fit. */
bool device_stream_retry(struct device_stream *stream);

/* The GPU that the stream works on. */
int device_index(const struct device_stream *stream);

/* A call of a library on the GPU has failed: its name and what it said, both of which stay. */
void device_fail(struct device_stream *stream, const char *call, const char *why);

/* What a launch by the calling thread takes; its current GPU becomes that of the stream. */
void *device_stream_native(struct device_stream *stream);

/* n bytes of the stream's memory, aligned to 256; NULL where it has stopped.  They are valid until
 * device_begin(). */
void *device_take(struct device_stream *stream, size_t n);

/* Gives back all that was taken. */
void device_begin(struct device_stream *stream);

/* n_rows rows of row_size bytes; the distances between rows are in bytes.  In stream order: memory
 * of the host must not change before device_wait(), and what is copied out is there after it.
 *
 * A stream's copies go by way of 8 MiB of pinned memory (staging.h), so that the thread moves one
 * piece while another is on the bus. Copies and kernels of one stream follow each other; those of
 * several run at the same time, so that with a few threads, reading, copies both ways, casts and
 * writing all overlap. */
void device_copy_in(struct device_stream *stream, void *to, size_t to_stride, const void *from,
		    size_t from_stride, size_t row_size, size_t n_rows);
void device_copy_out(struct device_stream *stream, void *to, size_t to_stride, const void *from,
		     size_t from_stride, size_t row_size, size_t n_rows);
void device_zero(struct device_stream *stream, void *memory, size_t n);

/* After a launch: was it accepted?  kernel: its name. */
void device_launched(struct device_stream *stream, const char *kernel);

/* Until all is done that the stream was given, also where a call failed after it. */
void device_wait(struct device_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
