/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h on the CPU: memory of the host, products by oneDNN, and the functions of
 * ops.h.  A function returns when its work is done.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/forward/attention.h"
#include "kernels/cpu/forward/gemm.h"
#include "kernels/cpu/forward/observed.h"
#include "kernels/cpu/forward/ops.h"
#include "kernels/cpu/forward/round_fp8.h"
#include "kernels/cpu/forward/route.h"
#include "num/fp8.h"

struct cpu_executor {
	struct executor executor;
	struct gemm *gemm;
};

struct cpu_stream {
	struct executor_stream stream;
	const struct cpu_ops *ops;
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

static const struct cpu_ops *ops_of(struct executor_stream *stream)
{
	return cpu_of(stream)->ops;
}

static int cpu_open(struct executor **result, int device, struct err *err)
{
	struct cpu_executor *executor = xcalloc(1, sizeof *executor);

	(void)device;
	executor->executor.ops = &executor_cpu;
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
	stream->ops = cpu_ops_of(host_ops_select());
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
	struct gemm_weight *made;

	if (gemm_weight_new(&made, gemm_of(weight->executor), weight->dtype, weight->n, weight->k,
			    err))
		return -1;
	weight->data = made;
	return 0;
}

static void cpu_weight_release(struct executor_weight *weight)
{
	gemm_weight_free(weight->data);
	weight->data = NULL;
}

static int cpu_weight_set(const struct executor_weight *weight, size_t panel, const void *rows,
			  struct err *err)
{
	return gemm_weight_set(weight->data, panel, rows, err);
}

static void remember(struct cpu_stream *cpu, int rc, const struct err *err)
{
	if (!rc || cpu->failed)
		return;
	cpu->failed = true;
	cpu->err = *err;
}

static void cpu_multiply(struct executor_stream *stream, const struct executor_weight *weight,
			 const void *x, size_t m, float *y)
{
	const struct gemm_product product = { x, m, y };
	struct cpu_stream *cpu = cpu_of(stream);
	struct err err = { 0 };

	if (m)
		remember(cpu, gemm_run(weight->data, &cpu->gemm, &product, &err), &err);
}

static void cpu_multiply_panel(struct executor_stream *stream, const struct executor_weight *weight,
			       size_t panel, const void *x, size_t m, float *y)
{
	const struct gemm_product product = { x, m, y };
	struct cpu_stream *cpu = cpu_of(stream);
	struct err err = { 0 };

	if (m)
		remember(cpu, gemm_run_panel(weight->data, panel, &cpu->gemm, &product, &err),
			 &err);
}

static void cpu_gram(struct executor_stream *stream, const struct gram_args *args)
{
	struct cpu_stream *cpu = cpu_of(stream);
	struct err err = { 0 };

	if (args->m)
		remember(cpu, gemm_gram(gemm_of(stream->executor), &cpu->gemm, args, &err), &err);
}

#define NEAR_SIZE ((size_t)5 << 18) /* bytes that products leave of a server core's 2 MiB of L2 */

static size_t cpu_rows(size_t n)
{
	size_t rows = NEAR_SIZE / (n * sizeof(float)) / 16 * 16;

	return rows < gemm_min_rows() ? SIZE_MAX : rows;
}

/* --- statistics of values --- */

static void cpu_amax(struct executor_stream *stream, const float *x, size_t n,
		     struct value_stats *stats)
{
	observed_amax(ops_of(stream), x, n, stats);
}

static void cpu_round(struct executor_stream *stream, const struct round_args *args)
{
	observed_round(ops_of(stream), args);
}

static void cpu_histogram(struct executor_stream *stream, const float *x, size_t n,
			  uint64_t *counts)
{
	ops_of(stream)->histogram(x, n, counts);
}

/* --- element by element --- */

static void cpu_round_bf16(struct executor_stream *stream, const float *x, size_t n, uint16_t *y)
{
	ops_of(stream)->host.round_bf16(x, n, y);
}

static void cpu_add(struct executor_stream *stream, const struct add_args *args)
{
	observed_add(ops_of(stream), args);
}

static void cpu_add_row(struct executor_stream *stream, float *x, const float *row, size_t n_rows,
			size_t n_cols)
{
	ops_of(stream)->add_row(x, row, n_rows, n_cols);
}

static void cpu_gate(struct executor_stream *stream, const struct gate_args *args)
{
	observed_gate(ops_of(stream), args);
}

static void cpu_activate(struct executor_stream *stream, enum activation activation, const float *x,
			 size_t n, float *y)
{
	ops_of(stream)->activate(activation, x, n, y);
}

static void cpu_scale(struct executor_stream *stream, const struct scale_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++)
		ops_of(stream)->scale(a->x.data + r * a->x.stride,
				      a->factors ? a->factors[r] : a->factor, a->n_cols);
}

