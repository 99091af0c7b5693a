/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs by the CUDA runtime, which is linked in and finds the driver at the first call.  Without a
 * driver there is no GPU.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/cuda/devices.h"
#include "kernels/gpu/cuda/staging.h"
}

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_BLOCKS  16
#define TAKE_ALIGN  ((size_t)256)
#define MIB	    ((size_t)1 << 20)
#define BLOCK_LEAST MIB

/* Memory that is taken from front to back. */
struct block {
	char *memory;
	size_t size, used;
};

struct device_stream {
	bool open;
	int device;
	cudaStream_t native;
	cudaStream_t own; /* while native is borrowed */
	int before;	  /* the GPU that was current then */
	cudaEvent_t done; /* for device_wait(): a thread that waits leaves its CPU to others */
	struct block blocks[MAX_BLOCKS]; /* each at least as large as all before it together */
	size_t n_blocks;
	size_t least;		 /* bytes of the first block: the sum of the last step's blocks */
	struct staging *staging; /* NULL: no copy yet */
	const char *failed;	 /* the failed call; NULL: none */
	cudaError_t error;
	const char *why;	    /* its message, if it is not a call of the runtime */
	bool follows;		    /* the GPU had failed before */
	size_t wanted;		    /* bytes wanted by device_take() */
	struct device_stream *next; /* another idle one */
};

static void stream_give(struct device_stream *stream);

struct thread_stream {
	struct device_stream *stream;

	~thread_stream()
	{
		stream_give(stream);
	}
};

/* The first failure of a GPU after which it refuses all calls. */
struct broken {
	const char *call; /* NULL: none */
	cudaError_t error;
};

static struct broken broken[DEVICES_MOST];
static pthread_mutex_t broken_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_threads;			 /* threads that have had a stream */
static struct device_stream *idle[DEVICES_MOST]; /* of threads that have ended, with their memory */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static thread_local struct thread_stream here;
static thread_local int device_here = -1; /* the current GPU of this thread; -1: unknown */

/* Clears the runtime's record of a failure, which the next launch of another stream in this thread
 * would report.  Returns whether it cannot be cleared and has come before: then the call failed for
 * no reason of its own. */
static bool failure_clear(int device, const char *call, cudaError_t error)
{
	bool before = false;

	cudaGetLastError();
	if (cudaPeekAtLastError() == cudaSuccess)
		return false;
	pthread_mutex_lock(&broken_lock);
	before = broken[device].call != NULL;
	if (!before)
		broken[device] = { call, error };
	pthread_mutex_unlock(&broken_lock);
	return before;
}

static void stream_fail(struct device_stream *stream, const char *call, cudaError_t error)
{
	bool follows;

	if (error == cudaSuccess)
		return;
	follows = failure_clear(stream->device, call, error);
	if (stream->failed)
		return;
	stream->failed = call;
	stream->error = error;
	stream->why = NULL;
	stream->follows = follows;
}

static int follows(int device, struct err *err)
{
	err_set(err, ERR_SYSTEM, "GPU %d failed before, in another stream: %s: %s",
		devices.number[device], broken[device].call,
		cudaGetErrorString(broken[device].error));
	err->follows = true;
	return -1;
}

void device_fail(struct device_stream *stream, const char *call, const char *why)
{
	if (stream->failed)
		return;
	stream_fail(stream, call, cudaErrorUnknown);
	stream->why = why;
}

static cudaError_t make_current(int device)
{
	cudaError_t error = cudaSuccess;

	if (device != device_here)
		error = cudaSetDevice(devices.number[device]);
	device_here = error ? -1 : device;
	return error;
}

static void stream_open(struct device_stream *stream, int device)
{
	stream->open = true;
	stream->device = device;
	stream_fail(stream, "cudaSetDevice", make_current(device));
	stream_fail(stream, "cudaStreamCreate",
		    cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking));
	stream_fail(stream, "cudaEventCreate",
		    cudaEventCreateWithFlags(&stream->done,
					     cudaEventDisableTiming | cudaEventBlockingSync));
}

static struct device_stream *stream_alloc(void)
{
	return static_cast<struct device_stream *>(xcalloc(1, sizeof(struct device_stream)));
}

static struct device_stream *idle_take(int device)
{
	struct device_stream *stream;

	pthread_mutex_lock(&idle_lock);
	stream = idle[device];
	if (stream)
		idle[device] = stream->next;
	pthread_mutex_unlock(&idle_lock);
	return stream;
}

struct device_stream *device_stream_here(void)
{
	unsigned n;
	int device;

