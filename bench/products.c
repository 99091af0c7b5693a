/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a Llama's weights over sequences of 512 tokens, by the executor that calibrates,
 * and nothing else: what a forward pass cannot be faster than.  The model is the one that `model`
 * makes of the same -l, -h (of 512 at least), -i and -v.  Prints the seconds, without those of the
 * first sequence of each thread.
 *
 *	products [-b BACKEND] [-t THREADS] [-n SEQUENCES]
 *		 [-l LAYERS] [-h HIDDEN] [-i INTERMEDIATE] [-v VOCABULARY]
 *
 * All layers have one layer's weights, which are of more bytes than caches hold.  Exit status 77:
 * the backend cannot run here.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "bench/matrix.h"
#include "bench/measure.h"

#define TOKENS	  512
#define N_WEIGHTS 7 /* of a layer */

struct options {
	const char *backend;
	size_t n_threads, n_sequences, n_layers, hidden, intermediate, vocabulary;
};

struct work {
	const struct options *options;
	struct executor *executor;
	struct executor_weight weights[N_WEIGHTS], head;
	pthread_barrier_t ready;
	_Atomic size_t n_begun; /* sequences */
};

static void check(int rc, const struct err *err)
{
	if (!rc)
		return;
	fprintf(stderr, "products: %s\n", err->message);
	exit(4);
}

static struct executor_weight weight_new(struct executor *executor, size_t n, size_t k)
{
	const struct executor_ops *ops = executor->ops;
	struct executor_weight weight = { .executor = executor,
					  .dtype = ops->bf16_type(),
					  .n = n,
					  .k = k,
					  .panel_rows = ops->panel_rows(n) };
	void *rows = matrix_new(weight.dtype, weight.panel_rows * k);
	struct err err = { 0 };

	check(ops->weight_init(&weight, &err), &err);
	for (size_t panel = 0; panel < executor_weight_panels(&weight); panel++)
		check(ops->weight_set(&weight, panel, rows, &err), &err);
	free(rows);
	return weight;
}

static void weights_init(struct work *work)
{
	size_t h = work->options->hidden, i = work->options->intermediate;
	const struct {
		size_t n, k;
	} shapes[N_WEIGHTS] = { { h, h }, { h / 4, h }, { h / 4, h }, { h, h },
				{ i, h }, { i, h },	{ h, i } };

	for (size_t w = 0; w < N_WEIGHTS; w++)
		work->weights[w] = weight_new(work->executor, shapes[w].n, shapes[w].k);
	work->head = weight_new(work->executor, work->options->vocabulary, h);
}

static void weights_release(struct work *work)
{
	const struct executor_ops *ops = work->executor->ops;

	for (size_t w = 0; w < N_WEIGHTS; w++)
		ops->weight_release(&work->weights[w]);
	ops->weight_release(&work->head);
}

/* A sequence through the whole model. */
static void multiply(const struct work *work, struct executor_stream *stream, const void *x,
		     float *y)
{
	const struct executor_ops *ops = work->executor->ops;

	for (size_t layer = 0; layer < work->options->n_layers; layer++)
		for (size_t w = 0; w < N_WEIGHTS; w++)
			ops->multiply(stream, &work->weights[w], x, TOKENS, y);
	for (size_t panel = 0; panel < executor_weight_panels(&work->head); panel++)
		ops->multiply_panel(stream, &work->head, panel, x, TOKENS, y);
}

static size_t widest(const struct work *work)
{
	const struct options *o = work->options;
	size_t most = o->hidden > o->intermediate ? o->hidden : o->intermediate;

	return most > work->head.panel_rows ? most : work->head.panel_rows;
}

static void *run(void *argument)
{
	struct work *work = argument;
	const struct executor_ops *ops = work->executor->ops;
	enum dtype dtype = work->weights[0].dtype;
	size_t n = TOKENS * widest(work), size = n * dtype_bits(dtype) / 8;
	struct executor_stream *stream;
	void *values = matrix_new(dtype, n), *x, *y;
	struct err err = { 0 };

	check(ops->stream_new(&stream, work->executor, &err), &err);
	check(ops->memory_new(work->executor, &x, size, "inputs", &err), &err);
	check(ops->memory_new(work->executor, &y, n * sizeof(float), "outputs", &err), &err);
	ops->put(stream, x, values, size);
	multiply(work, stream, x, y);
	check(ops->wait(stream, &err), &err);
	pthread_barrier_wait(&work->ready);
	while (work->n_begun++ < work->options->n_sequences) {
		multiply(work, stream, x, y);
		check(ops->wait(stream, &err), &err);
	}
	pthread_barrier_wait(&work->ready);
	ops->memory_free(work->executor, x);
	ops->memory_free(work->executor, y);
	ops->stream_free(stream);
	free(values);
	return NULL;
}

static double seconds(struct work *work)
{
	size_t n = work->options->n_threads;
	pthread_t *threads = xcalloc(n, sizeof *threads);
	double begin, end;

	pthread_barrier_init(&work->ready, NULL, (unsigned)n + 1);
	for (size_t t = 0; t < n; t++)
		pthread_create(&threads[t], NULL, run, work);
	pthread_barrier_wait(&work->ready);
	begin = clock_seconds(CLOCK_MONOTONIC);
	pthread_barrier_wait(&work->ready);
	end = clock_seconds(CLOCK_MONOTONIC);
	for (size_t t = 0; t < n; t++)
		pthread_join(threads[t], NULL);
	pthread_barrier_destroy(&work->ready);
	free(threads);
	return end - begin;
}

static int parse(struct options *options, int argc, char **argv)
{
	const struct {
		int letter;
		size_t *number;
	} rows[] = { { 't', &options->n_threads },    { 'n', &options->n_sequences },
		     { 'l', &options->n_layers },     { 'h', &options->hidden },
		     { 'i', &options->intermediate }, { 'v', &options->vocabulary } };
	int option;

	while ((option = getopt(argc, argv, "b:t:n:l:h:i:v:")) != -1) {
		if (option == '?')
			return -1;
		if (option == 'b')
			options->backend = optarg;
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			if (option == rows[i].letter &&
			    (*rows[i].number = strtoul(optarg, NULL, 10)) == 0)
				return -1;
		}
	}
	return optind == argc ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct options options = { .backend = "auto",
				   .n_threads = 2,
				   .n_sequences = 16,
				   .n_layers = 16,
				   .hidden = 2048,
				   .intermediate = 8192,
				   .vocabulary = 128256 };
	struct work work = { .options = &options };
	const struct backend *backend;
	struct err err = { 0 };

	if (parse(&options, argc, argv)) {
		fprintf(stderr, "usage: products [-b BACKEND] [-t|-n|-l|-h|-i|-v N]...\n");
		return 2;
	}
	backend = backend_select(options.backend, &err);
	if (!backend) {
		fprintf(stderr, "products: %s\n", err.message);
		return 77;
	}
	check(backend->executor->open(&work.executor, &err), &err);
	weights_init(&work);
	printf("%.6f\n", seconds(&work));
	weights_release(&work);
	backend->executor->close(work.executor);
	return fflush(stdout) ? 4 : 0;
}
