/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs by the CUDA runtime, which is linked in and finds the driver when it is first called: without one, there is no GPU.
 */
extern "C" {
#include "device.h"
}

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>

#define MAX_BLOCKS    16
#define TAKE_ALIGN    ((size_t)256)
#define BLOCK_LEAST   ((size_t)1 << 20)
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
	size_t least; /* bytes of the first block: what several held together */
	const char *failed; /* the call; NULL: none */
	cudaError_t error;
	const char *why; /* what it said, where it is none of the runtime's */
	size_t wanted; /* bytes, by device_take() */

	~device_lane(); /* at the end of its thread */
};

/* The GPUs that can be used. */
struct devices {
	int n;
	int number[DEVICES_MOST], capability[DEVICES_MOST];
	char why[256];
};

static struct devices devices;
static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static unsigned n_lanes; /* so far, over all threads */
static thread_local struct device_lane lane_here;

static void devices_find(void)
{
	int n = 0, runtime = 0;
	cudaError_t error = cudaGetDeviceCount(&n);

	if (error != cudaSuccess || n == 0) {
		cudaRuntimeGetVersion(&runtime);
		snprintf(devices.why, sizeof devices.why, "CUDA %d.%d: %s", runtime / 1000, runtime % 1000 / 10,
			 error ? cudaGetErrorString(error) : "no device");
		return;
	}
	for (int i = 0; i < n && devices.n < DEVICES_MOST; i++) {
		int major = 0, minor = 0;

		if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, i) ||
		    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, i))
			continue;
		if (10 * major + minor < LEAST_CAPABILITY) {
			snprintf(devices.why, sizeof devices.why, "compute capability %d.%d, the kernels need 8.0", major, minor);
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

static void lane_fail(struct device_lane *lane, const char *call, cudaError_t error)
{
	if (error == cudaSuccess || lane->failed)
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

struct device_lane *device_lane(void)
{
	struct device_lane *lane = &lane_here;

	if (lane->open || device_missing())
		return lane;
	lane->open = true;
	lane->device = (int)(__atomic_fetch_add(&n_lanes, 1, __ATOMIC_RELAXED) % (unsigned)devices.n);
	lane_fail(lane, "cudaSetDevice", cudaSetDevice(devices.number[lane->device]));
	lane_fail(lane, "cudaStreamCreate", cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
	return lane;
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

device_lane::~device_lane()
{
	if (!open)
		return;
	cudaStreamSynchronize(stream);
	blocks_free(this);
	cudaStreamDestroy(stream);
}

int device_lane_failed(struct device_lane *lane, struct err *err)
{
	const char *call = lane->failed;
	size_t free_size = 0, size = 0;

	if (!call)
		return 0;
	lane->failed = NULL;
	if (lane->error != cudaErrorMemoryAllocation)
		return err_set(err, ERR_SYSTEM, "%s on GPU %d: %s", call, devices.number[lane->device],
			       lane->why ? lane->why : cudaGetErrorString(lane->error));
	cudaGetLastError(); /* this error does not stick to the device */
	cudaMemGetInfo(&free_size, &size);
	return err_set(err, ERR_SYSTEM,
		       "%s on GPU %d: %zu MiB wanted, %zu of %zu MiB free: give less --max-memory or fewer --threads", call,
		       devices.number[lane->device], lane->wanted >> 20, free_size >> 20, size >> 20);
}

bool device_lane_stopped(const struct device_lane *lane)
{
	return lane->failed != NULL;
}

void *device_stream(struct device_lane *lane)
{
	return lane->stream;
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
	if (lane->n_blocks == MAX_BLOCKS)
		error = cudaErrorMemoryAllocation;
	else
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

static void copy(struct device_lane *lane, void *to, size_t to_stride, const void *from, size_t from_stride, size_t row_size,
		 size_t n_rows, cudaMemcpyKind kind)
{
	if (lane->failed || row_size == 0 || n_rows == 0)
		return;
	if (n_rows == 1 || (to_stride == row_size && from_stride == row_size))
		lane_fail(lane, "cudaMemcpyAsync", cudaMemcpyAsync(to, from, row_size * n_rows, kind, lane->stream));
	else
		lane_fail(lane, "cudaMemcpy2DAsync",
			  cudaMemcpy2DAsync(to, to_stride, from, from_stride, row_size, n_rows, kind, lane->stream));
}

void device_copy_in(struct device_lane *lane, void *to, size_t to_stride, const void *from, size_t from_stride,
		    size_t row_size, size_t n_rows)
{
	copy(lane, to, to_stride, from, from_stride, row_size, n_rows, cudaMemcpyHostToDevice);
}

void device_copy_out(struct device_lane *lane, void *to, size_t to_stride, const void *from, size_t from_stride,
		     size_t row_size, size_t n_rows)
{
	copy(lane, to, to_stride, from, from_stride, row_size, n_rows, cudaMemcpyDeviceToHost);
}

void device_zero(struct device_lane *lane, void *memory, size_t n)
{
	if (!lane->failed)
		lane_fail(lane, "cudaMemsetAsync", cudaMemsetAsync(memory, 0, n, lane->stream));
}

void device_launched(struct device_lane *lane, const char *kernel)
{
	lane_fail(lane, kernel, cudaGetLastError());
}

void device_wait(struct device_lane *lane)
{
	if (!lane->failed)
		lane_fail(lane, "cudaStreamSynchronize", cudaStreamSynchronize(lane->stream));
}
