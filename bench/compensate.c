/* SPDX-License-Identifier: Apache-2.0
 *
 * compensate [-c] [-t THREADS] [-r RUNS] [-k COLUMNS]: the speed of the factorization and of the
 * rounding of `quantize --rounding compensated`, beside a loop of fused multiply-adds that needs no
 * memory.  Each run times every row once.  Prints JSON: of each row its name and the GFLOP/s of
 * each run; n^3 / 3 FLOP for a factor of n columns, rows n^2 for rounding.  With -c, GFLOP per
 * second of processor time, for a busy machine.  Leaves out matrices of more columns than -k.  Exit
 * status 77: the processor has no fused multiply-adds.
 */
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "bench/matrix.h"
#include "bench/measure.h"
#include "compensate/round.h"

#define N_RUNS_MAX 101
#define N_CHAINS   16
#define N_STEPS	   4000000
#define FLOP_LEAST 4e9 /* of a measurement: small matrices are computed again and again */

enum mode { PEAK, FACTOR, ROUND };

struct row {
	const char *name;
	enum mode mode;
	size_t rows, cols;
	double rates[N_RUNS_MAX]; /* GFLOP/s */
};

static struct row rows[] = {
	{ .name = "fma", .mode = PEAK },
	{ .name = "factor, 576", .mode = FACTOR, .cols = 576 },
	{ .name = "factor, 1536", .mode = FACTOR, .cols = 1536 },
	{ .name = "factor, 4096", .mode = FACTOR, .cols = 4096 },
	{ .name = "round, 1536 x 576", .mode = ROUND, .rows = 1536, .cols = 576 },
	{ .name = "round, 576 x 1536", .mode = ROUND, .rows = 576, .cols = 1536 },
	{ .name = "round, 512 x 4096", .mode = ROUND, .rows = 512, .cols = 4096 },
	{ .name = "round, 128 x 14336", .mode = ROUND, .rows = 128, .cols = 14336 },
};
#define N_ROWS (sizeof rows / sizeof *rows)

static int n_threads = 2;
static clockid_t clock_of = CLOCK_MONOTONIC;

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "compensate: %s\n", err->message);
	exit(4);
}

/* Return the FLOP of N_STEPS steps.  The chains stay in registers. */
__attribute__((target("avx512f"))) static double fma_avx512(void)
{
	__m512 sums[N_CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);

#pragma GCC unroll 16
	for (int i = 0; i < N_CHAINS; i++)
		sums[i] = _mm512_set1_ps((float)i);
	for (long step = 0; step < N_STEPS; step++) {
#pragma GCC unroll 16
		for (int i = 0; i < N_CHAINS; i++) {
			sums[i] = _mm512_fmadd_ps(sums[i], x, y);
			__asm__ volatile("" : "+v"(sums[i]));
		}
	}
	return 2.0 * 16 * N_CHAINS * N_STEPS;
}

__attribute__((target("avx2,fma"))) static double fma_avx2(void)
{
	enum { N = N_CHAINS - 4 };
	__m256 sums[N], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);

#pragma GCC unroll 16
	for (int i = 0; i < N; i++)
		sums[i] = _mm256_set1_ps((float)i);
	for (long step = 0; step < N_STEPS; step++) {
#pragma GCC unroll 16
		for (int i = 0; i < N; i++) {
			sums[i] = _mm256_fmadd_ps(sums[i], x, y);
			__asm__ volatile("" : "+x"(sums[i]));
		}
	}
	return 2.0 * 8 * N * N_STEPS;
}

static int fma_item(void *context, int worker, size_t item, struct err *err)
{
	double *flop = context;

	(void)worker, (void)err;
	flop[item] = __builtin_cpu_supports("avx512f") ? fma_avx512() : fma_avx2();
	return 0;
}

/* Returns GFLOP/s. */
static double time_peak(void)
{
	double flop[256], sum = 0, begin = clock_seconds(clock_of), seconds;
	struct err err = { 0 };

	check(pool_run(n_threads, (size_t)n_threads, fma_item, flop, NULL, &err), &err);
	seconds = clock_seconds(clock_of) - begin;
	for (int i = 0; i < n_threads; i++)
		sum += flop[i];
	return sum / seconds * 1e-9;
}

