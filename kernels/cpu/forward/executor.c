/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/executor.h on the CPU: memory of the host, products by oneDNN, and the operations of
 * ops_loops.h.  A function returns when its work is done.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/dispatch.h"
#include "base/mem.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/forward/gemm.h"
#include "kernels/cpu/forward/ops.h"

/* --- round_fp8(): quantizes and dequantizes a band of rows at a time, so that its codes stay in
 * the nearest caches: 4 bytes read from memory for each element, and 2 or 4 written.  If a tile has
 * all rows, x is read once more before, for the amax --- */

/* The memory of one stream, kept from call to call.  A zeroed struct is empty. */
struct round_fp8_space {
	struct buffer codes, scales, amaxes;
};

#define BAND_VALUES ((size_t)64 << 10) /* 64 KiB of codes, 256 KiB of x */

static const char band_codes[] = "the codes of a band in FP8";

/* The amax of each tile of the whole x, where a band holds no tile; or its scale. */
static int find_amaxes(const struct backend *backend, struct round_fp8_space *space,
		       const struct round_fp8_args *args, const float **amaxes, struct err *err)
{
	const struct matrix x = { args->x, DT_F32, args->n_rows, args->n_cols, args->n_cols };
	const struct tile tile = args->spec.tile;
	size_t n = tile_count(args->n_cols, tile.cols);
	uint64_t n_nonfinite = 0;

	*amaxes = NULL;
	if (args->spec.arith == ARITH_GIVEN)
		*amaxes = &args->scale;
	if (args->spec.arith == ARITH_GIVEN || tile.rows != WHOLE)
		return 0;
	if (buffer_ensure(&space->amaxes, n * sizeof(float), band_codes, err))
		return -1;
	memset(space->amaxes.data, 0, n * sizeof(float));
	backend_amax(backend, &x, tile, space->amaxes.data, n, &n_nonfinite);
	*amaxes = space->amaxes.data;
	return 0;
}

/* Returns how many rows to take at a time: whole tiles, or any number of a tile that has all. */
static size_t band_rows(const struct round_fp8_args *args)
{
	size_t tile = args->spec.tile.rows == WHOLE ? 1 : args->spec.tile.rows;
	size_t n = BAND_VALUES / args->n_cols / tile * tile;

	n = n ? n : tile;
	return n < args->n_rows ? n : args->n_rows;
}

/* Returns how many values have a code of zero and are none. */
static uint64_t count_zeros(const float *x, const uint8_t *codes, size_t n)
{
	uint64_t zeros = 0;

	for (size_t i = 0; i < n; i++)
		zeros += (codes[i] & 0x7F) == 0 && x[i] != 0;
	return zeros;
}

/* A band: rows [first, first + n), and the codes of its values. */
struct row_band {
	size_t first, n;
	const float *amaxes; /* of find_amaxes() */
	struct round_fp8_space *space;
};

static void band_run(const struct backend *backend, const struct row_band *band,
		     const struct round_fp8_args *args)
{
	const struct qspec *spec = &args->spec;
	size_t cols = args->n_cols, at = band->first * cols,
	       n_across = tile_count(cols, spec->tile.cols);
	size_t value_size = dtype_bits(args->dtype) / 8;
	const struct matrix x = { args->x + at, DT_F32, band->n, cols, cols };
	struct quant_stats stats = { 0 };
	const struct quant_out out = { .codes = band->space->codes.data,
				       .stride = cols,
				       .scale_inv = band->space->scales.data,
				       .scale_stride = n_across,
				       .stats = &stats };
	const struct quant_in in = { .codes = out.codes,
				     .rows = band->n,
				     .cols = cols,
				     .stride = cols,
				     .format = spec->format,
				     .tile = spec->tile,
				     .scale_type = spec->scale_type,
				     .scale_inv = spec->arith == ARITH_GIVEN ? &args->scale_inv
									     : out.scale_inv,
				     .scale_stride = n_across };

	backend_cast(backend, &x, spec, band->amaxes, n_across, &out);
	if (args->counts) {
		args->counts->n_saturated += stats.saturated;
		args->counts->n_zeros += count_zeros(x.data, out.codes, band->n * cols);
	}
	backend_dequantize(backend, &in, args->dtype, (char *)args->y + at * value_size, cols);
}

/* ERR_SYSTEM without memory for the codes of a band. */
static int round_fp8_run(const struct backend *backend, struct round_fp8_space *space,
			 const struct round_fp8_args *args, struct err *err)
{
	struct row_band band = { .space = space };
	size_t max, n_scales;

	if (args->n_rows == 0 || args->n_cols == 0)
		return 0;
	max = band_rows(args);
	n_scales = tile_count(max, args->spec.tile.rows) *
		   tile_count(args->n_cols, args->spec.tile.cols);
	if (buffer_ensure(&space->codes, (uint64_t)max * args->n_cols, band_codes, err) ||
	    buffer_ensure(&space->scales, (uint64_t)n_scales * sizeof(float), band_codes, err) ||
	    find_amaxes(backend, space, args, &band.amaxes, err))
		return -1;
	for (; band.first < args->n_rows; band.first += band.n) {
		size_t left = args->n_rows - band.first;

		band.n = left < max ? left : max;
		band_run(backend, &band, args);
	}
	return backend->failed(err);
}

static void round_fp8_release(struct round_fp8_space *space)
{
	buffer_release(&space->codes);
	buffer_release(&space->scales);
	buffer_release(&space->amaxes);
}

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
	size_t keys = args->keys ? choose_keys_scratch_floats(args->keys) : 0;
	size_t scan = args->scan ? scan_scratch_floats(args->scan) : 0;
	size_t delta = args->delta ? delta_scratch_floats(args->delta) : 0;

	n = keys > n ? keys : n;
	n = scan > n ? scan : n;
	return (delta > n ? delta : n) * sizeof(float);
}

/* cpu_open() adds the operations of the best instruction set. */
const struct executor_ops executor_cpu = {
	.name = "cpu",
	.load.tokens = 1024,
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
