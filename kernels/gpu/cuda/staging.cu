/* SPDX-License-Identifier: Apache-2.0
 *
 * Two stages in turn: each waits only for its own last copy.  Pinning memory is slow and threads
 * end often, so pinned memory is kept: as much as streams have used at one time.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/cuda/staging.h"
}

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define N_STAGES 2

struct staging_buffer {
	char *memory;
	cudaEvent_t copied;	/* recorded after the last copy from or to it */
	struct device_copy out; /* to the host, of a copy from the GPU; to NULL: none */
};

struct staging {
	struct staging_buffer stages[N_STAGES];
	unsigned next; /* the stage to use next */
	bool pinned;
	int device;
	struct staging *other; /* another idle one */
};

static struct staging *idle[DEVICES_MOST];
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static void stage_release(struct staging_buffer *stage)
{
	if (stage->copied)
		cudaEventDestroy(stage->copied);
	if (stage->memory)
		cudaFreeHost(stage->memory);
}

static cudaError_t stage_init(struct staging_buffer *stage)
{
	cudaError_t error = cudaEventCreateWithFlags(&stage->copied, cudaEventDisableTiming |
									     cudaEventBlockingSync);

	if (error)
		return error;
	return cudaHostAlloc(reinterpret_cast<void **>(&stage->memory), STAGE_SIZE,
			     cudaHostAllocDefault);
}

static struct staging *idle_take(int device)
{
	struct staging *staging;

	pthread_mutex_lock(&idle_lock);
	staging = idle[device];
	if (staging)
		idle[device] = staging->other;
	pthread_mutex_unlock(&idle_lock);
	return staging;
}

struct staging *staging_new(int device)
{
	struct staging *staging = idle_take(device);

	if (staging)
		return staging;
	staging = static_cast<struct staging *>(xcalloc(1, sizeof *staging));
	staging->device = device;
	staging->pinned = true;
	for (int i = 0; i < N_STAGES; i++)
		staging->pinned &= !stage_init(&staging->stages[i]);
	if (staging->pinned)
		return staging;
	for (int i = 0; i < N_STAGES; i++)
		stage_release(&staging->stages[i]);
	cudaGetLastError(); /* clears the failure, which the next launch would report */
	return staging;
}

void staging_free(struct staging *staging)
{
	if (!staging || !staging->pinned) {
		free(staging);
		return;
	}
	for (int i = 0; i < N_STAGES; i++)
		staging->stages[i].out.to = NULL;
	pthread_mutex_lock(&idle_lock);
	staging->other = idle[staging->device];
	idle[staging->device] = staging;
	pthread_mutex_unlock(&idle_lock);
}

/* Records a failed call; does nothing on a stream that has stopped. */
static void check(struct device_stream *stream, const char *call, cudaError_t error)
{
	if (!error)
		return;
	cudaGetLastError();
	device_fail(stream, call, cudaGetErrorString(error));
}

static bool together(const struct device_copy *copy)
{
	return copy->to_stride == copy->row_size && copy->from_stride == copy->row_size;
}

/* n bytes behind the first byte of a row. */
static void *to_row(const struct device_copy *copy, size_t row, size_t n)
{
	return static_cast<char *>(copy->to) + row * copy->to_stride + n;
}

static const void *from_row(const struct device_copy *copy, size_t row, size_t n)
{
	return static_cast<const char *>(copy->from) + row * copy->from_stride + n;
}

/* Both places are the host's. */
static void copy_rows(const struct device_copy *copy)
{
	if (together(copy)) {
		memcpy(copy->to, copy->from, copy->row_size * copy->n_rows);
		return;
	}
	for (size_t row = 0; row < copy->n_rows; row++)
		memcpy(to_row(copy, row, 0), from_row(copy, row, 0), copy->row_size);
}

/* Waits for the stage's last copy, and moves its data to the destination. */
static void stage_settle(struct staging_buffer *stage, struct device_stream *stream)
{
	check(stream, "cudaEventSynchronize",
	      cudaEventSynchronize(stage->copied)); /* returns at once if it was never recorded */
	if (stage->out.to && !device_stream_stopped(stream))
		copy_rows(&stage->out);
	stage->out.to = NULL;
}

void staging_settle(struct staging *staging, struct device_stream *stream)
{
	for (unsigned i = 0; staging->pinned && i < N_STAGES; i++)
		stage_settle(&staging->stages[(staging->next + i) % N_STAGES], stream);
}

static void enqueue(struct device_stream *stream, const struct device_copy *copy,
		    cudaMemcpyKind kind)
{
	cudaStream_t native = static_cast<cudaStream_t>(device_stream_native(stream));

	if (copy->n_rows == 1 || together(copy))
		check(stream, "cudaMemcpyAsync",
		      cudaMemcpyAsync(copy->to, copy->from, copy->row_size * copy->n_rows, kind,
				      native));
	else
		check(stream, "cudaMemcpy2DAsync",
		      cudaMemcpy2DAsync(copy->to, copy->to_stride, copy->from, copy->from_stride,
					copy->row_size, copy->n_rows, kind, native));
}

/* Copies as many rows as fit a stage. */
static void piece_copy(struct staging *staging, struct device_stream *stream,
		       const struct device_copy *piece, cudaMemcpyKind kind)
{
	struct staging_buffer *stage = &staging->stages[staging->next];
	struct device_copy to_stage = *piece, from_stage = *piece;

	to_stage.to = stage->memory;
	from_stage.from = stage->memory;
	to_stage.to_stride = from_stage.from_stride = piece->row_size;
	staging->next = (staging->next + 1) % N_STAGES;
	stage_settle(stage, stream);
	if (device_stream_stopped(stream))
		return;
	if (kind == cudaMemcpyHostToDevice) {
		copy_rows(&to_stage);
		enqueue(stream, &from_stage, kind);
	} else {
		enqueue(stream, &to_stage, kind);
		stage->out = from_stage;
	}
	check(stream, "cudaEventRecord",
	      cudaEventRecord(stage->copied,
			      static_cast<cudaStream_t>(device_stream_native(stream))));
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void copy_staged(struct staging *staging, struct device_stream *stream,
			struct device_copy copy, cudaMemcpyKind kind)
{
	size_t width, height;

	if (copy.row_size == 0 || copy.n_rows == 0 || device_stream_stopped(stream))
		return;
	if (together(&copy)) {
		copy.row_size *= copy.n_rows;
		copy.n_rows = 1;
	}
	if (!staging->pinned) {
		enqueue(stream, &copy, kind);
		return;
	}
	width = least(copy.row_size, STAGE_SIZE);
	height = STAGE_SIZE / width;
	for (size_t row = 0; row < copy.n_rows; row += height) {
		for (size_t at = 0; at < copy.row_size; at += width) {
			const struct device_copy piece = {
				to_row(&copy, row, at),		  copy.to_stride,
				from_row(&copy, row, at),	  copy.from_stride,
				least(width, copy.row_size - at), least(height, copy.n_rows - row)
			};

			piece_copy(staging, stream, &piece, kind);
		}
	}
}

void staging_in(struct staging *staging, struct device_stream *stream,
		const struct device_copy *copy)
{
	copy_staged(staging, stream, *copy, cudaMemcpyHostToDevice);
}

void staging_out(struct staging *staging, struct device_stream *stream,
		 const struct device_copy *copy)
{
	copy_staged(staging, stream, *copy, cudaMemcpyDeviceToHost);
}