/* The matrix has a large diagonal in no order. */
static double time_factor(size_t n)
{
	float *h = matrix_new(DT_F32, n * n);
	const struct hessian hessian = { h, n, host_ops_select(), n_threads, NULL };
	struct factor factor;
	struct err err = { 0 };
	double begin, seconds, done, flop = (double)n * (double)n * (double)n / 3;

	for (size_t j = 0; j < n; j++)
		h[j * n + j] = (float)(n + j * 2654435761u % n);
	begin = clock_seconds(clock_of);
	for (done = 0; done < FLOP_LEAST; done += flop) {
		check(factor_make(&factor, &hessian, 0.3f, &err), &err);
		if (factor.rho != 0.3f)
			exit(1);
		factor_release(&factor);
	}
	seconds = clock_seconds(clock_of) - begin;
	free(h);
	return done / seconds * 1e-9;
}

/* Makes up a factor, with the columns in no order. */
static struct factor factor_new(size_t n)
{
	struct factor factor = { .n = n,
				 .order = xcalloc(n, sizeof *factor.order),
				 .rank = xcalloc(n, sizeof *factor.rank),
				 .u = matrix_new(DT_F32, triangle_count(n)) };

	for (size_t i = 0; i < triangle_count(n); i++)
		factor.u[i] *= 0.01f;
	for (size_t j = 0; j < n; j++) {
		factor.order[j] = (uint32_t)(j * 7919 % n); /* a prime that does not divide n */
		factor.rank[factor.order[j]] = (uint32_t)j;
	}
	return factor;
}

static double time_round(size_t n_rows, size_t n_cols)
{
	static const struct qspec spec = { .tile = { 128, 128 }, .pow2 = true };
	size_t n_tiles = tile_count(n_rows, 128) * tile_count(n_cols, 128);
	struct factor factor = factor_new(n_cols);
	float *w = matrix_new(DT_F32, n_rows * n_cols);
	const struct matrix matrix = { w, DT_F32, n_rows, n_cols, n_cols };
	struct scaling *scales = xcalloc(n_tiles, sizeof *scales);
	uint8_t *codes = xcalloc(n_rows, n_cols);
	const struct rounding rounding = { &factor,	      &spec,	 scales,
					   host_ops_select(), n_threads, NULL };
	struct err err = { 0 };
	double begin, seconds, done, flop = (double)n_rows * (double)n_cols * (double)n_cols;

	for (size_t i = 0; i < n_tiles; i++)
		scales[i] = scaling_from_amax(&spec, 0.5f, F32_MAX);
	begin = clock_seconds(clock_of);
	for (done = 0; done < FLOP_LEAST; done += flop)
		check(round_matrix(&rounding, &matrix, codes, &err), &err);
	seconds = clock_seconds(clock_of) - begin;
	factor_release(&factor);
	free(codes);
	free(scales);
	free(w);
	return done / seconds * 1e-9;
}

static double time_row(const struct row *row)
{
	if (row->mode == PEAK)
		return time_peak();
	return row->mode == FACTOR ? time_factor(row->cols) : time_round(row->rows, row->cols);
}

int main(int argc, char **argv)
{
	int n_runs = 5, option;
	size_t n_cols_max = 14336;
	const char *separator = "{\"rows\": [";

	while ((option = getopt(argc, argv, "ct:r:k:")) != -1) {
		if (option == 'c')
			clock_of = CLOCK_PROCESS_CPUTIME_ID;
		else if (option == 'k')
			n_cols_max = strtoul(optarg, NULL, 10);
		else if (option == 't')
			n_threads = atoi(optarg);
		else if (option == 'r')
			n_runs = atoi(optarg);
		else
			return 2;
	}
	if (n_threads < 1 || n_threads > 256 || n_runs < 1 || n_runs > N_RUNS_MAX)
		return 2;
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return 77;
	for (int run = 0; run < n_runs; run++)
		for (size_t i = 0; i < N_ROWS; i++)
			if (rows[i].cols <= n_cols_max)
				rows[i].rates[run] = time_row(&rows[i]);
	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].cols > n_cols_max)
			continue;
		printf("%s\n{\"name\": \"%s\", \"rates\": [", separator, rows[i].name);
		for (int run = 0; run < n_runs; run++)
			printf("%s%.2f", run ? ", " : "", rows[i].rates[run]);
		printf("]}");
		separator = ",";
	}
	printf("]}\n");
	return 0;
}
