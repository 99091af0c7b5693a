/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm -t THREADS -n SEQUENCES: the matrix products of SmolLM2-135M over so many sequences of 512 tokens, and nothing else.
 * Prints the seconds: what a forward pass cannot be faster than.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "backend/gemm.h"
#include "base/mem.h"
#include "num/float16.h"

#define TOKENS 512

/* (n, k), and how often in a pass. */
static const struct product {
	size_t n, k, times;
} products[] = {
	{ 576, 576, 2 * 30 }, { 192, 576, 2 * 30 }, { 1536, 576, 2 * 30 }, { 576, 1536, 30 }, { 49152, 576, 1 },
};

#define N_PRODUCTS (sizeof products / sizeof *products)

struct work {
	struct gemm *gemm;
	enum dtype dtype;
	struct gemm_weight *weights[N_PRODUCTS];
	int n_sequences; /* of this thread */
};

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "gemm: %s\n", err->message);
	exit(1);
}

/* Small numbers of both signs. */
static void *matrix(enum dtype dtype, size_t n)
{
	float *values = xcalloc(n, sizeof *values);
	uint16_t *halves = (uint16_t *)values;

	for (size_t i = 0; i < n; i++) {
		float value = (float)(i % 251) / 251 - 0.5f;

		if (dtype == DT_BF16)
			halves[i] = bf16_from_f32(value);
		else
			values[i] = value;
	}
	return values;
}

static void *multiply(void *argument)
{
	struct work *work = argument;
	struct gemm_lane lane = { 0 };
	struct err err = { 0 };
	void *x = matrix(work->dtype, (size_t)TOKENS * 1536);
	float *y = xcalloc((size_t)TOKENS * 49152, sizeof *y);

	for (int s = 0; s < work->n_sequences; s++)
		for (size_t p = 0; p < N_PRODUCTS; p++)
			for (size_t i = 0; i < products[p].times; i++)
				check(gemm_run(work->weights[p], &lane, x, TOKENS, y, &err), &err);
	gemm_lane_release(work->gemm, &lane);
	free(x);
	free(y);
	return NULL;
}

int main(int argc, char **argv)
{
	struct work work = { .dtype = gemm_bf16_type() };
	struct work parts[64];
	pthread_t threads[64];
	int n_threads = 2, n_sequences = 16, option;
	struct timespec begin, end;
	struct err err = { 0 };

	while ((option = getopt(argc, argv, "t:n:")) != -1)
		*(option == 't' ? &n_threads : &n_sequences) = atoi(optarg);
	check(gemm_open(&work.gemm, &err), &err);
	for (size_t p = 0; p < N_PRODUCTS; p++) {
		void *data = matrix(work.dtype, products[p].n * products[p].k);

		check(gemm_weight_new(&work.weights[p], work.gemm, data, work.dtype, products[p].n, products[p].k, &err), &err);
		free(data);
	}
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int t = 0; t < n_threads; t++) {
		parts[t] = work;
		parts[t].n_sequences = n_sequences / n_threads + (t < n_sequences % n_threads);
		pthread_create(&threads[t], NULL, multiply, &parts[t]);
	}
	for (int t = 0; t < n_threads; t++)
		pthread_join(threads[t], NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.4f\n", (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
	for (size_t p = 0; p < N_PRODUCTS; p++)
		gemm_weight_free(work.weights[p]);
	gemm_close(work.gemm);
	return 0;
}
