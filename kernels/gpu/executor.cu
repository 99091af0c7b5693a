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

/* A weight of more rows, as an output layer is, lies in panels, so that a panel of its y is at hand
 * at once. */
#define MOST_ROWS  16384
#define PANEL_ROWS 8192

struct gpu_stream {
	struct executor_stream stream;
	struct device_stream *device;
	struct gpu_gemm_space space;
	struct gpu_stream *next; /* where it is spare */
};

/* That of a weight that was released. */
struct memory {
	void *data;
	uint64_t size;
	struct memory *next;
};

struct cuda_executor {
	struct executor executor;
	pthread_mutex_t lock;	  /* of what follows */
	struct gpu_stream *spare; /* of weight_set(), which is called without one */
	/* the next layer's weights are of the same sizes; to free it would stop all streams */
	struct memory *spare_memory;
};

static struct cuda_executor *cuda_executor(struct executor *executor)
{
	return reinterpret_cast<struct cuda_executor *>(executor);
}

static struct gpu_stream *gpu_stream(struct executor_stream *stream)
{
	return reinterpret_cast<struct gpu_stream *>(stream);
}

static struct device_stream *device_of(struct executor_stream *stream)
{
	return gpu_stream(stream)->device;
}

/* --- streams --- */

static int gpu_stream_new(struct executor_stream **result, struct executor *executor,
			  struct err *err)
{
	struct device_stream *device = device_stream_new(GPU, err);
	struct gpu_stream *stream;

	if (!device)
		return -1;
	stream = static_cast<struct gpu_stream *>(xcalloc(1, sizeof *stream));
	stream->stream.executor = executor;
	stream->device = device;
	*result = &stream->stream;
	return 0;
}

static void gpu_stream_free(struct executor_stream *stream)
{
	if (!stream)
		return;
	device_stream_free(device_of(stream));
	free(gpu_stream(stream));
}

static int cuda_wait(struct executor_stream *stream, struct err *err)
{
	device_wait(device_of(stream));
	return device_stream_failed(device_of(stream), err);
}

static int spare_take(struct executor_stream **stream, struct executor *executor, struct err *err)
{
	struct cuda_executor *cuda = cuda_executor(executor);
	struct gpu_stream *spare;

	pthread_mutex_lock(&cuda->lock);
	spare = cuda->spare;
	if (spare)
		cuda->spare = spare->next;
	pthread_mutex_unlock(&cuda->lock);
	if (!spare)
		return gpu_stream_new(stream, executor, err);
	*stream = &spare->stream;
	return 0;
}

static void spare_put(struct executor_stream *stream)
{
	struct cuda_executor *cuda = cuda_executor(stream->executor);

	pthread_mutex_lock(&cuda->lock);
	gpu_stream(stream)->next = cuda->spare;
	cuda->spare = gpu_stream(stream);
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
	struct gpu_stream *stream, *next;

	if (!cuda)
		return;
	for (stream = cuda->spare; stream; stream = next) {
		next = stream->next;
		gpu_stream_free(&stream->stream);
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

static void cuda_put(struct executor_stream *stream, void *to, const void *from, size_t size)
{
	device_copy_in(device_of(stream), to, size, from, size, size, 1);
}

static void cuda_fetch(struct executor_stream *stream, void *to, const void *from, size_t size)
{
	device_copy_out(device_of(stream), to, size, from, size, size, 1);
}

/* --- products --- */

static enum dtype cuda_bf16_type(void)
{
	return DT_BF16;
}

static size_t cuda_panel_rows(size_t n)
{
	return n > MOST_ROWS ? PANEL_ROWS : n;
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

/* All rows close together, whatever the panels. */
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

static int cuda_weight_set(const struct executor_weight *weight, size_t panel, const void *rows,
			   struct err *err)
{
	size_t n = executor_weight_panel_rows(weight, panel);
	struct executor_stream *stream;
	int rc;

	if (spare_take(&stream, weight->executor, err))
		return -1;
	cuda_put(stream, rows_from(weight, panel * weight->panel_rows), rows, n * row_size(weight));
	rc = cuda_wait(stream, err);
	spare_put(stream);
	return rc;
}

/* By n rows of the weight from first on. */
static void multiply(struct executor_stream *stream, const struct executor_weight *weight,
		     size_t first, size_t n, const void *x, size_t m, float *y)
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
	gpu_gemm(device_of(stream), &gpu_stream(stream)->space, &g);
}

static void cuda_multiply(struct executor_stream *stream, const struct executor_weight *weight,
			  const void *x, size_t m, float *y)
{
	multiply(stream, weight, 0, weight->n, x, m, y);
}

static void cuda_multiply_panel(struct executor_stream *stream,
				const struct executor_weight *weight, size_t panel, const void *x,
				size_t m, float *y)
{
	multiply(stream, weight, panel * weight->panel_rows,
		 executor_weight_panel_rows(weight, panel), x, m, y);
}

/* --- the row --- */

/* run() is Operation for a stream of the executor. */
template <auto Operation> struct on_stream;

template <typename... Arguments, void (*Operation)(struct device_stream *, Arguments...)>
struct on_stream<Operation> {
	static void run(struct executor_stream *stream, Arguments... arguments)
	{
		Operation(device_of(stream), arguments...);
	}
};

extern "C" const struct executor_ops executor_cuda = {
	.name = "cuda",
	.tokens_per_load = (size_t)1 << 18, /* at 2 GB/s and 500 TFLOP/s in bf16 */
	.library = cuda_library,
	.open = cuda_open,
	.close = cuda_close,
	.stream_new = gpu_stream_new,
	.stream_free = gpu_stream_free,
	.wait = cuda_wait,
	.memory_new = cuda_memory_new,
	.memory_free = cuda_memory_free,
	.zero = on_stream<device_zero>::run,
	.put = cuda_put,
	.fetch = cuda_fetch,
	.bf16_type = cuda_bf16_type,
	.panel_rows = cuda_panel_rows,
	.rows = cuda_rows,
	.weight_init = cuda_weight_init,
	.weight_release = cuda_weight_release,
	.weight_set = cuda_weight_set,
	.multiply = cuda_multiply,
	.multiply_panel = cuda_multiply_panel,
	.amax = on_stream<gpu_amax>::run,
	.round_amax = on_stream<gpu_round_amax>::run,
	.histogram = on_stream<gpu_histogram>::run,
	.round_bf16 = on_stream<gpu_round_bf16>::run,
	.add = on_stream<gpu_add>::run,
	.add_row = on_stream<gpu_add_row>::run,
	.gate = on_stream<gpu_gate>::run,
	.gate_interleaved = on_stream<gpu_gate_interleaved>::run,
	.copy = on_stream<gpu_copy_rows>::run,
	.deinterleave = on_stream<gpu_deinterleave>::run,
	.gather = on_stream<gpu_gather>::run,
	.scatter_add = on_stream<gpu_scatter_add>::run,
	.rms_norm = on_stream<gpu_rms_norm>::run,
	.rope = on_stream<gpu_rope>::run,
	.attention_scratch = gpu_attention_scratch,
	.attend = on_stream<gpu_attend>::run,
	.cross_entropy = on_stream<gpu_cross_entropy>::run,
};
