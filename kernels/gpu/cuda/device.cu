/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs by the CUDA runtime, which is linked in and finds the driver when it is first called:
 * without one, there is no GPU.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/cuda/staging.h"
}

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_BLOCKS	 16
#define TAKE_ALIGN	 ((size_t)256)
#define MIB		 ((size_t)1 << 20)
#define BLOCK_LEAST	 MIB
#define LEAST_CAPABILITY 80

/* Memory that is taken from front to back. */
struct block {
	char *memory;
	size_t size, used;
};

struct device_lane {
	bool open;
	int device;
	cudaStream_t stream;
	struct block blocks[MAX_BLOCKS]; /* each at least as large as those before together */
	size_t n_blocks;
	size_t least;		 /* bytes of the first block: what several held together */
	struct staging *staging; /* NULL: nothing was copied yet */
	const char *failed;	 /* the call; NULL: none */
	cudaError_t error;
	const char *why; /* what it said, where it is none of the runtime's */
	size_t wanted;	 /* bytes, by device_take() */
};

static void lane_close(struct device_lane *lane);

struct thread_lane {
	struct device_lane lane;

	~thread_lane()
	{
		lane_close(&lane);
	}
};

/* The GPUs that can be used. */
struct devices {
	int n;
	int number[DEVICES_MOST], capability[DEVICES_MOST];
	char why[256];
};

static struct devices devices;
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static unsigned n_threads; /* so far, that have a lane */
static thread_local struct thread_lane here;
static thread_local int device_here = -1; /* the current GPU of this thread; -1: not known */

static void devices_find(void)
{
	int n = 0, runtime = 0;
	cudaError_t error = cudaGetDeviceCount(&n);

	if (error != cudaSuccess || n == 0) {
		cudaRuntimeGetVersion(&runtime);
		snprintf(devices.why, sizeof devices.why, "CUDA %d.%d: %s", runtime / 1000,
			 runtime % 1000 / 10, error ? cudaGetErrorString(error) : "no device");
		return;
	}
	for (int i = 0; i < n && devices.n < DEVICES_MOST; i++) {
		int major = 0, minor = 0;

		if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) ||
		    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i))
			continue;
		if (10 * major + minor < LEAST_CAPABILITY) {
			snprintf(devices.why, sizeof devices.why,
				 "compute capability %d.%d, the kernels need 8.0", major, minor);
			continue;
		}
		devices.capability[devices.n] = 10 * major + minor;
		devices.number[devices.n++] = i;
	}
}

const char *device_missing(void)
{
	pthread_once(&devices_once, devices_find);
	return devices.n ? NULL : devices.why;
}

/* The runtime remembers what failed in a thread, where the next launch, of another lane, would find
 * it. */
static void lane_fail(struct device_lane *lane, const char *call, cudaError_t error)
{
	if (error == cudaSuccess)
		return;
	cudaGetLastError();
	if (lane->failed)
		return;
	lane->failed = call;
	lane->error = error;
	lane->why = NULL;
}

void device_fail(struct device_lane *lane, const char *call, const char *why)
{
	if (lane->failed)
		return;
	lane_fail(lane, call, cudaErrorUnknown);
	lane->why = why;
}

static cudaError_t make_current(int device)
{
	cudaError_t error = cudaSuccess;

	if (device != device_here)
		error = cudaSetDevice(devices.number[device]);
	device_here = error ? -1 : device;
	return error;
}

