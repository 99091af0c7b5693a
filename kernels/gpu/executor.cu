/* SPDX-License-Identifier: Apache-2.0
 *
 * A forward pass on a GPU: the first of those that can be used.  Between its products run the
 * kernels of forward.h; its products are cuBLASLt's.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/cuda/cublaslt.h"
#include "kernels/gpu/backend.h"
}

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/gemm.h"

#define GPU 0

/* A weight of more rows, as an output layer is, lies in parts, so that a part of its y is at hand
 * at once. */
#define MOST_ROWS 16384
#define PART_ROWS 8192

struct cuda_lane {
	struct executor_lane lane;
	struct device_lane *device;
	struct gpu_gemm_space space;
	struct cuda_lane *next; /* where it is spare */
};

/* That of a weight that was released. */
struct memory {
	void *data;
	uint64_t size;
	struct memory *next;
};

struct cuda_executor {
	struct executor executor;
	pthread_mutex_t lock;	 /* of what follows */
	struct cuda_lane *spare; /* of weight_set(), which is called without one */
	/* the next layer's weights are of the same sizes; to free it would stop all lanes */
	struct memory *spare_memory;
};

static struct cuda_executor *cuda_executor(struct executor *executor)
{
	return reinterpret_cast<struct cuda_executor *>(executor);
}

static struct cuda_lane *cuda_lane(struct executor_lane *lane)
{
	return reinterpret_cast<struct cuda_lane *>(lane);
}

static struct device_lane *device_of(struct executor_lane *lane)
{
	return cuda_lane(lane)->device;
}

/* --- lanes --- */

static int cuda_lane_new(struct executor_lane **result, struct executor *executor, struct err *err)
{
	struct device_lane *device = device_lane_new(GPU, err);
	struct cuda_lane *lane;

	if (!device)
		return -1;
	lane = static_cast<struct cuda_lane *>(xcalloc(1, sizeof *lane));
	lane->lane.executor = executor;
	lane->device = device;
	*result = &lane->lane;
	return 0;
}

static void cuda_lane_free(struct executor_lane *lane)
{
	if (!lane)
		return;
	device_lane_free(device_of(lane));
	free(cuda_lane(lane));
}

static int cuda_wait(struct executor_lane *lane, struct err *err)
{
	device_wait(device_of(lane));
	return device_lane_failed(device_of(lane), err);
}

static int spare_take(struct executor_lane **lane, struct executor *executor, struct err *err)
{
	struct cuda_executor *cuda = cuda_executor(executor);
	struct cuda_lane *spare;

	pthread_mutex_lock(&cuda->lock);
	spare = cuda->spare;
	if (spare)
		cuda->spare = spare->next;
	pthread_mutex_unlock(&cuda->lock);
	if (!spare)
		return cuda_lane_new(lane, executor, err);
	*lane = &spare->lane;
	return 0;
}

static void spare_put(struct executor_lane *lane)
{
	struct cuda_executor *cuda = cuda_executor(lane->executor);

	pthread_mutex_lock(&cuda->lock);
	cuda_lane(lane)->next = cuda->spare;
	cuda->spare = cuda_lane(lane);
	pthread_mutex_unlock(&cuda->lock);
}

/* --- spare memory --- */

/* All of it; the caller has the lock. */
static void spare_memory_free(struct cuda_executor *cuda)
{
	struct memory *memory;

	while ((memory = cuda->spare_memory) != NULL) {
		cuda->spare_memory = memory->next;
		device_memory_free(memory->data);
		free(memory);
	}
}

/* NULL: there is none of that size, so the others are not of the layer to come either, and are
 * freed. */
static void *spare_memory_take(struct cuda_executor *cuda, uint64_t size)
{
	struct memory **at = &cuda->spare_memory, *memory;
	void *data = NULL;

	pthread_mutex_lock(&cuda->lock);
	while (*at && (*at)->size != size)
		at = &(*at)->next;
	memory = *at;
	if (memory) {
		*at = memory->next;
		data = memory->data;
		free(memory);
	} else {
		spare_memory_free(cuda);
	}
	pthread_mutex_unlock(&cuda->lock);
	return data;
}