	if (here.stream)
		return here.stream;
	if (device_missing()) {
		here.stream = stream_alloc();
		return here.stream;
	}
	n = __atomic_fetch_add(&n_threads, 1, __ATOMIC_RELAXED);
	device = (int)(n % (unsigned)devices.n);
	here.stream = idle_take(device);
	if (!here.stream) {
		here.stream = stream_alloc();
		stream_open(here.stream, device);
	}
	return here.stream;
}

struct device_stream *device_stream_new(int device, struct err *err)
{
	struct device_stream *stream = stream_alloc();

	stream_open(stream, device);
	if (!device_stream_failed(stream, err))
		return stream;
	device_stream_free(stream);
	return NULL;
}

int device_index(const struct device_stream *stream)
{
	return stream->device;
}

int device_capability(void)
{
	return device_missing() ? 0 : devices.capability[device_stream_here()->device];
}

static void blocks_free(struct device_stream *stream)
{
	while (stream->n_blocks > 0)
		cudaFree(stream->blocks[--stream->n_blocks].memory);
}

static void stream_close(struct device_stream *stream)
{
	if (!stream->open)
		return;
	if (stream->native)
		cudaStreamSynchronize(stream->native);
	staging_free(stream->staging);
	blocks_free(stream);
	if (stream->done)
		cudaEventDestroy(stream->done);
	if (stream->native)
		cudaStreamDestroy(stream->native);
	cudaGetLastError();
}

void device_stream_free(struct device_stream *stream)
{
	if (stream)
		stream_close(stream);
	free(stream);
}

uint64_t device_memory_left(int device)
{
	size_t free_size = 0, size = 0;

	if (device_missing() || make_current(device) || cudaMemGetInfo(&free_size, &size)) {
		cudaGetLastError();
		return 0;
	}
	return free_size;
}

/* Takes the stream of a thread that ends: the threads of the next step use it. */
static void stream_give(struct device_stream *stream)
{
	if (!stream || !stream->open || stream->failed) {
		device_stream_free(stream);
		return;
	}
	device_wait(stream);
	device_begin(stream);
	pthread_mutex_lock(&idle_lock);
	stream->next = idle[stream->device];
	idle[stream->device] = stream;
	pthread_mutex_unlock(&idle_lock);
}

static int no_room(int device, const char *what, uint64_t wanted, struct err *err)
{
	size_t free_size = 0, size = 0;

	if (!make_current(device))
		cudaMemGetInfo(&free_size, &size);
	return err_no_memory(err,
			     "%s on GPU %d: %llu MiB needed, %zu of %zu MiB free: reduce "
			     "--max-memory or --threads",
			     what, devices.number[device],
			     (unsigned long long)((wanted + MIB - 1) / MIB), free_size / MIB,
			     size / MIB);
}

int device_stream_failed(struct device_stream *stream, struct err *err)
{
	const char *call = stream->failed;

	if (!call)
		return 0;
	if (stream->staging)
		staging_settle(stream->staging, stream); /* drops pending copies to the host */
	stream->failed = NULL;
	if (stream->follows)
		return follows(stream->device, err);
	if (stream->error == cudaErrorMemoryAllocation)
		return no_room(stream->device, call, stream->wanted, err);
	return err_set(err, ERR_SYSTEM, "%s on GPU %d: %s", call, devices.number[stream->device],
		       stream->why ? stream->why : cudaGetErrorString(stream->error));
}

int device_memory_new(int device, void **memory, uint64_t size, const char *what, struct err *err)
{
	cudaError_t error = make_current(device);

	*memory = NULL;
	if (!error)
		error = cudaMalloc(memory, size ? size : 1);
	if (!error)
		return 0;
	if (failure_clear(device, "cudaMalloc", error))
		return follows(device, err);
	if (error == cudaErrorMemoryAllocation)
		return no_room(device, what, size, err);
	return err_set(err, ERR_SYSTEM, "cudaMalloc of %s on GPU %d: %s", what,
		       devices.number[device], cudaGetErrorString(error));
}

void device_memory_free(void *memory)
{
	if (memory && cudaFree(memory))
		cudaGetLastError();
}

bool device_stream_stopped(const struct device_stream *stream)
{
	return stream->failed != NULL;
}

bool device_stream_retry(struct device_stream *stream)
{
	if (!stream->failed || stream->error != cudaErrorMemoryAllocation)
		return false;
	if (stream->staging)
		staging_settle(stream->staging, stream);
	stream->failed = NULL;
	stream->least = 0;
	blocks_free(stream);
	return true;
}

