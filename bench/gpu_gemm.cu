/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the GPU, FP8 against bf16, and the forward pass of a Linear with delayed
 * scaling in two ways: "fused", its cast writes scale_inv with the codes; "apart", as
 * TransformerEngine once did, a kernel of its own makes it, and it is copied to where the product
 * looks.  Prints JSON for run.py: floating-point operations and the seconds of each run, or why the
 * GPU or the library has no such product.
 *
 *	gpu_gemm [--runs N]
 *
 * Timed by events, several products or passes at once, as they come from the host.  Every run times
 * each row once, so that what slows the machine slows all.  Exit status 77: there is no GPU.
 */
#include "gpu_bench.h"

extern "C" {
#include "kernels/gpu/gemm.h"
}

#include <gpu.h>
#include "num/history.h"
#include "kernels/gpu/cast/cast.h"

#define SIDE	   ((size_t)8192) /* of the largest matrices */
#define N_PRODUCTS 5		  /* at once */
#define N_FORWARDS 50
#define SCALE	   4096.0f /* of x: |x| < 0.0656 */

enum operation { PRODUCT_BF16, PRODUCT, PRODUCT_FAST, LINEAR, LINEAR_APART };

struct row {
	const char *name;
	const char *limit; /* the row it is held against, NULL: it is one */
	enum operation operation;
	size_t m, n, k; /* of a Linear: tokens, outputs, inputs */
	struct qspec a, b;
	char why_not[sizeof((struct err *)NULL)->message]; /* "": it is run */
	double seconds[N_RUNS_MAX];			   /* of one product or pass */
};

#define CUBE SIDE, SIDE, SIDE

#define SHAPE(m, n, k) "Linear " #m "x" #n "x" #k
#define FORWARD(m, n, k)                                                             \
	{ SHAPE(m, n, k) ", apart", NULL, LINEAR_APART, m, n, k, TENSOR, TENSOR },   \
	{                                                                            \
		SHAPE(m, n, k)                                                       \
		", fused", SHAPE(m, n, k) ", apart", LINEAR, m, n, k, TENSOR, TENSOR \
	}

static struct row rows[] = {
	{ "8192^3, bf16", NULL, PRODUCT_BF16, CUBE },
	{ "8192^3, FP8, tensor", "8192^3, bf16", PRODUCT, CUBE, TENSOR, TENSOR },
	{ "8192^3, FP8, tensor, fast", "8192^3, bf16", PRODUCT_FAST, CUBE, TENSOR, TENSOR },
	{ "8192^3, FP8, 1x128 by 128x128", "8192^3, bf16", PRODUCT, CUBE, BLOCK_ROW, BLOCK },
	{ "8192^3, MXFP8", "8192^3, bf16", PRODUCT, CUBE, MX, MX },
	FORWARD(32, 1024, 1024),
	FORWARD(128, 2048, 2048),
	FORWARD(512, 4096, 4096),
	FORWARD(2048, 4096, 4096),
	FORWARD(8192, 4096, 4096),
};

/* In FP8, on the GPU. */
struct coded {
	uint8_t *codes;
	void *scale_inv;
};

struct bench {
	struct device_stream *stream;
	cudaStream_t native;
	cudaEvent_t begin, end;
	struct gpu_gemm_space space;
	uint16_t *values; /* SIDE * SIDE, of bf16 */
	struct coded a, b;
	uint16_t *d;
	float *scale, *amax; /* of a Linear's input */
	float *reciprocal;   /* 1 / scale, where it is made apart */
	float *unused;	     /* the one that the cast makes there too */
	unsigned long long *counts;
};

static struct coded coded_new(void)
{
	return { static_cast<uint8_t *>(device_new(SIDE * SIDE)), device_new(SIDE * SIDE / 32) };
}

static void bench_init(struct bench *b)
{
	const size_t n = SIDE * SIDE, size = n * sizeof(uint16_t);
	uint16_t *values = static_cast<uint16_t *>(malloc(size));
	const float scale = SCALE;

	if (!values)
		die("malloc", "no memory");
	fill(values, n);
	b->stream = device_stream_here();
	b->native = static_cast<cudaStream_t>(device_stream_native(b->stream));
	check(cudaEventCreate(&b->begin), "cudaEventCreate");
	check(cudaEventCreate(&b->end), "cudaEventCreate");
	b->values = static_cast<uint16_t *>(device_new(size));
	check(cudaMemcpy(b->values, values, size, cudaMemcpyHostToDevice), "cudaMemcpy");
	free(values);
	b->a = coded_new();
	b->b = coded_new();
	b->d = static_cast<uint16_t *>(device_new(size));
	b->scale = static_cast<float *>(device_new(sizeof(float)));
	check(cudaMemcpy(b->scale, &scale, sizeof scale, cudaMemcpyHostToDevice), "cudaMemcpy");
	b->amax = static_cast<float *>(device_new(sizeof(float)));
	b->reciprocal = static_cast<float *>(device_new(sizeof(float)));
	b->unused = static_cast<float *>(device_new(sizeof(float)));
	b->counts = static_cast<unsigned long long *>(device_new(N_COUNTS * sizeof *b->counts));
	check(cudaDeviceSynchronize(),
	      "cudaDeviceSynchronize"); /* the stream does not wait for what was set here */
}

/* --- what is timed --- */

static struct matrix values_of(const struct bench *b, size_t n_rows, size_t n_cols)
{
	return { b->values, DT_BF16, n_rows, n_cols, n_cols };
}

