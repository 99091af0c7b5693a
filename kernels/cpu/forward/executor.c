/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h on the CPU: memory of the host, products by oneDNN, and the operations of
 * ops_loops.h.  A function returns when its work is done.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/forward/gemm.h"
#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/round_fp8.h"

struct cpu_executor {
	struct executor executor;
	struct executor_ops ops; /* of this machine */
	struct gemm *gemm;
};

struct cpu_stream {
	struct executor_stream stream;
	const struct backend *backend; /* of casts */
	struct round_fp8_space casts;
	struct gemm_stream gemm;
	bool failed;
	struct err err; /* the first failure */
};

static struct gemm *gemm_of(const struct executor *executor)
{
	return ((const struct cpu_executor *)executor)->gemm;
}

static struct cpu_stream *cpu_of(struct executor_stream *stream)
{
	return (struct cpu_stream *)stream;
}

static int cpu_open(struct executor **result, int device, struct err *err)
{
	struct cpu_executor *executor = xcalloc(1, sizeof *executor);

	(void)device;
	executor->ops = executor_cpu;
	host_ops_select()->operations(&executor->ops);
	executor->executor.ops = &executor->ops;
	if (gemm_open(&executor->gemm, err)) {
		free(executor);
		return -1;
	}
	*result = &executor->executor;
	return 0;
}

static void cpu_close(struct executor *executor)
{
	if (executor)
		gemm_close(gemm_of(executor));
	free(executor);
}

static int cpu_stream_new(struct executor_stream **result, struct executor *executor,
			  struct err *err)
{
	struct cpu_stream *stream = xcalloc(1, sizeof *stream);

	stream->stream.executor = executor;
	stream->backend = backend_select("cpu", err);
	*result = &stream->stream;
	return 0;
}

static void cpu_stream_free(struct executor_stream *stream)
{
	if (stream) {
		gemm_stream_release(gemm_of(stream->executor), &cpu_of(stream)->gemm);
		round_fp8_release(&cpu_of(stream)->casts);
	}
	free(stream);
}

static int cpu_wait(struct executor_stream *stream, struct err *err)
{
	struct cpu_stream *cpu = cpu_of(stream);

	if (!cpu->failed)
		return 0;
	cpu->failed = false;
	*err = cpu->err;
	return -1;
}

/* --- memory --- */

static int cpu_memory_new(struct executor *executor, void **memory, uint64_t size, const char *what,
			  struct err *err)
{
	(void)executor;
	return buffer_alloc(memory, size, what, err);
}

static void cpu_memory_free(struct executor *executor, void *memory)
{
	(void)executor;
	free(memory);
}

static void cpu_zero(struct executor_stream *stream, void *memory, size_t size)
{
	(void)stream;
	if (size)
		memset(memory, 0, size);
}

static void cpu_copy_bytes(struct executor_stream *stream, void *to, const void *from, size_t size)
{
	(void)stream;
	if (size)
		memcpy(to, from, size);
}

/* --- products --- */

static int cpu_weight_init(struct executor_weight *weight, struct err *err)
{
	return gemm_weight_init(gemm_of(weight->executor), weight, err);
}

static void cpu_weight_release(struct executor_weight *weight)
{
	gemm_weight_release(gemm_of(weight->executor), weight);
}

static int cpu_weight_set(const struct executor_weight *weight, size_t panel, const void *rows,
			  struct err *err)
{
	return gemm_weight_set(gemm_of(weight->executor), weight, panel, rows, err);
}

static void remember(struct cpu_stream *cpu, int rc, const struct err *err)
{
	if (!rc || cpu->failed)
		return;
	cpu->failed = true;
	cpu->err = *err;
}

static void cpu_multiply(struct executor_stream *stream, const struct multiply_args *args)
{
	struct gemm *gemm = gemm_of(stream->executor);
	struct cpu_stream *cpu = cpu_of(stream);
	struct err err = { 0 };

	if (args->m)
		remember(cpu, gemm_multiply(gemm, &cpu->gemm, args, &err), &err);
}

static void cpu_gram(struct executor_stream *stream, const struct gram_args *args)
{
	struct cpu_stream *cpu = cpu_of(stream);
	struct err err = { 0 };

	if (args->m)
		remember(cpu, gemm_gram(gemm_of(stream->executor), &cpu->gemm, args, &err), &err);
}

#define NEAR_SIZE ((size_t)5 << 18) /* bytes that products leave of a server core's 2 MiB of L2 */

static size_t cpu_portion(enum executor_portion what, size_t n)
{
	size_t rows;

	if (what == PORTION_WEIGHT)
		return gemm_panel_rows(n);
	if (what == PORTION_GRAM)
		return gemm_gram_cols(n);
	rows = NEAR_SIZE / (n * sizeof(float)) / 16 * 16;
	return rows < gemm_min_rows() ? SIZE_MAX : rows;
}

/* Returns the rows from `first` on that are of its segment. */
static size_t segment_rows(const struct round_fp8_args *args, size_t first)
{
	size_t end = first + 1;

	if (!args->segments)
		return args->n_rows;
	while (end < args->n_rows && args->segments[end] == args->segments[first])
		end++;
	return end - first;
}

static void cpu_round_fp8(struct executor_stream *stream, const struct round_fp8_args *args)
{
	struct cpu_stream *cpu = cpu_of(stream);
	size_t value_size = dtype_bits(args->dtype) / 8;
	struct round_fp8_args part = *args;
	struct err err = { 0 };

	for (size_t row = 0; row < args->n_rows; row += part.n_rows) {
		part.n_rows = segment_rows(args, row);
		part.x = args->x + row * args->n_cols;
		part.y = (char *)args->y + row * args->n_cols * value_size;
		remember(cpu, round_fp8_run(cpu->backend, &cpu->casts, &part, &err), &err);
	}
}

static uint64_t cpu_scratch(const struct scratch_args *args)
{
	size_t n = args->attention ? attention_scratch_floats(args->attention) : 0;
	size_t scan = args->scan ? scan_scratch_floats(args->scan) : 0;
	size_t delta = args->delta ? delta_scratch_floats(args->delta) : 0;

	n = scan > n ? scan : n;
	return (delta > n ? delta : n) * sizeof(float);
}

/* cpu_open() adds the operations of the best instruction set. */
const struct executor_ops executor_cpu = {
	.name = "cpu",
	.tokens_per_load = 1024,
	.library = gemm_library,
	.open = cpu_open,
	.close = cpu_close,
	.stream_new = cpu_stream_new,
	.stream_free = cpu_stream_free,
	.wait = cpu_wait,
	.memory_new = cpu_memory_new,
	.memory_free = cpu_memory_free,
	.zero = cpu_zero,
	.put = cpu_copy_bytes,
	.fetch = cpu_copy_bytes,
	.bf16_type = gemm_bf16_type,
	.portion = cpu_portion,
	.weight_init = cpu_weight_init,
	.weight_release = cpu_weight_release,
	.weight_set = cpu_weight_set,
	.multiply = cpu_multiply,
	.gram = cpu_gram,
	.scratch = cpu_scratch,
	.round_fp8 = cpu_round_fp8,
};
