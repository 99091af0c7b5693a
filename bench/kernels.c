/* SPDX-License-Identifier: Apache-2.0
 *
 * In-memory speed of a backend, against a copy limit measured in the same run: the better of two
 * loops that read N bytes and write N/2 past the caches, which is what quantizing bf16 moves at
 * least (1.5 bytes per byte of input).
 *
 *	kernels [--json] [--backend NAME] [--mib N] [--threads N] [--runs N] [--cpu-time]
 *
 * Memory rows: --mib of bf16 (far beyond the caches), rows of the matrix divided among the threads,
 * streaming stores.  Cache rows (per core): each thread converts its own 1 MiB again and again with
 * ordinary stores, as the file pipeline does.  Each run times every row once, so that a noisy
 * neighbor hits all alike; --cpu-time counts only the time that threads ran.
 */
#include <emmintrin.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "bench/measure.h"
#include "num/float16.h"

#define COLS	      4096
#define CACHE_ROWS    128   /* 1 MiB of bf16 */
#define AMAX_OF_FILL  0.53f /* no value of fill() is larger */
#define N_RUNS_MAX    101
#define N_THREADS_MAX 256

struct bench {
	const struct backend *backend;
	uint16_t *x;	 /* (rows, COLS) */
	uint8_t *codes;	 /* (rows, COLS) */
	char *scale_inv; /* 4 bytes for each 32 elements: enough for any tile */
	size_t rows;
	int n_threads;
	bool cpu_time; /* the time that threads ran, not the time that passed: for a busy machine */
};

enum mode { COPY, COPY_AHEAD, AMAX, QUANTIZE, AMAX_AND_CAST, DEQUANTIZE };

struct row {
	const char *name;
	enum mode mode;
	struct qspec spec;
	bool in_cache;
	double rate[N_RUNS_MAX]; /* GB/s of input */
};

static struct row rows[] = {
	{ .name = "copy", .mode = COPY },
	{ .name = "copy, fetching ahead", .mode = COPY_AHEAD },
	{ .name = "amax", .mode = AMAX, .spec = { .tile = { WHOLE, WHOLE } } },
	{ .name = "blockwise pow2",
	  .mode = QUANTIZE,
	  .spec = { .tile = { 128, 128 }, .pow2 = true } },
	{ .name = "blockwise pow2 e5m2",
	  .mode = QUANTIZE,
	  .spec = { .format = FP8_E5M2, .tile = { 128, 128 }, .pow2 = true } },
	{ .name = "mxfp8",
	  .mode = QUANTIZE,
	  .spec = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 } },
	{ .name = "1x128 pow2", .mode = QUANTIZE, .spec = { .tile = { 1, 128 }, .pow2 = true } },
	{ .name = "blockwise float te", .mode = QUANTIZE, .spec = { .tile = { 128, 128 } } },
	{ .name = "blockwise float deepseek",
	  .mode = QUANTIZE,
	  .spec = { .tile = { 128, 128 }, .arith = ARITH_DEEPSEEK } },
	{ .name = "channelwise", .mode = QUANTIZE, .spec = { .tile = { 1, WHOLE } } },
	{ .name = "current: cast", .mode = QUANTIZE, .spec = { .tile = { WHOLE, WHOLE } } },
	{ .name = "current: amax, cast",
	  .mode = AMAX_AND_CAST,
	  .spec = { .tile = { WHOLE, WHOLE } } },
	{ .name = "dequantize 128x128", .mode = DEQUANTIZE, .spec = { .tile = { 128, 128 } } },
	{ .name = "cache: copy", .mode = COPY, .in_cache = true },
	{ .name = "cache: blockwise pow2",
	  .mode = QUANTIZE,
	  .in_cache = true,
	  .spec = { .tile = { 128, 128 }, .pow2 = true } },
	{ .name = "cache: mxfp8",
	  .mode = QUANTIZE,
	  .in_cache = true,
	  .spec = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 } },
	{ .name = "cache: 1x128 pow2",
	  .mode = QUANTIZE,
	  .in_cache = true,
	  .spec = { .tile = { 1, 128 }, .pow2 = true } },
	{ .name = "cache: blockwise float te",
	  .mode = QUANTIZE,
	  .in_cache = true,
	  .spec = { .tile = { 128, 128 } } },
	{ .name = "cache: channelwise",
	  .mode = QUANTIZE,
	  .in_cache = true,
	  .spec = { .tile = { 1, WHOLE } } },
};

#define N_ROWS (sizeof rows / sizeof *rows)

