/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPUs, as the other files here use them: memory, and streams with their own memory.  Each GPU
 * runtime has its own device.cu; the tests have one that runs on a CPU (tests/simt).  The usable
 * GPUs have indices from 0 on.
 *
 * A stream remembers its first failed call with its name and the device.  All later calls on it do
 * nothing, until device_stream_failed() returns the failure.  After some failures a GPU refuses all
 * calls of the process: then the first one is reported as the cause, and the failures of other
 * streams as its consequences.
 *
 * Order: device_stream_here() or device_stream_new(); device_begin(); device_take(), copies and
 * launches, each followed by device_launched(); device_wait(); device_stream_failed().
 * device_use(), if at all, comes before them.
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

/* The most GPUs that are used. */
#define DEVICES_MOST 64

/* A stream of work on one GPU.  One thread of the host uses it at a time. */
struct device_stream;

/* Returns NULL if a GPU can run the kernels, else the reason why not.  Computed once; any
 * thread. */
const char *device_missing(void);

/* Returns how many GPUs can run the kernels; 0 where device_missing(). */
int device_count(void);

/* Takes n >= 1 of these GPUs, by their indices, and no others: index i is then GPU chosen[i].  At
 * most once, before the first stream. */
void device_use(const int *chosen, int n);

/* Returns the index of the GPU with this number of the runtime; -1: not used. */
int device_numbered(int number);

/* Returns the compute capability of the calling thread's GPU, 90 for 9.0; 0 without a GPU. */
int device_capability(void);

/* Returns the stream of the calling thread, taken on the first call: a new one, or with its memory
 * that of a thread that has ended.  Threads get the GPUs in turn. */
struct device_stream *device_stream_here(void);

/* Returns a new stream that belongs to no thread, on that GPU.  NULL with ERR_SYSTEM. */
struct device_stream *device_stream_new(int device, struct err *err);

/* Waits for the stream's work and frees it.  Accepts NULL. */
void device_stream_free(struct device_stream *stream);

/* Returns the bytes that are free on that GPU, 0 if that is unknown. */
uint64_t device_memory_left(int device);

/* Allocates size bytes on that GPU, aligned to 256, for all streams; size 0 gives one byte.
 * Fails with err->no_memory, `what`, the size and the free memory.  Not for each operation:
 * device_memory_free() waits for all work of the GPU. */
int device_memory_new(int device, void **memory, uint64_t size, const char *what, struct err *err);
void device_memory_free(void *memory); /* accepts NULL */

/* Returns 0, or ERR_SYSTEM with the first call that failed since the last device_stream_failed(),
 * its message, and the device; with err->follows if the GPU had failed before in another stream. */
int device_stream_failed(struct device_stream *stream, struct err *err);

/* Has a call failed, so that more work is useless? */
bool device_stream_stopped(const struct device_stream *stream);

/* After a failure for lack of memory: forgets the failure and all memory that was taken, and
 * returns true.  Then the stream can be used again for less work. */
bool device_stream_retry(struct device_stream *stream);

/* Returns the index of the stream's GPU. */
int device_index(const struct device_stream *stream);

/* Records a failed call of a library: its name and message, which must stay valid. */
void device_fail(struct device_stream *stream, const char *call, const char *why);

/* Returns the runtime's stream for a launch by the calling thread, and makes the stream's GPU
 * current. */
void *device_stream_native(struct device_stream *stream);

/* Puts the work of the stream on one of the runtime, that of a caller, after all earlier work of
 * the stream, until device_return(), which makes the caller's GPU current again. */
void device_borrow(struct device_stream *stream, void *native);
void device_return(struct device_stream *stream);

/* Returns n bytes of the stream's memory, aligned to 256 and valid until device_begin(); NULL if
 * the stream has stopped. */
void *device_take(struct device_stream *stream, size_t n);

/* Gives back all memory that was taken. */
void device_begin(struct device_stream *stream);

/* n_rows rows of row_size bytes; strides are in bytes. */
struct device_copy {
	void *to;
	size_t to_stride;
	const void *from;
	size_t from_stride;
	size_t row_size, n_rows;
};

/* Copy from the host to the GPU, and back.  In stream order: memory of the host must not change
 * before device_wait(), and copies to the host are complete after it.  A stream copies through
 * 8 MiB of pinned memory (staging.h), so that the thread moves one piece while another is on the
 * bus.  Copies and kernels of one stream run one after the other, of several streams at the
 * same time.  So with a few threads, reading, copies both ways, casts and writing all
 * overlap. */
void device_copy_in(struct device_stream *stream, const struct device_copy *copy);
void device_copy_out(struct device_stream *stream, const struct device_copy *copy);

/* The same for size bytes in one piece. */
static inline void device_bytes_in(struct device_stream *stream, void *to, const void *from,
				   size_t size)
{
	const struct device_copy copy = { to, size, from, size, size, 1 };

	device_copy_in(stream, &copy);
}

static inline void device_bytes_out(struct device_stream *stream, void *to, const void *from,
				    size_t size)
{
	const struct device_copy copy = { to, size, from, size, size, 1 };

	device_copy_out(stream, &copy);
}

void device_zero(struct device_stream *stream, void *memory, size_t n);

/* Copies n bytes from one place on the GPU to another one. */
void device_move(struct device_stream *stream, void *to, const void *from, size_t n);

/* Checks that a launch was accepted.  kernel: its name. */
void device_launched(struct device_stream *stream, const char *kernel);

/* Waits until all work of the stream is done, also after a failed call. */
void device_wait(struct device_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