static void cpu_gate_interleaved(struct executor_stream *stream,
				 const struct gate_interleaved_args *args)
{
	ops_of(stream)->gate_interleaved(args);
}

/* --- rows --- */

static void cpu_copy(struct executor_stream *stream, const struct copy_args *a)
{
	(void)stream;
	for (size_t r = 0; r < a->n_rows; r++)
		memcpy(a->y.data + r * a->y.stride, a->x.data + r / a->repeat * a->x.stride,
		       a->n_cols * sizeof(float));
}

static void cpu_deinterleave(struct executor_stream *stream, const struct deinterleave_args *a)
{
	size_t half = a->n_cols / 2;

	(void)stream;
	for (size_t r = 0; r < a->n_rows; r++) {
		const float *x = a->x.data + r * a->x.stride;
		float *y = a->y.data + r * a->y.stride;

		for (size_t i = 0; i < half; i++) {
			y[i] = x[2 * i];
			y[i + half] = x[2 * i + 1];
		}
	}
}

static void cpu_gather(struct executor_stream *stream, float *y, const float *x,
		       const uint32_t *rows, size_t n_rows, size_t n_cols)
{
	(void)stream;
	for (size_t r = 0; r < n_rows; r++)
		memcpy(y + r * n_cols, x + rows[r] * n_cols, n_cols * sizeof *y);
}

static void cpu_scatter_add(struct executor_stream *stream, const struct scatter_add_args *a)
{
	for (size_t r = 0; r < a->n_rows; r++)
		ops_of(stream)->add_scaled(a->y + a->rows[r] * a->n_cols, a->x + r * a->n_cols,
					   a->factors ? a->factors[r] : 1, a->n_cols);
}

static void cpu_rms_norm(struct executor_stream *stream, const struct rms_norm_args *args)
{
	observed_norm(ops_of(stream), args);
}

static void cpu_rope(struct executor_stream *stream, const struct rope_args *args)
{
	observed_rope(ops_of(stream), args);
}

static void cpu_round_e4m3(struct executor_stream *stream, const struct round_e4m3_args *args)
{
	(void)stream;
	for (size_t i = 0; i < args->n_rows * args->n_heads * args->head_dim; i++) {
		float scale = args->scales[i / args->head_dim % args->n_heads];

		args->x[i] = fp8_e4m3_to_f32(fp8_e4m3_from_f32(args->x[i] / scale)) * scale;
	}
}

static void cpu_round_fp8(struct executor_stream *stream, const struct round_fp8_args *args)
{
	struct cpu_stream *cpu = cpu_of(stream);
	struct err err = { 0 };

	remember(cpu, round_fp8_run(cpu->backend, &cpu->casts, args, &err), &err);
}

static void cpu_attend(struct executor_stream *stream, const struct attention_args *args)
{
	attention_heads(ops_of(stream), args);
}

static void cpu_route(struct executor_stream *stream, const struct route_args *args)
{
	route_tokens(ops_of(stream), args);
}