/* Reads n bytes, writes n/2.  ahead: how far to fetch ahead of the reading. */
static void copy_half(const char *from, uint8_t *to, size_t n, size_t ahead, bool streaming)
{
	for (size_t i = 0; i < n; i += 32, to += 16) {
		__m128i a = _mm_loadu_si128((const void *)(from + i));
		__m128i b = _mm_loadu_si128((const void *)(from + i + 16));

		if (ahead && i % 64 == 0 && n - i > ahead)
			_mm_prefetch(from + i + ahead, _MM_HINT_T1);
		if (streaming)
			_mm_stream_si128((void *)to, _mm_xor_si128(a, b));
		else
			_mm_storeu_si128((void *)to, _mm_xor_si128(a, b));
	}
	_mm_sfence();
}

struct work {
	const struct bench *bench;
	const struct row *row;
	size_t first, n_rows;
	int repeat;
	double cpu_seconds;
};

static void work_once(const struct work *w)
{
	const struct bench *b = w->bench;
	const struct qspec *spec = &w->row->spec;
	uint16_t *data = b->x + w->first * COLS;
	uint8_t *codes = b->codes + w->first * COLS;
	char *scale_inv = b->scale_inv + w->first * (COLS / 32) * 4;
	size_t scale_stride = tile_count(COLS, spec->tile.cols);
	struct matrix x = { data, DT_BF16, w->n_rows, COLS, COLS };
	struct quant_stats stats = { 0 };
	struct quant_out out = { codes, COLS, scale_inv, scale_stride, &stats, !w->row->in_cache };
	struct quant_in in = { codes,	   w->n_rows,	     COLS,	COLS,	     spec->format,
			       spec->tile, spec->scale_type, scale_inv, scale_stride };
	float amax = 0;
	uint64_t n_nonfinite = 0;

	switch (w->row->mode) {
	case COPY:
		copy_half((const char *)data, codes, 2 * w->n_rows * COLS, 0, !w->row->in_cache);
		break;
	case COPY_AHEAD:
		copy_half((const char *)data, codes, 2 * w->n_rows * COLS, 8192, true);
		break;
	case AMAX:
		backend_amax(b->backend, &x, spec->tile, &amax, 1, &n_nonfinite);
		break;
	case QUANTIZE:
		if (spec->tile.rows == WHOLE) { /* as if the amax had come with the tensor */
			amax = AMAX_OF_FILL;
			backend_cast(b->backend, &x, spec, &amax, 1, &out);
		} else {
			backend_cast(b->backend, &x, spec, NULL, 0, &out);
		}
		break;
	case AMAX_AND_CAST:
		backend_amax(b->backend, &x, spec->tile, &amax, 1, &n_nonfinite);
		backend_cast(b->backend, &x, spec, &amax, 1, &out);
		break;
	case DEQUANTIZE:
		backend_dequantize(b->backend, &in, DT_BF16, data, COLS);
		break;
	}
}

static void *work_run(void *argument)
{
	struct work *w = argument;
	double start = clock_seconds(CLOCK_THREAD_CPUTIME_ID);

	for (int i = 0; i < w->repeat; i++)
		work_once(w);
	w->cpu_seconds = clock_seconds(CLOCK_THREAD_CPUTIME_ID) - start;
	return NULL;
}

/* GB/s of input: of all threads for memory rows, of one for cache rows. */
static double row_measure(const struct bench *b, const struct row *row)
{
	struct work work[N_THREADS_MAX];
	pthread_t threads[N_THREADS_MAX];
	size_t share = b->rows / b->n_threads / 128 * 128;
	double start = clock_seconds(CLOCK_MONOTONIC), elapsed, bytes = 0, cpu = 0;

	for (int i = 0; i < b->n_threads; i++) {
		work[i] = (struct work){ b,
					 row,
					 share * i,
					 row->in_cache ? CACHE_ROWS : share,
					 row->in_cache ? 200 : 1,
					 0 };
		bytes += 2.0 * COLS * (double)work[i].n_rows * work[i].repeat;
		if (pthread_create(&threads[i], NULL, work_run, &work[i])) {
			perror("pthread_create");
			exit(4);
		}
	}
	for (int i = 0; i < b->n_threads; i++) {
		pthread_join(threads[i], NULL);
		cpu = work[i].cpu_seconds > cpu ? work[i].cpu_seconds : cpu;
	}
	elapsed = b->cpu_time ? cpu : clock_seconds(CLOCK_MONOTONIC) - start;
	return bytes / elapsed * 1e-9 / (row->in_cache ? b->n_threads : 1);
}

