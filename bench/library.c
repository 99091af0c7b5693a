/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of fp8conv_quantize(): one call a matrix, in GB/s of its bf16 elements.
 *
 *	library [THREADS [RUNS]]
 *
 * Each run times every row once.  A row is a recipe, the copies and a shape: 16 MiB and 32 MiB, of
 * which several are quantized in turn so that none is in a cache.
 */
#include <fp8conv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/measure.h"
#include "num/float16.h"

#define COLS	   4096
#define ROWS_TOTAL 32768 /* 256 MiB */
#define N_RUNS_MAX 101

static const char *const recipes[] = { "blockwise", "mxfp8", "channelwise", "current" };
static const char *const copies[] = { "rowwise", "columnwise", "both" };
static const size_t n_rows[] = { 2048, 4096 };

#define N_ROWS 24

struct bench {
	struct fp8conv_context *context;
	uint16_t *x;
	uint8_t *codes[2], *scales[2];
	struct fp8conv_error error;
};

static void check(struct bench *b, int rc)
{
	if (rc) {
		fprintf(stderr, "%s\n", b->error.message);
		exit(4);
	}
}

static struct fp8conv_tensor tensor(void *data, int dtype, size_t rows, size_t columns)
{
	return (struct fp8conv_tensor){ .size = sizeof(struct fp8conv_tensor),
					.data = data,
					.dtype = dtype,
					.rows = rows,
					.columns = columns };
}

/* Quantizes matrix i of a row of the table, as a caller does who has its memory. */
static void quantize(struct bench *b, size_t row, size_t i)
{
	size_t rows = n_rows[row % 2], first = i * rows * COLS, which = row / 2 % 3;
	struct fp8conv_tensor x = tensor(b->x + first, FP8CONV_BF16, rows, COLS), codes[2],
			      scales[2];
	struct fp8conv_quantized q = { .size = sizeof q };
	const struct fp8conv_recipe *recipe;

	check(b, fp8conv_recipe_get(b->context, recipes[row / 6], NULL, &recipe, &b->error));
	for (int c = 0; c < 2; c++) {
		struct fp8conv_copy copy = { sizeof copy, FP8CONV_W, c, FP8CONV_COMPACT };
		struct fp8conv_shape s = { .size = sizeof s };

		check(b, fp8conv_scale_shape(recipe, &copy, rows, COLS, &s, &b->error));
		codes[c] =
			tensor(b->codes[c] + first, s.codes_dtype, s.codes_rows, s.codes_columns);
		scales[c] = tensor(b->scales[c], s.scale_dtype, s.scale_rows, s.scale_columns);
	}
	if (which != 1)
		q.rowwise = &codes[0], q.rowwise_scale_inv = &scales[0];
	if (which != 0)
		q.columnwise = &codes[1], q.columnwise_scale_inv = &scales[1];
	check(b, fp8conv_quantize(b->context, recipe, FP8CONV_W, &x, &q, &b->error));
}

/* As in kernels.c. */
static void *memory(size_t size)
{
	void *made = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (made == MAP_FAILED) {
		perror("mmap");
		exit(4);
	}
	madvise(made, size, MADV_HUGEPAGE);
	return memset(made, 1, size);
}

int main(int argc, char **argv)
{
	struct fp8conv_options options = { .size = sizeof options };
	static double rates[N_ROWS][N_RUNS_MAX];
	size_t n = (size_t)ROWS_TOTAL * COLS;
	uint64_t state = NOISE_SEED;
	struct bench b = { .error = { 0 } };
	int n_runs = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;

	options.threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
	if (n_runs < 1 || n_runs > N_RUNS_MAX)
		return fprintf(stderr, "usage: library [THREADS [RUNS]]\n"), 2;
	check(&b, fp8conv_context_create(&options, &b.context, &b.error));
	b.x = memory(2 * n);
	for (size_t i = 0; i < n; i++)
		b.x[i] = bf16_from_f32(noise_next(&state) * (i % COLS % 509 == 3 ? 4e-6f : 5e-7f));
	for (int c = 0; c < 2; c++) {
		b.codes[c] = memory(n);
		b.scales[c] = memory(n / 8);
	}
	for (int run = 0; run < n_runs; run++)
		for (size_t row = 0; row < N_ROWS; row++) {
			double start = clock_seconds(CLOCK_MONOTONIC);

			for (size_t i = 0; i < ROWS_TOTAL / n_rows[row % 2]; i++)
				quantize(&b, row, i);
			rates[row][run] =
				2e-9 * (double)n / (clock_seconds(CLOCK_MONOTONIC) - start);
		}
	printf("{\"rows\": [");
	for (size_t row = 0; row < N_ROWS; row++) {
		printf("%s\n {\"name\": \"%s, %s, %zu x %d\", \"rates\": [", row ? "," : "",
		       recipes[row / 6], copies[row / 2 % 3], n_rows[row % 2], COLS);
		for (int run = 0; run < n_runs; run++)
			printf("%s%.3f", run ? ", " : "", rates[row][run]);
		printf("]}");
	}
	printf("\n]}\n");
	fp8conv_context_destroy(b.context);
	return fflush(stdout) ? 4 : 0;
}