static void spare_memory_put(struct cuda_executor *cuda, void *data, uint64_t size)
{
	struct memory *memory = static_cast<struct memory *>(xcalloc(1, sizeof *memory));

	*memory = { data, size, NULL };
	pthread_mutex_lock(&cuda->lock);
	memory->next = cuda->spare_memory;
	cuda->spare_memory = memory;
	pthread_mutex_unlock(&cuda->lock);
}

/* --- the executor --- */

static int cuda_library(char *text, size_t size, struct err *err)
{
	const char *why = device_missing();
	const struct cublaslt *lt;
	size_t version;

	if (why)
		return err_set(err, ERR_SYSTEM,
			       "there is no GPU to compute on (%s): --backend cpu needs none", why);
	lt = cublaslt(&why);
	if (!lt)
		return err_set(err, ERR_SYSTEM, "%s", why);
	version = lt->GetVersion();
	snprintf(text, size, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
		 version % 100);
	return 0;
}

static int cuda_open(struct executor **result, struct err *err)
{
	struct cuda_executor *cuda;
	char library[64];

	if (cuda_library(library, sizeof library, err))
		return -1;
	cuda = static_cast<struct cuda_executor *>(xcalloc(1, sizeof *cuda));
	cuda->executor.ops = &executor_cuda;
	pthread_mutex_init(&cuda->lock, NULL);
	*result = &cuda->executor;
	return 0;
}

static void cuda_close(struct executor *executor)
{
	struct cuda_executor *cuda = cuda_executor(executor);
	struct cuda_lane *lane, *next;

	if (!cuda)
		return;
	for (lane = cuda->spare; lane; lane = next) {
		next = lane->next;
		cuda_lane_free(&lane->lane);
	}
	spare_memory_free(cuda);
	pthread_mutex_destroy(&cuda->lock);
	free(cuda);
}

/* --- memory --- */

static int cuda_memory_new(struct executor *executor, void **memory, uint64_t size,
			   const char *what, struct err *err)
{
	(void)executor;
	return device_memory_new(GPU, memory, size, what, err);
}

static void cuda_memory_free(struct executor *executor, void *memory)
{
	(void)executor;
	device_memory_free(memory);
}

static void cuda_put(struct executor_lane *lane, void *to, const void *from, size_t size)
{
	device_copy_in(device_of(lane), to, size, from, size, size, 1);
}

static void cuda_fetch(struct executor_lane *lane, void *to, const void *from, size_t size)
{
	device_copy_out(device_of(lane), to, size, from, size, size, 1);
}

/* --- products --- */

static enum dtype cuda_bf16_type(void)
{
	return DT_BF16;
}

static size_t cuda_part_rows(size_t n)
{
	return n > MOST_ROWS ? PART_ROWS : n;
}

/* All: what lies between products fits into no cache, and few rows leave most of the device
 * idle. */
static size_t cuda_rows(size_t n)
{
	(void)n;
	return SIZE_MAX;
}

static size_t row_size(const struct executor_weight *weight)
{
	return weight->k * dtype_bits(weight->dtype) / 8;
}

static uint64_t weight_size(const struct executor_weight *weight)
{
	return (uint64_t)weight->n * row_size(weight);
}

static char *rows_from(const struct executor_weight *weight, size_t row)
{
	return static_cast<char *>(weight->data) + row * row_size(weight);
}

/* All rows close together, whatever the parts. */
static int cuda_weight_init(struct executor_weight *weight, struct err *err)
{
	weight->data = spare_memory_take(cuda_executor(weight->executor), weight_size(weight));
	return weight->data ? 0
			    : device_memory_new(GPU, &weight->data, weight_size(weight), "a weight",
						err);
}

/* The products by it have been waited for. */
static void cuda_weight_release(struct executor_weight *weight)
{
	if (weight->data)
		spare_memory_put(cuda_executor(weight->executor), weight->data,
				 weight_size(weight));
	weight->data = NULL;
}