/* Normal values by the sum of uniform ones, and a few columns 8 times as large: 0.1 % of the codes
 * are subnormal, for which kernels take the slower way.  In SmolLM2-135M 0.03 % to 0.08 % are. */
static void fill(struct bench *b)
{
	uint64_t state = NOISE_SEED;

	for (size_t i = 0; i < b->rows * COLS; i++)
		b->x[i] = bf16_from_f32(noise_next(&state) * (i % COLS % 509 == 3 ? 4e-6f : 5e-7f));
}

static void *map(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(4);
	}
	madvise(memory, size, MADV_HUGEPAGE);
	memset(memory, 1, size);
	return memory;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The better of the copies: what nothing that moves the same bytes can beat by much. */
static double copy_limit(bool in_cache, int n_runs)
{
	double limit = 0;

	for (size_t i = 0; i < N_ROWS; i++) {
		if (rows[i].mode <= COPY_AHEAD && rows[i].in_cache == in_cache &&
		    rows[i].rate[n_runs / 2] > limit)
			limit = rows[i].rate[n_runs / 2];
	}
	return limit;
}

static void report(const struct bench *b, int n_runs, bool json)
{
	for (size_t i = 0; i < N_ROWS; i++)
		qsort(rows[i].rate, (size_t)n_runs, sizeof *rows[i].rate, by_value);
	if (json)
		printf("{\"backend\": \"%s\", \"threads\": %d, \"bytes\": %zu, \"runs\": %d, "
		       "\"clock\": \"%s\", "
		       "\"rows\": [\n",
		       b->backend->name, b->n_threads, 2 * b->rows * COLS, n_runs,
		       b->cpu_time ? "cpu" : "wall");
	else
		printf("%s, %d threads, %zu MiB, %d runs; GB/s of bf16 input%s\n%-28s %8s %8s %8s  "
		       "%s\n",
		       b->backend->name, b->n_threads, b->rows * COLS >> 19, n_runs,
		       b->cpu_time ? " by the time that threads ran" : "", "", "median", "min",
		       "max", "of the copy limit");
	for (size_t i = 0; i < N_ROWS; i++) {
		double median = rows[i].rate[n_runs / 2];

		printf(json ? "  {\"name\": \"%s\", \"median\": %.3f, \"min\": %.3f, \"max\": "
			      "%.3f, \"ratio\": %.3f}%s\n"
			    : "%-28s %8.2f %8.2f %8.2f  %.2f%s\n",
		       rows[i].name, median, rows[i].rate[0], rows[i].rate[n_runs - 1],
		       median / copy_limit(rows[i].in_cache, n_runs),
		       json && i + 1 < N_ROWS ? "," : "");
	}
	if (json)
		printf("]}\n");
}

int main(int argc, char **argv)
{
	struct bench b = { .n_threads = (int)sysconf(_SC_NPROCESSORS_ONLN) };
	const char *backend = "auto";
	long n_runs = 5, mib = 1024, threads = 0;
	struct err err = { 0 };
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--cpu-time"))
			b.cpu_time = true;
		else if (!strcmp(argv[i], "--backend") && i + 1 < argc)
			backend = argv[++i];
		else if (!strcmp(argv[i], "--mib") && i + 1 < argc)
			mib = strtol(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--threads") && i + 1 < argc)
			threads = strtol(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--runs") && i + 1 < argc)
			n_runs = strtol(argv[++i], NULL, 10);
		else
			return fprintf(stderr, "usage: kernels [--json] [--backend NAME] [--mib N] "
					       "[--threads N] "
					       "[--runs N] [--cpu-time]\n"),
			       2;
	}
	b.backend = backend_select(backend, &err);
	if (threads)
		b.n_threads = (int)threads;
	if (!b.backend || b.n_threads < 1 || b.n_threads > N_THREADS_MAX || mib < b.n_threads ||
	    n_runs < 1 || n_runs > N_RUNS_MAX)
		return fprintf(stderr, "%s\n",
			       b.backend ? "a number is out of range" : err.message),
		       2;
	b.rows = (size_t)mib * (1024 * 1024 / 2 / COLS);
	b.x = map(b.rows * COLS * 2);
	b.codes = map(b.rows * COLS);
	b.scale_inv = map(b.rows * COLS / 8);
	fill(&b);
	for (int run = 0; run < n_runs; run++) {
		for (size_t i = 0; i < N_ROWS; i++)
			rows[i].rate[run] = row_measure(&b, &rows[i]);
	}
	report(&b, (int)n_runs, json);
	return fflush(stdout) ? 4 : 0;
}