static void lane_open(struct device_lane *lane, int device)
{
	lane->open = true;
	lane->device = device;
	lane_fail(lane, "cudaSetDevice", make_current(device));
	lane_fail(lane, "cudaStreamCreate",
		  cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
}

struct device_lane *device_lane(void)
{
	struct device_lane *lane = &here.lane;
	unsigned n;

	if (lane->open || device_missing())
		return lane;
	n = __atomic_fetch_add(&n_threads, 1, __ATOMIC_RELAXED);
	lane_open(lane, (int)(n % (unsigned)devices.n));
	return lane;
}

struct device_lane *device_lane_new(int device, struct err *err)
{
	struct device_lane *lane = static_cast<struct device_lane *>(xcalloc(1, sizeof *lane));

	lane_open(lane, device);
	if (!device_lane_failed(lane, err))
		return lane;
	device_lane_free(lane);
	return NULL;
}

int device_index(const struct device_lane *lane)
{
	return lane->device;
}

int device_capability(void)
{
	return device_missing() ? 0 : devices.capability[device_lane()->device];
}

static void blocks_free(struct device_lane *lane)
{
	while (lane->n_blocks > 0)
		cudaFree(lane->blocks[--lane->n_blocks].memory);
}

static void lane_close(struct device_lane *lane)
{
	if (!lane->open)
		return;
	if (lane->stream)
		cudaStreamSynchronize(lane->stream);
	staging_free(lane->staging);
	blocks_free(lane);
	if (lane->stream)
		cudaStreamDestroy(lane->stream);
	cudaGetLastError();
}

void device_lane_free(struct device_lane *lane)
{
	if (lane)
		lane_close(lane);
	free(lane);
}

static int no_room(int device, const char *what, uint64_t wanted, struct err *err)
{
	size_t free_size = 0, size = 0;

	if (!make_current(device))
		cudaMemGetInfo(&free_size, &size);
	return err_set(err, ERR_SYSTEM,
		       "%s on GPU %d: %llu MiB wanted, %zu of %zu MiB free: give less --max-memory "
		       "or fewer --threads",
		       what, devices.number[device], (unsigned long long)((wanted + MIB - 1) / MIB),
		       free_size / MIB, size / MIB);
}

int device_lane_failed(struct device_lane *lane, struct err *err)
{
	const char *call = lane->failed;

	if (!call)
		return 0;
	if (lane->staging)
		staging_settle(lane->staging, lane); /* what is still to come out is forgotten */
	lane->failed = NULL;
	if (lane->error == cudaErrorMemoryAllocation)
		return no_room(lane->device, call, lane->wanted, err);
	return err_set(err, ERR_SYSTEM, "%s on GPU %d: %s", call, devices.number[lane->device],
		       lane->why ? lane->why : cudaGetErrorString(lane->error));
}

int device_memory_new(int device, void **memory, uint64_t size, const char *what, struct err *err)
{
	cudaError_t error = make_current(device);

	*memory = NULL;
	if (!error)
		error = cudaMalloc(memory, size ? size : 1);
	if (!error)
		return 0;
	cudaGetLastError();
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

bool device_lane_stopped(const struct device_lane *lane)
{
	return lane->failed != NULL;
}

bool device_lane_retry(struct device_lane *lane)
{
	if (!lane->failed || lane->error != cudaErrorMemoryAllocation)
		return false;
	if (lane->staging)
		staging_settle(lane->staging, lane);
	lane->failed = NULL;
	lane->least = 0;
	blocks_free(lane);
	return true;
}

static cudaStream_t stream_of(struct device_lane *lane)
{
	lane_fail(lane, "cudaSetDevice", make_current(lane->device));
	return lane->stream;
}

void *device_stream(struct device_lane *lane)
{
	return stream_of(lane);
}

/* What was needed last time in several blocks is one the next time. */
void device_begin(struct device_lane *lane)
{
	if (lane->n_blocks > 1) {
		lane->least = 0;
		for (size_t i = 0; i < lane->n_blocks; i++)
			lane->least += lane->blocks[i].size;
		blocks_free(lane);
	}
	for (size_t i = 0; i < lane->n_blocks; i++)
		lane->blocks[i].used = 0;
}

static struct block *block_add(struct device_lane *lane, size_t n)
{
	struct block *block = &lane->blocks[lane->n_blocks];
	size_t total = 0;
	cudaError_t error;

	for (size_t i = 0; i < lane->n_blocks; i++)
		total += lane->blocks[i].size;
	*block = { NULL, total > n ? total : n, 0 };
	if (block->size < BLOCK_LEAST)
		block->size = BLOCK_LEAST;
	if (lane->n_blocks == 0 && block->size < lane->least)
		block->size = lane->least;
	error = lane->n_blocks == MAX_BLOCKS ? cudaErrorMemoryAllocation
					     : make_current(lane->device);
	if (!error)
		error = cudaMalloc(reinterpret_cast<void **>(&block->memory), block->size);
	lane->wanted = block->size;
	lane_fail(lane, "cudaMalloc", error);
	if (error)
		return NULL;
	lane->n_blocks++;
	return block;
}

void *device_take(struct device_lane *lane, size_t n)
{
	struct block *block = lane->n_blocks ? &lane->blocks[lane->n_blocks - 1] : NULL;
	char *taken;

	if (lane->failed)
		return NULL;
	n = (n + TAKE_ALIGN - 1) / TAKE_ALIGN * TAKE_ALIGN;
	if (!block || block->size - block->used < n)
		block = block_add(lane, n);
	if (!block)
		return NULL;
	taken = block->memory + block->used;
	block->used += n;
	return taken;
}

static struct staging *staging_of(struct device_lane *lane)
{
	stream_of(lane);
	if (!lane->staging)
		lane->staging = staging_new(lane->device);
	return lane->staging;
}

void device_copy_in(struct device_lane *lane, void *to, size_t to_stride, const void *from,
		    size_t from_stride, size_t row_size, size_t n_rows)
{
	if (!lane->failed)
		staging_in(staging_of(lane), lane, to, to_stride, from, from_stride, row_size,
			   n_rows);
}

void device_copy_out(struct device_lane *lane, void *to, size_t to_stride, const void *from,
		     size_t from_stride, size_t row_size, size_t n_rows)
{
	if (!lane->failed)
		staging_out(staging_of(lane), lane, to, to_stride, from, from_stride, row_size,
			    n_rows);
}

void device_zero(struct device_lane *lane, void *memory, size_t n)
{
	if (!lane->failed)
		lane_fail(lane, "cudaMemsetAsync", cudaMemsetAsync(memory, 0, n, stream_of(lane)));
}

void device_launched(struct device_lane *lane, const char *kernel)
{
	lane_fail(lane, kernel, cudaGetLastError());
}

void device_wait(struct device_lane *lane)
{
	if (lane->staging)
		staging_settle(lane->staging, lane);
	lane_fail(lane, "cudaStreamSynchronize", cudaStreamSynchronize(stream_of(lane)));
}