static cudaStream_t stream_of(struct device_stream *stream)
{
	stream_fail(stream, "cudaSetDevice", make_current(stream->device));
	return stream->native;
}

void *device_stream_native(struct device_stream *stream)
{
	return stream_of(stream);
}

void device_borrow(struct device_stream *stream, void *native)
{
	stream_fail(stream, "cudaGetDevice", cudaGetDevice(&stream->before));
	device_here = -1;
	stream_fail(stream, "cudaSetDevice", make_current(stream->device));
	stream->own = stream->native;
	stream->native = static_cast<cudaStream_t>(native);
	stream_fail(stream, "cudaStreamWaitEvent",
		    cudaStreamWaitEvent(stream->native, stream->done, 0));
}

void device_return(struct device_stream *stream)
{
	stream_fail(stream, "cudaEventRecord", cudaEventRecord(stream->done, stream->native));
	stream->native = stream->own;
	stream_fail(stream, "cudaSetDevice", cudaSetDevice(stream->before));
	device_here = -1;
}

/* Memory that needed several blocks last time becomes one block. */
void device_begin(struct device_stream *stream)
{
	if (stream->n_blocks > 1) {
		stream->least = 0;
		for (size_t i = 0; i < stream->n_blocks; i++)
			stream->least += stream->blocks[i].size;
		blocks_free(stream);
	}
	for (size_t i = 0; i < stream->n_blocks; i++)
		stream->blocks[i].used = 0;
}

static struct block *block_add(struct device_stream *stream, size_t n)
{
	struct block *block = &stream->blocks[stream->n_blocks];
	size_t total = 0;
	cudaError_t error;

	for (size_t i = 0; i < stream->n_blocks; i++)
		total += stream->blocks[i].size;
	*block = { NULL, total > n ? total : n, 0 };
	if (block->size < BLOCK_LEAST)
		block->size = BLOCK_LEAST;
	if (stream->n_blocks == 0 && block->size < stream->least)
		block->size = stream->least;
	error = stream->n_blocks == MAX_BLOCKS ? cudaErrorMemoryAllocation
					       : make_current(stream->device);
	if (!error)
		error = cudaMalloc(reinterpret_cast<void **>(&block->memory), block->size);
	stream->wanted = block->size;
	stream_fail(stream, "cudaMalloc", error);
	if (error)
		return NULL;
	stream->n_blocks++;
	return block;
}

void *device_take(struct device_stream *stream, size_t n)
{
	struct block *block = stream->n_blocks ? &stream->blocks[stream->n_blocks - 1] : NULL;
	char *taken;

	if (stream->failed)
		return NULL;
	n = (n + TAKE_ALIGN - 1) / TAKE_ALIGN * TAKE_ALIGN;
	if (!block || block->size - block->used < n)
		block = block_add(stream, n);
	if (!block)
		return NULL;
	taken = block->memory + block->used;
	block->used += n;
	return taken;
}

static struct staging *staging_of(struct device_stream *stream)
{
	stream_of(stream);
	if (!stream->staging)
		stream->staging = staging_new(stream->device);
	return stream->staging;
}

void device_copy_in(struct device_stream *stream, const struct device_copy *copy)
{
	if (!stream->failed)
		staging_in(staging_of(stream), stream, copy);
}

void device_copy_out(struct device_stream *stream, const struct device_copy *copy)
{
	if (!stream->failed)
		staging_out(staging_of(stream), stream, copy);
}

void device_zero(struct device_stream *stream, void *memory, size_t n)
{
	if (!stream->failed)
		stream_fail(stream, "cudaMemsetAsync",
			    cudaMemsetAsync(memory, 0, n, stream_of(stream)));
}

void device_move(struct device_stream *stream, void *to, const void *from, size_t n)
{
	if (!stream->failed)
		stream_fail(
			stream, "cudaMemcpyAsync",
			cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice, stream_of(stream)));
}

void device_launched(struct device_stream *stream, const char *kernel)
{
	stream_fail(stream, kernel, cudaGetLastError());
}

void device_wait(struct device_stream *stream)
{
	cudaError_t error;

	if (stream->staging)
		staging_settle(stream->staging, stream);
	error = cudaEventRecord(stream->done, stream_of(stream));
	stream_fail(stream, "cudaEventRecord", error);
	if (error)
		cudaStreamSynchronize(stream->native);
	else
		stream_fail(stream, "cudaEventSynchronize", cudaEventSynchronize(stream->done));
}
