/* SPDX-License-Identifier: Apache-2.0
 *
 * The products of a model's weights over sequences of 512 tokens, by the executor that calibrates,
 * and nothing else: what a forward pass cannot be faster than.  Prints the seconds, without those
 * of the first sequence of each thread.
 *
 *	products [-b BACKEND] [-t THREADS] [-n SEQUENCES] [-f FILE |
 *		 [-l LAYERS] [-h HIDDEN] [-i INTERMEDIATE] [-v VOCABULARY]]
 *
 * The model is the Llama that `model` makes of the same -l, -h (of 512 at least), -i and -v.  Or
 * FILE has its shapes: in each line the number of layers in a row that are alike, and n and k of
 * each weight of such a layer.  They have one layer's weights, which are of more bytes than caches
 * hold.  Exit status 77: the backend cannot run here.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "bench/matrix.h"
#include "bench/measure.h"

#define TOKENS 512

struct options {
	const char *backend, *file;
	size_t n_threads, n_sequences, n_layers, hidden, intermediate, vocabulary;
};

/* Layers in a row that are alike. */
struct layers {
	size_t n, n_weights;
	struct executor_weight *weights; /* of one of them */
};

struct work {
	const struct options *options;
	struct executor *executor;
	struct layers *layers;
	size_t n_layers;
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
					  .panel_rows = ops->portion(PORTION_WEIGHT, n) };
	void *rows = matrix_new(weight.dtype, weight.panel_rows * k);
	struct err err = { 0 };

	check(ops->weight_init(&weight, &err), &err);
	for (size_t panel = 0; panel < executor_weight_panels(&weight); panel++)
		check(ops->weight_set(&weight, panel, rows, &err), &err);
	free(rows);
	return weight;
}

/* Begins a row of n alike layers. */
static void layers_add(struct work *work, size_t n)
{
	ARRAY_GROW(work->layers, work->n_layers);
	work->layers[work->n_layers++] = (struct layers){ .n = n };
}

/* Adds a weight to the last layers. */
static void weight_add(struct work *work, size_t n, size_t k)
{
	struct layers *layers = &work->layers[work->n_layers - 1];

	ARRAY_GROW(layers->weights, layers->n_weights);
	layers->weights[layers->n_weights++] = weight_new(work->executor, n, k);
}

static void llama(struct work *work)
{
	size_t h = work->options->hidden, i = work->options->intermediate;
	const struct {
		size_t n, k;
	} shapes[] = {
		{ h, h }, { h / 4, h }, { h / 4, h }, { h, h }, { i, h }, { i, h }, { h, i }
	};

	layers_add(work, work->options->n_layers);
	for (size_t w = 0; w < sizeof shapes / sizeof *shapes; w++)
		weight_add(work, shapes[w].n, shapes[w].k);
	layers_add(work, 1);
	weight_add(work, work->options->vocabulary, h);
}

static void read_shapes(struct work *work)
{
	FILE *file = fopen(work->options->file, "r");
	char *line = NULL;
	size_t size = 0;

	while (file && getline(&line, &size, file) >= 0) {
		char *at = line;
		size_t n, k;

		layers_add(work, strtoul(at, &at, 10));
		while ((n = strtoul(at, &at, 10)) && (k = strtoul(at, &at, 10)))
			weight_add(work, n, k);
	}
	if (!file || ferror(file) || !work->n_layers) {
		fprintf(stderr, "products: cannot read '%s'\n", work->options->file);
		exit(4);
	}
	free(line);
	fclose(file);
}

static void layers_release(struct work *work)
{
	for (size_t l = 0; l < work->n_layers; l++) {
		for (size_t w = 0; w < work->layers[l].n_weights; w++)
			work->executor->ops->weight_release(&work->layers[l].weights[w]);
		free(work->layers[l].weights);
	}
	free(work->layers);
}

/* A sequence through some layers that are alike. */
static void multiply_layers(const struct layers *layers, struct executor_stream *stream,
			    const void *x, float *y)
{
	const struct executor_ops *ops = stream->executor->ops;

	for (size_t w = 0; w < layers->n * layers->n_weights; w++) {
		const struct executor_weight *weight = &layers->weights[w % layers->n_weights];

		for (size_t panel = 0; panel < executor_weight_panels(weight); panel++)
			ops->multiply(stream, &(const struct multiply_args){ weight, x, TOKENS, y,
									     &panel, false });
	}
}

/* A sequence through the whole model. */
static void multiply(const struct work *work, struct executor_stream *stream, const void *x,
		     float *y)
{
	for (size_t l = 0; l < work->n_layers; l++)
		multiply_layers(&work->layers[l], stream, x, y);
}

/* The most values of a token that a product reads or writes at once. */
static size_t widest(const struct work *work)
{
	size_t most = 0;

	for (size_t l = 0; l < work->n_layers; l++) {
		for (size_t w = 0; w < work->layers[l].n_weights; w++) {
			const struct executor_weight *weight = &work->layers[l].weights[w];

			most = weight->k > most ? weight->k : most;
			most = weight->panel_rows > most ? weight->panel_rows : most;
		}
	}
	return most;
}

static void *run(void *argument)
{
	struct work *work = argument;
	const struct executor_ops *ops = work->executor->ops;
	enum dtype dtype = ops->bf16_type();
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

	while ((option = getopt(argc, argv, "b:f:t:n:l:h:i:v:")) != -1) {
		if (option == '?')
			return -1;
		if (option == 'b')
			options->backend = optarg;
		if (option == 'f')
			options->file = optarg;
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
		fprintf(stderr,
			"usage: products [-b BACKEND] [-f FILE] [-t|-n|-l|-h|-i|-v N]...\n");
		return 2;
	}
	backend = backend_select(options.backend, &err);
	if (!backend) {
		fprintf(stderr, "products: %s\n", err.message);
		return 77;
	}
	check(backend->executor->open(&work.executor, 0, &err), &err);
	if (options.file)
		read_shapes(&work);
	else
		llama(&work);
	printf("%.6f\n", seconds(&work));
	layers_release(&work);
	backend->executor->close(work.executor);
	return fflush(stdout) ? 4 : 0;
}