static void cpu_sort_choices(struct executor_stream *stream, const struct sort_choices_args *args)
{
	(void)stream;
	route_sort(args);
}

static uint64_t cpu_scan_scratch(const struct scan_args *args)
{
	return scan_scratch_floats(args) * sizeof(float);
}

static void cpu_scan(struct executor_stream *stream, const struct scan_args *args)
{
	ops_of(stream)->scan(args);
}

static void cpu_scan_channels(struct executor_stream *stream, const struct scan_channels_args *args)
{
	ops_of(stream)->scan_channels(args);
}

static void cpu_convolve(struct executor_stream *stream, const struct convolve_args *args)
{
	ops_of(stream)->convolve(args);
}

static void cpu_delta_gates(struct executor_stream *stream, const struct delta_gates_args *args)
{
	ops_of(stream)->delta_gates(args);
}

static uint64_t cpu_delta_scratch(const struct delta_args *args)
{
	return delta_scratch_floats(args) * sizeof(float);
}

static void cpu_delta(struct executor_stream *stream, const struct delta_args *args)
{
	ops_of(stream)->delta(args);
}

static void cpu_cross_entropy(struct executor_stream *stream, const struct cross_entropy_args *args)
{
	const struct cpu_ops *ops = ops_of(stream);

	if (args->softcap > 0)
		ops->softcap(args->logits, args->softcap, args->n_rows * args->n_cols);
	for (size_t r = 0; r < args->n_rows; r++) {
		const float *row = args->logits + r * args->n_cols;
		size_t label = args->labels[r];

		args->log_sums[r] = ops->log_sum_exp(row, args->n_cols);
		if (label >= args->first && label - args->first < args->n_cols)
			args->label_logits[r] = row[label - args->first];
	}
}

static void cpu_divergence(struct executor_stream *stream, const struct divergence_args *args)
{
	size_t n = args->n_cols;

	for (size_t r = 0; n && r < args->n_rows; r++) {
		struct divergence_sums *sums = &args->sums[r];

		ops_of(stream)->divergence(args->p + r * n, args->q + r * n, n, sums);
		sums->top_p += (uint32_t)args->first;
		sums->top_q += (uint32_t)args->first;
	}
}

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
	.panel_rows = gemm_panel_rows,
	.rows = cpu_rows,
	.weight_init = cpu_weight_init,
	.weight_release = cpu_weight_release,
	.weight_set = cpu_weight_set,
	.multiply = cpu_multiply,
	.multiply_panel = cpu_multiply_panel,
	.gram_cols = gemm_gram_cols,
	.gram = cpu_gram,
	.amax = cpu_amax,
	.round = cpu_round,
	.histogram = cpu_histogram,
	.round_bf16 = cpu_round_bf16,
	.add = cpu_add,
	.add_row = cpu_add_row,
	.gate = cpu_gate,
	.activate = cpu_activate,
	.scale = cpu_scale,
	.gate_interleaved = cpu_gate_interleaved,
	.copy = cpu_copy,
	.deinterleave = cpu_deinterleave,
	.gather = cpu_gather,
	.scatter_add = cpu_scatter_add,
	.rms_norm = cpu_rms_norm,
	.rope = cpu_rope,
	.round_e4m3 = cpu_round_e4m3,
	.round_fp8 = cpu_round_fp8,
	.route = cpu_route,
	.sort_choices = cpu_sort_choices,
	.attention_scratch = attention_scratch_size,
	.attend = cpu_attend,
	.scan_scratch = cpu_scan_scratch,
	.scan = cpu_scan,
	.scan_channels = cpu_scan_channels,
	.convolve = cpu_convolve,
	.delta_gates = cpu_delta_gates,
	.delta_scratch = cpu_delta_scratch,
	.delta = cpu_delta,
	.cross_entropy = cpu_cross_entropy,
	.divergence = cpu_divergence,
};