static int cuda_weight_set(const struct executor_weight *weight, size_t part, const void *rows,
			   struct err *err)
{
	size_t n = executor_weight_part_rows(weight, part);
	struct executor_lane *lane;
	int rc;

	if (spare_take(&lane, weight->executor, err))
		return -1;
	cuda_put(lane, rows_from(weight, part * weight->part_rows), rows, n * row_size(weight));
	rc = cuda_wait(lane, err);
	spare_put(lane);
	return rc;
}

/* By n rows of the weight from first on. */
static void multiply(struct executor_lane *lane, const struct executor_weight *weight, size_t first,
		     size_t n, const void *x, size_t m, float *y)
{
	struct gpu_gemm g = {};

	g.m = m;
	g.n = n;
	g.k = weight->k;
	g.a.data = x;
	g.b.data = rows_from(weight, first);
	g.a.dtype = g.b.dtype = weight->dtype;
	g.a.stride = g.b.stride = weight->k;
	g.d.data = y;
	g.d.dtype = DT_F32;
	g.d.stride = n;
	gpu_gemm(device_of(lane), &cuda_lane(lane)->space, &g);
}

static void cuda_multiply(struct executor_lane *lane, const struct executor_weight *weight,
			  const void *x, size_t m, float *y)
{
	multiply(lane, weight, 0, weight->n, x, m, y);
}

static void cuda_multiply_part(struct executor_lane *lane, const struct executor_weight *weight,
			       size_t part, const void *x, size_t m, float *y)
{
	multiply(lane, weight, part * weight->part_rows, executor_weight_part_rows(weight, part), x,
		 m, y);
}

/* --- the row --- */

/* run() is Operation for a lane of the executor. */
template <auto Operation> struct on_lane;

template <typename... Arguments, void (*Operation)(struct device_lane *, Arguments...)>
struct on_lane<Operation> {
	static void run(struct executor_lane *lane, Arguments... arguments)
	{
		Operation(device_of(lane), arguments...);
	}
};

extern "C" const struct executor_ops executor_cuda = {
	.name = "cuda",
	.tokens_per_load = (size_t)1 << 18, /* at 2 GB/s and 500 TFLOP/s in bf16 */
	.library = cuda_library,
	.open = cuda_open,
	.close = cuda_close,
	.lane_new = cuda_lane_new,
	.lane_free = cuda_lane_free,
	.wait = cuda_wait,
	.memory_new = cuda_memory_new,
	.memory_free = cuda_memory_free,
	.zero = on_lane<device_zero>::run,
	.put = cuda_put,
	.fetch = cuda_fetch,
	.bf16_type = cuda_bf16_type,
	.part_rows = cuda_part_rows,
	.rows = cuda_rows,
	.weight_init = cuda_weight_init,
	.weight_release = cuda_weight_release,
	.weight_set = cuda_weight_set,
	.multiply = cuda_multiply,
	.multiply_part = cuda_multiply_part,
	.amax = on_lane<gpu_amax>::run,
	.round_amax = on_lane<gpu_round_amax>::run,
	.histogram = on_lane<gpu_histogram>::run,
	.round_bf16 = on_lane<gpu_round_bf16>::run,
	.add = on_lane<gpu_add>::run,
	.add_row = on_lane<gpu_add_row>::run,
	.gate = on_lane<gpu_gate>::run,
	.gate_pairs = on_lane<gpu_gate_pairs>::run,
	.copy = on_lane<gpu_copy_rows>::run,
	.part_pairs = on_lane<gpu_part_pairs>::run,
	.gather = on_lane<gpu_gather>::run,
	.scatter_add = on_lane<gpu_scatter_add>::run,
	.rms_norm = on_lane<gpu_rms_norm>::run,
	.rope = on_lane<gpu_rope>::run,
	.attend_spare = gpu_attend_spare,
	.attend = on_lane<gpu_attend>::run,
	.cross_entropy = on_lane<gpu_cross_entropy>::run,
};
