/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA runtime's copies for a CPU, all in one stream: each is made when somebody waits for it,
 * not before.  So memory that is used again too early, or looked at before it is there, comes out
 * wrong.
 */
extern "C" {
#include "tests/simt/runtime.h"
}

#include <stdlib.h>
#include <string.h>

#include "cuda_runtime.h"

#define MAX_QUEUED 256
#define POISON	   0xA5

struct simt_event {
	size_t after; /* copies that it waits for, counted from the first one on */
};

struct copy {
	char *to;
	const char *from;
	size_t to_stride, from_stride, row_size, n_rows;
};

long simt_runtime_left = -1;
size_t simt_runtime_copies, simt_runtime_idle;

static struct copy queue[MAX_QUEUED];
static size_t n_done;

static cudaError_t succeeds(void)
{
	if (simt_runtime_left == 0)
		return cudaErrorUnknown;
	if (simt_runtime_left > 0)
		simt_runtime_left--;
	return cudaSuccess;
}

static void run_until(size_t n)
{
	for (; n_done < n; n_done++) {
		const struct copy *c = &queue[n_done % MAX_QUEUED];

		for (size_t row = 0; row < c->n_rows; row++)
			memcpy(c->to + row * c->to_stride, c->from + row * c->from_stride,
			       c->row_size);
	}
}

void simt_runtime_finish(void)
{
	run_until(simt_runtime_copies);
}

cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned)
{
	if (succeeds())
		return cudaErrorMemoryAllocation;
	*memory = malloc(size);
	if (!*memory)
		abort();
	memset(*memory, POISON, size);
	return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
	free(memory);
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	if (succeeds())
		return cudaErrorUnknown;
	*event = static_cast<cudaEvent_t>(calloc(1, sizeof **event));
	return *event ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	free(event);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
	event->after = simt_runtime_copies;
	return succeeds();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	if (event->after > n_done)
		simt_runtime_idle += event->after == simt_runtime_copies;
	run_until(event->after);
	return succeeds();
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride,
			      size_t row_size, size_t n_rows, cudaMemcpyKind, cudaStream_t)
{
	if (succeeds())
		return cudaErrorUnknown;
	if (simt_runtime_copies - n_done == MAX_QUEUED || to_stride < row_size ||
	    from_stride < row_size)
		abort();
	queue[simt_runtime_copies++ % MAX_QUEUED] = { static_cast<char *>(to),
						      static_cast<const char *>(from),
						      to_stride,
						      from_stride,
						      row_size,
						      n_rows };
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return cudaMemcpy2DAsync(to, n, from, n, n, 1, kind, stream);
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t)
{
	return "unknown error";
}
