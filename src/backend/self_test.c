/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/self_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "num/float16.h"

#define ROWS ((size_t)130) /* neither whole blocks nor whole vectors */
#define COLS ((size_t)300)
#define N    (ROWS * COLS)

static const struct qspec specs[] = {
	{ .tile = { 128, 128 }, .pow2 = true },
	{ .tile = { 128, 128 }, .arith = ARITH_DEEPSEEK },
	{ .tile = { 1, 128 }, .format = FP8_E5M2 },
	{ .tile = { 1, WHOLE } },
	{ .tile = { WHOLE, WHOLE }, .margin = 1 },
	{ .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
};

static const enum dtype dtypes[] = { DT_BF16, DT_F16, DT_F32 };

/* The results of a backend for one matrix. */
struct outcome {
	uint8_t codes[N];
	float scale_inv[N], amax[N], back[N];
	struct quant_stats stats;
	uint64_t n_nonfinite;
};

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state ^ *state >> 16;
}

/* Returns a value of 26 binades; every 997th has random bits and may be subnormal, infinite or
 * NaN. */
static float any_value(uint32_t *state, size_t i)
{
	uint32_t bits = next_random(state);

	return f32_from_bits(i % 997 == 0 ? bits
					  : (bits & 0x807FFFFF) | (110 + (bits >> 23) % 26) << 23);
}

static void fill(void *x, enum dtype dtype)
{
	uint32_t state = 1;

	for (size_t i = 0; i < N; i++) {
		float value = any_value(&state, i);
		uint16_t half = dtype == DT_BF16 ? bf16_from_f32(value) : f16_from_f32(value);

		if (dtype == DT_F32)
			((float *)x)[i] = value;
		else
			((uint16_t *)x)[i] = half;
	}
}

static void convert(const struct backend *backend, const struct matrix *x, const struct qspec *spec,
		    struct outcome *outcome)
{
	size_t across = tile_count(COLS, spec->tile.cols);
	const struct quant_out out = { .codes = outcome->codes,
				       .stride = COLS,
				       .scale_inv = outcome->scale_inv,
				       .scale_stride = across,
				       .stats = &outcome->stats };
	const struct quant_in in = { .codes = outcome->codes,
				     .rows = ROWS,
				     .cols = COLS,
				     .stride = COLS,
				     .format = spec->format,
				     .tile = spec->tile,
				     .scale_type = spec->scale_type,
				     .scale_inv = outcome->scale_inv,
				     .scale_stride = across };

	memset(outcome, 0, sizeof *outcome);
	backend_amax(backend, x, spec->tile, outcome->amax, across, &outcome->n_nonfinite);
	backend_cast(backend, x, spec, spec->tile.rows == WHOLE ? outcome->amax : NULL, across,
		     &out);
	backend_dequantize(backend, &in, DT_F32, outcome->back, COLS);
}

static int try_one(const struct backend *backend, const struct backend *reference,
		   const struct matrix *x, const struct qspec *spec, struct outcome outcomes[2],
		   struct err *err)
{
	convert(backend, x, spec, &outcomes[0]);
	if (backend->failed(err))
		return -1;
	convert(reference, x, spec, &outcomes[1]);
	/* The bits must be equal: NaN included. */
	/* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
	if (!memcmp(&outcomes[0], &outcomes[1], sizeof *outcomes))
		return 0;
	return err_set(err, ERR_SYSTEM,
		       "its codes of %s in tiles of (%zu, %zu) differ from the reference's",
		       dtype_name(x->dtype), spec->tile.rows, spec->tile.cols);
}

int self_test_codes(const struct backend *backend, const struct backend *reference, struct err *err)
{
	struct outcome *outcomes = xcalloc(2, sizeof *outcomes);
	float *values = xcalloc(N, sizeof *values);
	int rc = 0;

	for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes && !rc; d++) {
		const struct matrix x = { values, dtypes[d], ROWS, COLS, COLS };

		fill(values, dtypes[d]);
		for (size_t s = 0; s < sizeof specs / sizeof *specs && !rc; s++)
			rc = try_one(backend, reference, &x, &specs[s], outcomes, err);
	}
	free(outcomes);
	free(values);
	return rc;
}

/* --- a product --- */

#define M   ((size_t)17)
#define OUT ((size_t)48)
#define K   ((size_t)96)

/* The operands and the result, in bf16 and fp32, on the host. */
struct product {
	uint16_t x[M * K], w[OUT * K];
	float y[M * OUT];
};

static float small_value(uint32_t *state)
{
	return bf16_to_f32(bf16_from_f32((float)(int32_t)next_random(state) * 0x1p-31f));
}

static void product_fill(struct product *p)
{
	uint32_t state = 1;

	for (size_t i = 0; i < M * K; i++)
		p->x[i] = bf16_from_f32(small_value(&state));
	for (size_t i = 0; i < OUT * K; i++)
		p->w[i] = bf16_from_f32(small_value(&state));
}

/* Runs the product in the stream.  The caller frees memory, which is x and y on the device. */
static int product_run(struct executor_stream *stream, const struct executor_weight *weight,
		       void *memory[2], struct product *p, struct err *err)
{
	const struct executor_ops *ops = stream->executor->ops;

	if (ops->memory_new(stream->executor, &memory[0], sizeof p->x, "x of the self-test", err) ||
	    ops->memory_new(stream->executor, &memory[1], sizeof p->y, "y of the self-test", err) ||
	    ops->weight_set(weight, 0, p->w, err))
		return -1;
	ops->put(stream, memory[0], p->x, sizeof p->x);
	ops->multiply(stream, &(const struct multiply_args){
				      .weight = weight, .x = memory[0], .m = M, .y = memory[1] });
	ops->fetch(stream, p->y, memory[1], sizeof p->y);
	return ops->wait(stream, err);
}

/* Checks the sums of K products below 1, each sum with one rounding of fp32 for each product. */
static int product_check(const struct product *p, struct err *err)
{
	for (size_t i = 0; i < M * OUT; i++) {
		double expected = 0;

		for (size_t k = 0; k < K; k++)
			expected += (double)bf16_to_f32(p->x[i / OUT * K + k]) *
				    (double)bf16_to_f32(p->w[i % OUT * K + k]);
		if (!(fabs((double)p->y[i] - expected) <= (double)(K * K) * 0x1p-23))
			return err_set(err, ERR_SYSTEM, "a matrix product gave %g, expected %g",
				       (double)p->y[i], expected);
	}
	return 0;
}

static int product_try(struct executor *executor, struct product *p, struct err *err)
{
	const struct executor_ops *ops = executor->ops;
	struct executor_weight weight = { .executor = executor,
					  .dtype = DT_BF16,
					  .n = OUT,
					  .k = K,
					  .panel_rows = ops->portion(PORTION_WEIGHT, OUT) };
	struct executor_stream *stream = NULL;
	void *memory[2] = { NULL, NULL };
	int rc = ops->stream_new(&stream, executor, err) || ops->weight_init(&weight, err) ||
		 product_run(stream, &weight, memory, p, err) || product_check(p, err);

	ops->memory_free(executor, memory[0]);
	ops->memory_free(executor, memory[1]);
	ops->weight_release(&weight);
	ops->stream_free(stream);
	return rc ? -1 : 0;
}

int self_test_product(const struct executor_ops *ops, int device, struct err *err)
{
	struct product *product = xcalloc(1, sizeof *product);
	struct executor *executor;
	int rc = ops->open(&executor, device, err);

	product_fill(product);
	if (!rc) {
		rc = product_try(executor, product, err);
		ops->close(executor);
	}
	free(product);
	return rc;
}