/* (n_rows, n_cols) as a product takes it. */
static void code(const struct bench *b, const struct qspec *spec, size_t n_rows, size_t n_cols,
		 const struct coded *to)
{
	struct matrix values = values_of(b, n_rows, n_cols);
	struct fp8_out out = {};

	out.rowwise = { to->codes, n_cols, 1, to->scale_inv,
			scale_grid_of(spec, n_rows, n_cols, false,
				      spec->scale_type == SCALE_E8M0 ? SCALES_GEMM
								     : SCALES_PADDED) };
	gpu_cast(b->stream, &values, spec, NULL, &out, b->counts);
}

/* The input of a Linear, its scale given. */
static void code_given(const struct bench *b, const struct row *row, void *scale_inv)
{
	struct matrix x = values_of(b, row->m, row->k);
	struct fp8_out out = {};

	out.rowwise = { b->a.codes, row->k, 1, scale_inv, scale_row_major(1, 1) };
	out.scale = b->scale;
	out.amax = b->amax;
	gpu_cast(b->stream, &x, &row->a, NULL, &out, b->counts);
}

static struct gpu_operand operand_of(const struct bench *b, const struct row *row,
				     const struct coded *coded, const struct qspec *spec)
{
	if (row->operation == PRODUCT_BF16)
		return { b->values, DT_BF16, row->k, {}, NULL };
	return { coded->codes, DT_F8_E4M3, row->k, spec->tile, coded->scale_inv };
}

static struct gpu_gemm gemm_of(const struct bench *b, const struct row *row)
{
	struct gpu_gemm g = {};

	g.form = GEMM_PRODUCT;
	g.m = row->m;
	g.n = row->n;
	g.k = row->k;
	g.a = operand_of(b, row, &b->a, &row->a);
	g.b = operand_of(b, row, &b->b, &row->b);
	g.d.data = b->d;
	g.d.dtype = DT_BF16;
	g.d.stride = row->n;
	g.fast = row->operation != PRODUCT_BF16 &&
		 row->operation != PRODUCT; /* as training multiplies forward */
	return g;
}

static __global__ void reciprocal_of(const float *scale, float *scale_inv)
{
	if (threadIdx.x == 0)
		*scale_inv = scaling_given(*scale).scale_inv;
}

static void row_run(struct bench *b, const struct row *row)
{
	struct gpu_gemm g = gemm_of(b, row);

	if (row->operation == LINEAR) {
		code_given(b, row, b->a.scale_inv);
	} else if (row->operation == LINEAR_APART) {
		code_given(b, row, b->unused);
		GPU_LAUNCH(reciprocal_of, 1, 32, b->native, b->scale, b->reciprocal);
		device_launched(b->stream, "reciprocal_of");
		check(cudaMemcpyAsync(b->a.scale_inv, b->reciprocal, sizeof(float),
				      cudaMemcpyDeviceToDevice, b->native),
		      "cudaMemcpyAsync");
	}
	gpu_gemm(b->stream, &b->space, &g);
}

/* What is there before: weights, and the operands of a product. */
static void row_prepare(struct bench *b, const struct row *row)
{
	device_begin(b->stream);
	b->space = {};
	if (row->operation == PRODUCT_BF16)
		return;
	code(b, &row->b, row->n, row->k, &b->b);
	if (row->operation == PRODUCT || row->operation == PRODUCT_FAST)
		code(b, &row->a, row->m, row->k, &b->a);
}

static double row_seconds(struct bench *b, const struct row *row)
{
	int n = row->operation >= LINEAR ? N_FORWARDS : N_PRODUCTS;
	struct err err;
	float ms;

	row_prepare(b, row);
	row_run(b, row); /* takes its memory */
	check(cudaEventRecord(b->begin, b->native), "cudaEventRecord");
	for (int i = 0; i < n; i++)
		row_run(b, row);
	check(cudaEventRecord(b->end, b->native), "cudaEventRecord");
	check(cudaEventSynchronize(b->end), "cudaEventSynchronize");
	check(cudaEventElapsedTime(&ms, b->begin, b->end), "cudaEventElapsedTime");
	if (device_stream_failed(b->stream, &err))
		die(row->name, err.message);
	return ms * 1e-3 / n;
}

/* --- what is told --- */

static void look_what_there_is(const struct bench *b)
{
	for (struct row &row : rows) {
		struct gpu_gemm g = gemm_of(b, &row);
		struct err err = {};

		if (gpu_gemm_supports(&g, &err))
			memcpy(row.why_not, err.message, sizeof row.why_not);
	}
}

static void report(int n_runs)
{
	const char *comma = "";

	printf("{\"rows\": [");
	for (const struct row &row : rows) {
		printf("%s\n {\"name\": \"%s\", \"limit\": \"%s\", \"flop\": %zu, ", comma,
		       row.name, row.limit ? row.limit : "", 2 * row.m * row.n * row.k);
		comma = ",";
		if (row.why_not[0]) {
			printf("\"skipped\": \"%s\"}", row.why_not);
			continue;
		}
		printf("\"seconds\": ");
		print_seconds(row.seconds, n_runs);
		printf("}");
	}
	printf("\n]}\n");
}

int main(int argc, char **argv)
{
	bool told = argc == 3 && !strcmp(argv[1], "--runs");
	long n_runs = told ? strtol(argv[2], NULL, 10) : 11;
	struct bench b = {};

	if ((argc != 1 && !told) || n_runs < 1 || n_runs > N_RUNS_MAX) {
		fprintf(stderr, "usage: gpu_gemm [--runs N]\n");
		return 2;
	}
	cuda_or_exit();
	bench_init(&b);
	look_what_there_is(&b);
	for (int run = -N_WARM_UP; run < n_runs; run++) {
		for (struct row &row : rows) {
			if (!row.why_not[0])
				row.seconds[run < 0 ? 0 : run] = row_seconds(&b, &row);
		}
	}
	report((int)n_runs);
	return fflush(stdout) ? 4 : 0;
}
