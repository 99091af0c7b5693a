/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm -t THREADS -n SEQUENCES [-a]: the matrix products of SmolLM2-135M over so many sequences of
 * 512 tokens, layer by layer as a calibration does them, and nothing else; with -a those of
 * attention too.  Prints the seconds: what a forward pass cannot be faster than.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "bench/matrix.h"
#include "bench/measure.h"
#include "kernels/cpu/forward/gemm.h"

#define TOKENS	 512
#define N_LAYERS 30
#define N_HEADS	 9
#define HEAD_DIM 64

/* (n, k) of a layer's weights, in their order, and of the head. */
static const struct product {
	size_t n, k;
} products[] = { { 576, 576 },	{ 192, 576 },  { 192, 576 }, { 576, 576 },
		 { 1536, 576 }, { 1536, 576 }, { 576, 1536 } },
  head = { 49152, 576 };

#define N_PRODUCTS (sizeof products / sizeof *products)

/* Queries are asked by so many at once, of the keys up to theirs. */
#define QUERIES	 128
#define N_BLOCKS (TOKENS / QUERIES)

struct work {
	struct gemm *gemm;
	enum dtype dtype;
	struct executor_weight layers[N_LAYERS][N_PRODUCTS], head;
	struct executor_weight keys[N_BLOCKS], values[N_BLOCKS];
	bool attention;
	int n_sequences; /* of this thread */
};

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "gemm: %s\n", err->message);
	exit(1);
}

static struct executor_weight weight(const struct work *work, struct product product)
{
	void *data = matrix_new(work->dtype, product.n * product.k);
	const char *rows = data;
	struct executor_weight made = { .dtype = work->dtype,
					.n = product.n,
					.k = product.k,
					.panel_rows = gemm_panel_rows(product.n) };
	struct err err = { 0 };

	check(gemm_weight_init(work->gemm, &made, &err), &err);
	for (size_t panel = 0; panel < executor_weight_panels(&made); panel++) {
		check(gemm_weight_set(work->gemm, &made, panel, rows, &err), &err);
		rows += executor_weight_panel_rows(&made, panel) * product.k *
			dtype_bits(work->dtype) / 8;
	}
	free(data);
	return made;
}

static void make_weights(struct work *work)
{
	for (size_t l = 0; l < N_LAYERS; l++)
		for (size_t p = 0; p < N_PRODUCTS; p++)
			work->layers[l][p] = weight(work, products[p]);
	work->head = weight(work, head);
	for (size_t b = 0; b < N_BLOCKS; b++) {
		work->keys[b] = weight(work, (struct product){ (b + 1) * QUERIES, HEAD_DIM });
		work->values[b] = weight(work, (struct product){ HEAD_DIM, (b + 1) * QUERIES });
	}
}

static void free_weights(struct work *work)
{
	for (size_t l = 0; l < N_LAYERS; l++)
		for (size_t p = 0; p < N_PRODUCTS; p++)
			gemm_weight_release(work->gemm, &work->layers[l][p]);
	gemm_weight_release(work->gemm, &work->head);
	for (size_t b = 0; b < N_BLOCKS; b++) {
		gemm_weight_release(work->gemm, &work->keys[b]);
		gemm_weight_release(work->gemm, &work->values[b]);
	}
}

static void attend(const struct work *work, struct gemm_stream *stream, const void *x, float *y)
{
	struct err err = { 0 };

	for (size_t h = 0; h < N_HEADS; h++) {
		for (size_t b = 0; b < N_BLOCKS; b++) {
			check(gemm_multiply(work->gemm, stream,
					    &(struct multiply_args){ .weight = &work->keys[b],
								     .x = x,
								     .m = QUERIES,
								     .y = y },
					    &err),
			      &err);
			check(gemm_multiply(work->gemm, stream,
					    &(struct multiply_args){ .weight = &work->values[b],
								     .x = x,
								     .m = QUERIES,
								     .y = y },
					    &err),
			      &err);
		}
	}
}

static void *multiply(void *argument)
{
	struct work *work = argument;
	struct gemm_stream stream = { 0 };
	struct err err = { 0 };
	void *x = matrix_new(work->dtype, (size_t)TOKENS * 1536);
	float *y = xcalloc((size_t)TOKENS * head.n, sizeof *y);

	for (size_t l = 0; l < N_LAYERS; l++) {
		for (int s = 0; s < work->n_sequences; s++) {
			for (size_t p = 0; p < N_PRODUCTS; p++)
				check(gemm_multiply(work->gemm, &stream,
						    &(struct multiply_args){
							    .weight = &work->layers[l][p],
							    .x = x,
							    .m = TOKENS,
							    .y = y },
						    &err),
				      &err);
			if (work->attention)
				attend(work, &stream, x, y);
		}
	}
	for (int s = 0; s < work->n_sequences; s++)
		check(gemm_multiply(work->gemm, &stream,
				    &(struct multiply_args){
					    .weight = &work->head, .x = x, .m = TOKENS, .y = y },
				    &err),
		      &err);
	gemm_stream_release(work->gemm, &stream);
	free(x);
	free(y);
	return NULL;
}

int main(int argc, char **argv)
{
	struct work work = { .dtype = gemm_bf16_type() };
	struct work panels[64];
	pthread_t threads[64];
	int n_threads = 2, n_sequences = 16, option;
	double begin;
	struct err err = { 0 };

	while ((option = getopt(argc, argv, "at:n:")) != -1) {
		if (option == 'a')
			work.attention = true;
		else
			*(option == 't' ? &n_threads : &n_sequences) = atoi(optarg);
	}
	check(gemm_open(&work.gemm, &err), &err);
	make_weights(&work);
	begin = clock_seconds(CLOCK_MONOTONIC);
	for (int t = 0; t < n_threads; t++) {
		panels[t] = work;
		panels[t].n_sequences = n_sequences / n_threads + (t < n_sequences % n_threads);
		pthread_create(&threads[t], NULL, multiply, &panels[t]);
	}
	for (int t = 0; t < n_threads; t++)
		pthread_join(threads[t], NULL);
	printf("%.4f\n", clock_seconds(CLOCK_MONOTONIC) - begin);
	free_weights(&work);
	gemm_close(work.gemm);
	return 0;
}
