/* SPDX-License-Identifier: Apache-2.0
 *
 * A forward pass on a GPU: products by gemm.h, with the kernels of forward.h between them.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/backend.h"
}

#include <pthread.h>
#include <stdlib.h>

#include <gpu.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/gemm.h"

/* A panel is what a thread loads at once.  Weights of more than MAX_ROWS rows (output layers)
 * are also multiplied by panels, so that a panel of y fits memory: theirs have more
 * rows. */
#define MAX_ROWS       16384
#define PANEL	       1024 /* rows; columns of sums too, enough to fill a device (not measured) */
#define MAX_PANEL_ROWS 8192

struct gpu_stream {
	struct executor_stream stream;
	struct device_stream *device;
	struct gpu_gemm_space space;
	struct gpu_stream *next; /* the next idle stream */
};

struct kept_memory {
	void *memory;
	uint64_t size;
};

struct gpu_executor {
	struct executor executor;
	int device;
	pthread_mutex_t lock;	 /* of the members below */
	struct gpu_stream *idle; /* for weight_set(), which has no stream */
	/* of released weights, for the next layer, whose weights have the same sizes: freeing
	 * memory would stop all streams */
	struct kept_memory *kept;
	size_t n_kept;
};

static struct gpu_executor *gpu_executor(struct executor *executor)
{
	return reinterpret_cast<struct gpu_executor *>(executor);
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

static int stream_new(struct executor_stream **result, struct executor *executor, struct err *err)
{
	struct device_stream *device = device_stream_new(gpu_executor(executor)->device, err);
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

/* A stream that computes. */
static int gpu_stream_new(struct executor_stream **result, struct executor *executor,
			  struct err *err)
{
	if (stream_new(result, executor, err))
		return -1;
	gpu_gemm_reserve(device_of(*result), &gpu_stream(*result)->space);
	if (!device_stream_failed(device_of(*result), err))
		return 0;
	gpu_stream_free(*result);
	*result = NULL;
	return -1;
}

static int gpu_wait(struct executor_stream *stream, struct err *err)
{
	device_wait(device_of(stream));
	return device_stream_failed(device_of(stream), err);
}

static int idle_take(struct executor_stream **stream, struct executor *executor, struct err *err)
{
	struct gpu_executor *gpu = gpu_executor(executor);
	struct gpu_stream *idle;

	pthread_mutex_lock(&gpu->lock);
	idle = gpu->idle;
	if (idle)
		gpu->idle = idle->next;
	pthread_mutex_unlock(&gpu->lock);
	if (!idle)
		return stream_new(stream, executor, err);
	*stream = &idle->stream;
	return 0;
}

static void idle_put(struct executor_stream *stream)
{
	struct gpu_executor *gpu = gpu_executor(stream->executor);

	pthread_mutex_lock(&gpu->lock);
	gpu_stream(stream)->next = gpu->idle;
	gpu->idle = gpu_stream(stream);
	pthread_mutex_unlock(&gpu->lock);
}

/* --- memory of weights --- */

static void kept_free(struct gpu_executor *gpu)
{
	pthread_mutex_lock(&gpu->lock);
	for (size_t i = 0; i < gpu->n_kept; i++)
		device_memory_free(gpu->kept[i].memory);
	gpu->n_kept = 0;
	pthread_mutex_unlock(&gpu->lock);
}

/* Returns kept memory of this size; NULL without one. */
static void *kept_take(struct gpu_executor *gpu, uint64_t size)
{
	void *memory = NULL;

	pthread_mutex_lock(&gpu->lock);
	for (size_t i = 0; i < gpu->n_kept && !memory; i++)
		if (gpu->kept[i].size == size) {
			memory = gpu->kept[i].memory;
			gpu->kept[i] = gpu->kept[--gpu->n_kept];
		}
	pthread_mutex_unlock(&gpu->lock);
	return memory;
}

static void kept_put(struct gpu_executor *gpu, void *memory, uint64_t size)
{
	pthread_mutex_lock(&gpu->lock);
	gpu->kept = static_cast<struct kept_memory *>(
		xreallocarray(gpu->kept, gpu->n_kept + 1, sizeof *gpu->kept));
	gpu->kept[gpu->n_kept].memory = memory;
	gpu->kept[gpu->n_kept++].size = size;
	pthread_mutex_unlock(&gpu->lock);
}

/* --- the executor --- */

static int gpu_library(char *text, size_t size, struct err *err)
{
	const char *why = device_missing();

	if (why)
		return err_set(err, ERR_SYSTEM, "no usable GPU (%s): use --backend cpu", why);
	return gpu_gemm_library(text, size, err);
}

static int gpu_open(struct executor **result, int device, struct err *err)
{
	struct gpu_executor *gpu;
	char library[64];

	if (gpu_library(library, sizeof library, err))
		return -1;
	gpu = static_cast<struct gpu_executor *>(xcalloc(1, sizeof *gpu));
	gpu->executor.ops = &executor_gpu;
	gpu->device = device;
	pthread_mutex_init(&gpu->lock, NULL);
	*result = &gpu->executor;
	return 0;
}

static void gpu_close(struct executor *executor)
{
	struct gpu_executor *gpu = gpu_executor(executor);
	struct gpu_stream *stream, *next;

	if (!gpu)
		return;
	for (stream = gpu->idle; stream; stream = next) {
		next = stream->next;
		gpu_stream_free(&stream->stream);
	}
	kept_free(gpu);
	free(gpu->kept);
	pthread_mutex_destroy(&gpu->lock);
	free(gpu);
}

/* --- memory --- */

/* Where memory is missing, the memory of released weights is used for it. */
static int gpu_memory_new(struct executor *executor, void **memory, uint64_t size, const char *what,
			  struct err *err)
{
	struct gpu_executor *gpu = gpu_executor(executor);

	if (!device_memory_new(gpu->device, memory, size, what, err))
		return 0;
	if (!err->no_memory)
		return -1;
	kept_free(gpu);
	return device_memory_new(gpu->device, memory, size, what, err);
}

static void gpu_memory_free(struct executor *executor, void *memory)
{
	(void)executor;
	device_memory_free(memory);
}

static void gpu_put(struct executor_stream *stream, void *to, const void *from, size_t size)
{
	device_bytes_in(device_of(stream), to, from, size);
}

static void gpu_fetch(struct executor_stream *stream, void *to, const void *from, size_t size)
{
	device_bytes_out(device_of(stream), to, from, size);
}

/* --- products --- */

static enum dtype gpu_bf16_type(void)
{
	return DT_BF16;
}

/* All rows of x: the values between products fit no cache, and few rows leave most of the device
 * idle. */
static size_t gpu_portion(enum executor_portion what, size_t n)
{
	if (what == PORTION_ROWS)
		return SIZE_MAX;
	if (what == PORTION_WEIGHT && n > MAX_ROWS)
		return MAX_PANEL_ROWS;
	return n < PANEL ? n : PANEL;
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

/* Allocates all rows without gaps, whatever the panels. */
static int gpu_weight_init(struct executor_weight *weight, struct err *err)
{
	struct gpu_executor *gpu = gpu_executor(weight->executor);
	uint64_t size = weight_size(weight);

	weight->data = kept_take(gpu, size);
	if (weight->data)
		return 0;
	kept_free(gpu); /* not of this layer */
	return device_memory_new(gpu->device, &weight->data, size, "a weight", err);
}

/* The caller has waited for the products of this weight. */
static void gpu_weight_release(struct executor_weight *weight)
{
	if (!weight->data)
		return;
	kept_put(gpu_executor(weight->executor), weight->data, weight_size(weight));
	weight->data = NULL;
}

static int gpu_weight_set(const struct executor_weight *weight, size_t panel, const void *rows,
			  struct err *err)
{
	size_t n = executor_weight_panel_rows(weight, panel);
	struct executor_stream *stream;
	int rc;

	if (idle_take(&stream, weight->executor, err))
		return -1;
	gpu_put(stream, rows_from(weight, panel * weight->panel_rows), rows, n * row_size(weight));
	rc = gpu_wait(stream, err);
	idle_put(stream);
	return rc;
}

/* The product by all rows of the weight: y (m, n) = x (m, k) w^T. */
static struct gpu_gemm product_of(const struct executor_weight *weight, const void *x, size_t m,
				  float *y)
{
	struct gpu_gemm g = {};

	g.m = m;
	g.n = weight->n;
	g.k = weight->k;
	g.a.data = x;
	g.b.data = weight->data;
	g.a.dtype = g.b.dtype = weight->dtype;
	g.a.stride = g.b.stride = weight->k;
	g.d.data = y;
	g.d.dtype = DT_F32;
	g.d.stride = weight->n;
	return g;
}

static void gpu_multiply(struct executor_stream *stream, const struct multiply_args *args)
{
	const struct executor_weight *weight = args->weight;
	struct gpu_gemm g = product_of(weight, args->x, args->m, args->y);

	g.any_m = args->grouped;
	if (args->panel) {
		g.n = g.d.stride = executor_weight_panel_rows(weight, *args->panel);
		g.b.data = rows_from(weight, *args->panel * weight->panel_rows);
	}
	gpu_gemm(device_of(stream), &gpu_stream(stream)->space, &g);
}

static void gpu_gram(struct executor_stream *stream, const struct gram_args *args)
{
	const char *x = static_cast<const char *>(args->x);
	struct gpu_gemm g = {};

	if (args->m == 0)
		return;
	g.form = GEMM_SUM;
	g.m = args->first + args->n;
	g.n = args->n;
	g.k = args->m;
	g.a.data = x;
	g.b.data = x + args->first * dtype_bits(args->dtype) / 8;
	g.a.dtype = g.b.dtype = args->dtype;
	g.a.stride = g.b.stride = g.d.stride = args->k;
	g.d.data = args->h + args->first;
	g.d.dtype = DT_F32;
	gpu_gemm(device_of(stream), &gpu_stream(stream)->space, &g);
}

static uint64_t gpu_scratch(const struct scratch_args *args)
{
	uint64_t attention = args->attention ? gpu_attention_scratch(args->attention) : 0;
	uint64_t keys = args->keys ? gpu_choose_keys_scratch(args->keys) : 0;
	uint64_t scan = args->scan ? gpu_scan_scratch(args->scan) : 0;
	uint64_t most = attention > keys ? attention : keys;

	return most > scan ? most : scan;
}

/* --- the row --- */

/* run() calls Operation on the stream of the executor. */
template <auto Operation> struct on_stream;

template <typename... Arguments, void (*Operation)(struct device_stream *, Arguments...)>
struct on_stream<Operation> {
	static void run(struct executor_stream *stream, Arguments... arguments)
	{
		Operation(device_of(stream), arguments...);
	}
};

extern "C" const struct executor_ops executor_gpu = {
	.name = GPU_NAME,
	.load = { (size_t)1 << 18 /* at 2 GB/s and 500 TFLOP/s in bf16 */, 8, true },
	.library = gpu_library,
	.open = gpu_open,
	.close = gpu_close,
	.stream_new = gpu_stream_new,
	.stream_free = gpu_stream_free,
	.wait = gpu_wait,
	.memory_left = device_memory_left,
	.memory_new = gpu_memory_new,
	.memory_free = gpu_memory_free,
	.zero = on_stream<device_zero>::run,
	.put = gpu_put,
	.fetch = gpu_fetch,
	.bf16_type = gpu_bf16_type,
	.portion = gpu_portion,
	.weight_init = gpu_weight_init,
	.weight_release = gpu_weight_release,
	.weight_set = gpu_weight_set,
	.multiply = gpu_multiply,
	.gram = gpu_gram,
	.scratch = gpu_scratch,
	.round_fp8 = on_stream<gpu_round_fp8>::run,
#define GPU_OPERATION(op) .op = on_stream<gpu_##op>::run,
	EXECUTOR_OPERATIONS(GPU_OPERATION)
#undef GPU_OPERATION
};
