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

/* The address of rows, and their stride. */
struct place {
	char *at;
	size_t stride;
};

struct stage {
	char *memory;
	cudaEvent_t copied; /* recorded after the last copy from or to it */
	struct place to;    /* the destination of a copy from the GPU; at NULL: none */
	size_t row_size, n_rows;
};

struct staging {
	struct stage stages[N_STAGES];
	unsigned next; /* the stage to use next */
	bool pinned;
	int device;
	struct staging *other; /* another idle one */
};

static struct staging *idle[DEVICES_MOST];
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static void stage_release(struct stage *stage)
{
	if (stage->copied)
		cudaEventDestroy(stage->copied);
	if (stage->memory)
		cudaFreeHost(stage->memory);
}

static cudaError_t stage_init(struct stage *stage)
{
	cudaError_t error = cudaEventCreateWithFlags(&stage->copied, cudaEventDisableTiming);

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
		staging->stages[i].to.at = NULL;
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

static bool together(struct place a, struct place b, size_t row_size)
{
	return a.stride == row_size && b.stride == row_size;
}

static void copy_rows(struct place to, struct place from, size_t row_size, size_t n_rows)
{
	if (together(to, from, row_size)) {
		memcpy(to.at, from.at, row_size * n_rows);
		return;
	}
	for (size_t row = 0; row < n_rows; row++)
		memcpy(to.at + row * to.stride, from.at + row * from.stride, row_size);
}

/* Waits for the stage's last copy, and moves its data to the destination. */
static void stage_settle(struct stage *stage, struct device_stream *stream)
{
	check(stream, "cudaEventSynchronize",
	      cudaEventSynchronize(stage->copied)); /* returns at once if it was never recorded */
	if (stage->to.at && !device_stream_stopped(stream))
		copy_rows(stage->to, { stage->memory, stage->row_size }, stage->row_size,
			  stage->n_rows);
	stage->to.at = NULL;
}

void staging_settle(struct staging *staging, struct device_stream *stream)
{
	for (unsigned i = 0; staging->pinned && i < N_STAGES; i++)
		stage_settle(&staging->stages[(staging->next + i) % N_STAGES], stream);
}

static void copy(struct device_stream *stream, struct place to, struct place from, size_t row_size,
		 size_t n_rows, cudaMemcpyKind kind)
{
	cudaStream_t native = static_cast<cudaStream_t>(device_stream_native(stream));

	if (n_rows == 1 || together(to, from, row_size))
		check(stream, "cudaMemcpyAsync",
		      cudaMemcpyAsync(to.at, from.at, row_size * n_rows, kind, native));
	else
		check(stream, "cudaMemcpy2DAsync",
		      cudaMemcpy2DAsync(to.at, to.stride, from.at, from.stride, row_size, n_rows,
					kind, native));
}

/* Copies as many rows as fit a stage. */
static void piece_copy(struct staging *staging, struct device_stream *stream, struct place to,
		       struct place from, size_t row_size, size_t n_rows, cudaMemcpyKind kind)
{
	struct stage *stage = &staging->stages[staging->next];
	struct place staged = { stage->memory, row_size };

	staging->next = (staging->next + 1) % N_STAGES;
	stage_settle(stage, stream);
	if (device_stream_stopped(stream))
		return;
	if (kind == cudaMemcpyHostToDevice) {
		copy_rows(staged, from, row_size, n_rows);
		copy(stream, to, staged, row_size, n_rows, kind);
	} else {
		copy(stream, staged, from, row_size, n_rows, kind);
		stage->to = to;
		stage->row_size = row_size;
		stage->n_rows = n_rows;
	}
	check(stream, "cudaEventRecord",
	      cudaEventRecord(stage->copied,
			      static_cast<cudaStream_t>(device_stream_native(stream))));
}

static struct place place_after(struct place place, size_t n_rows, size_t n)
{
	return { place.at + n_rows * place.stride + n, place.stride };
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void copy_staged(struct staging *staging, struct device_stream *stream, struct place to,
			struct place from, size_t row_size, size_t n_rows, cudaMemcpyKind kind)
{
	size_t width, height;

	if (row_size == 0 || n_rows == 0 || device_stream_stopped(stream))
		return;
	if (together(to, from, row_size)) {
		row_size *= n_rows;
		n_rows = 1;
	}
	if (!staging->pinned) {
		copy(stream, to, from, row_size, n_rows, kind);
		return;
	}
	width = least(row_size, STAGE_SIZE);
	height = STAGE_SIZE / width;
	for (size_t row = 0; row < n_rows; row += height) {
		for (size_t at = 0; at < row_size; at += width)
			piece_copy(staging, stream, place_after(to, row, at),
				   place_after(from, row, at), least(width, row_size - at),
				   least(height, n_rows - row), kind);
	}
}

void staging_in(struct staging *staging, struct device_stream *stream, void *to, size_t to_stride,
		const void *from, size_t from_stride, size_t row_size, size_t n_rows)
{
	copy_staged(staging, stream, { static_cast<char *>(to), to_stride },
		    { static_cast<char *>(const_cast<void *>(from)), from_stride }, row_size,
		    n_rows, cudaMemcpyHostToDevice);
}

void staging_out(struct staging *staging, struct device_stream *stream, void *to, size_t to_stride,
		 const void *from, size_t from_stride, size_t row_size, size_t n_rows)
{
	copy_staged(staging, stream, { static_cast<char *>(to), to_stride },
		    { static_cast<char *>(const_cast<void *>(from)), from_stride }, row_size,
		    n_rows, cudaMemcpyDeviceToHost);
}
