/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU's kernels against the device's own copy, and the conversion of a matrix from host to
 * host, by several threads, against plain copies of the same bytes by pinned memory, one after the
 * other.  Prints JSON for run.py: bytes moved, read and written, and the seconds of each run.
 *
 *	gpu [--rows N] [--runs N]
 *
 * Matrices are (N, 16384): by default 512 MiB of bf16, several times a second-level cache.  Kernels
 * are timed by events in their stream, what includes the host by the clock.  Every run times each
 * row once, so that what slows the machine slows all. Exit status 77: there is no GPU.
 */
#include <fp8conv.h>
#include <pthread.h>

#include "gpu_bench.h"
#include "gpu_bf16.h"

#define COLS	     ((size_t)16384)
#define SIDE	     ((size_t)4096)	 /* of a matrix of the library */
#define HOST_SIZE    ((size_t)256 << 20) /* the matrix that comes from the host */
#define HOST_BAND    ((size_t)1024)	 /* its rows at once: 32 MiB */
#define HOST_THREADS 8
/* times it is converted in a run: what a thread begins with counts little */
#define HOST_PASSES 16

enum operation {
	COPY,
	CAST,
	CAST_GIVEN,
	CAST_BOTH,
	NORM,
	NORM_BF16,
	SWIGLU,
	SWIGLU_BF16,
	DEQUANTIZE,
	LIBRARY, /* by events */
	HOST_IN,
	HOST_COPY,
	HOST_QUANTIZE /* by the clock */
};

struct row {
	const char *name;
	const char *limit; /* the row it is held against, NULL: it is one */
	enum operation operation;
	int n_moved; /* bytes for each element, besides scales */
	struct qspec spec;
	const char *recipe; /* of the library */
	double seconds[N_RUNS_MAX];
};

/* Of bf16: 2 bytes are read, 1 is written; for the amax of a tensor, and the sums of a norm, 2 more
 * are read. */
static struct row rows[] = {
	{ "copy", NULL, COPY, 4, TENSOR },
	{ "cast, scale given, amax taken", "copy", CAST_GIVEN, 3, TENSOR },
	{ "cast, tensor (read twice)", "copy", CAST, 5, TENSOR },
	{ "cast, channel", "copy", CAST, 3, CHANNEL },
	{ "cast, 128x128", "copy", CAST, 3, BLOCK },
	{ "cast, 1x128", "copy", CAST, 3, BLOCK_ROW },
	{ "cast, MX", "copy", CAST, 3, MX },
	{ "cast-transpose, scale given", "copy", CAST_BOTH, 4, TENSOR },
	{ "cast-transpose, 128x128", "copy", CAST_BOTH, 4, BLOCK },
	{ "cast-transpose, 1x128", "copy", CAST_BOTH, 4, BLOCK_ROW },
	{ "cast-transpose, MX", "copy", CAST_BOTH, 4, MX },
	{ "RMSNorm to FP8, scale given (read twice)", "copy", NORM, 5, TENSOR },
	{ "RMSNorm to bf16 (read twice)", "copy", NORM_BF16, 6, TENSOR },
	{ "SwiGLU to FP8, scale given", "copy", SWIGLU, 5, TENSOR },
	{ "SwiGLU to bf16", "copy", SWIGLU_BF16, 6, TENSOR },
	{ "dequantize, 128x128", "copy", DEQUANTIZE, 3, BLOCK },
	{ "fp8conv_quantize of 4096x4096, 128x128", "copy", LIBRARY, 3, BLOCK, "blockwise" },
	{ "fp8conv_quantize of 4096x4096, MX", "copy", LIBRARY, 3, MX, "mxfp8" },
	{ "fp8conv_quantize of 4096x4096, channel", "copy", LIBRARY, 3, CHANNEL, "channelwise" },
	{ "pinned copy there", NULL, HOST_IN, 2, BLOCK },
	{ "pinned copies there and back", NULL, HOST_COPY, 3, BLOCK },
	{ "host to host, 128x128", "pinned copies there and back", HOST_QUANTIZE, 3, BLOCK },
};

#define N_ROWS (sizeof rows / sizeof *rows)

struct bench {
	struct device_stream *stream;
	cudaStream_t native;
	cudaEvent_t begin, end;
	const struct backend *backend;
	struct fp8conv_context *library;
	struct matrix x, up; /* of the GPU */
	struct matrix host;
	struct matrix paged; /* of the host, not pinned */
	uint8_t *codes[2], *host_codes, *paged_codes;
	void *scales[2];
	float *paged_scales;
	void *y;
	float *rsigma, *one, *amax;
	unsigned long long *counts;
};

/* --- memory --- */

static void *pinned_new(size_t size)
{
	void *memory;

	check(cudaMallocHost(&memory, size), "cudaMallocHost");
	memset(memory, 0, size);
	return memory;
}

static void *paged_new(size_t size)
{
	void *memory = malloc(size);

	if (!memory)
		die("malloc", "no memory");
	memset(memory, 0, size);
	return memory;
}

/* (n_rows, COLS), the host's values again and again. */
static struct matrix device_matrix(const struct matrix *host, size_t n_rows)
{
	char *memory = static_cast<char *>(device_new(2 * n_rows * COLS));

	for (size_t row = 0; row < n_rows; row += host->rows) {
		size_t n = n_rows - row < host->rows ? n_rows - row : host->rows;

		check(cudaMemcpy(memory + 2 * row * COLS, host->data, 2 * n * COLS,
				 cudaMemcpyHostToDevice),
		      "cudaMemcpy");
	}
	return { memory, DT_BF16, n_rows, COLS, COLS };
}

static void bench_init(struct bench *b, size_t n_rows)
{
	size_t n = n_rows * COLS, n_host = HOST_SIZE / 2;
	uint16_t *values = static_cast<uint16_t *>(pinned_new(HOST_SIZE));
	float one = 1;

	b->stream = device_stream_here();
	b->native = static_cast<cudaStream_t>(device_stream_native(b->stream));
	check(cudaEventCreate(&b->begin), "cudaEventCreate");
	check(cudaEventCreate(&b->end), "cudaEventCreate");
	fill(values, n_host);
	b->host = { values, DT_BF16, n_host / COLS, COLS, COLS };
	b->host_codes = static_cast<uint8_t *>(pinned_new(n_host));
	b->paged = b->host;
	b->paged.data = memcpy(paged_new(HOST_SIZE), values, HOST_SIZE);
	b->paged_codes = static_cast<uint8_t *>(paged_new(n_host));
	b->paged_scales = static_cast<float *>(paged_new(n_host / 8));
	b->x = device_matrix(&b->host, n_rows);
	b->up = device_matrix(&b->host, n_rows);
	for (int i = 0; i < 2; i++) {
		b->codes[i] = static_cast<uint8_t *>(device_new(n));
		b->scales[i] = device_new(n / 8);
	}
	b->y = device_new(2 * n);
	b->rsigma = static_cast<float *>(device_new(n_rows * sizeof(float)));
	b->amax = static_cast<float *>(device_new(sizeof(float)));
	b->one = static_cast<float *>(device_new(sizeof(float)));
	check(cudaMemcpy(b->one, &one, sizeof one, cudaMemcpyHostToDevice), "cudaMemcpy");
	b->counts = static_cast<unsigned long long *>(device_new(N_COUNTS * sizeof *b->counts));
	check(cudaDeviceSynchronize(),
	      "cudaDeviceSynchronize"); /* the stream does not wait for what was set here */
}

/* --- what is timed --- */

/* The rowwise copy, and with transpose the columnwise one as a GEMM takes it. */
static struct fp8_out out_of(const struct bench *b, const struct qspec *spec, bool given,
			     bool transpose)
{
	enum scale_order order = transpose ? SCALES_GEMM : SCALES_COMPACT;
	size_t n_rows = b->x.rows;
	bool in_place = spec->scale_type == SCALE_E8M0; /* MX codes are not transposed */
	struct fp8_out out = {};

	out.rowwise = { b->codes[0], COLS, 1, b->scales[0],
			scale_grid_of(spec, n_rows, COLS, false, order) };
	if (transpose)
		out.columnwise = { b->codes[1], in_place ? 1 : n_rows, in_place ? COLS : 1,
				   b->scales[1], scale_grid_of(spec, COLS, n_rows, true, order) };
	if (given) {
		out.scale = b->one;
		out.amax = b->amax;
	}
	return out;
}

static void norm_run(const struct bench *b, const struct qspec *spec, bool to_bf16)
{
	struct fp8_out out = out_of(b, spec, true, false);
	struct norm_args args = {};

	args.kind = NORM_RMS;
	args.x = b->x;
	args.gamma = b->up;
	args.gamma.rows = 1;
	args.epsilon = 1e-5f;
	args.rsigma = b->rsigma;
	if (to_bf16)
		bench_norm(b->stream, &args, static_cast<uint16_t *>(b->y));
	else
		gpu_norm(b->stream, &args, spec, &out, b->counts);
}

static void swiglu_run(const struct bench *b, const struct qspec *spec, bool to_bf16)
{
	struct fp8_out out = out_of(b, spec, true, false);
	struct activation_args args = { ACT_SILU, b->x, b->up };

	if (to_bf16)
		bench_activate(b->stream, &args, static_cast<uint16_t *>(b->y));
	else
		gpu_activate(b->stream, &args, spec, &out, b->counts);
}

static void dequantize_run(const struct bench *b, const struct qspec *spec)
{
	struct quant_in q = {};

	q.codes = b->codes[0];
	q.rows = b->x.rows;
	q.cols = q.stride = COLS;
	q.format = spec->format;
	q.tile = spec->tile;
	q.scale_inv = b->scales[0];
	q.scale_stride = tile_count(COLS, spec->tile.cols);
	gpu_dequantize(b->stream, &q, DT_BF16, b->y, COLS);
}

/* The bytes that host_quantize_run() moves, and nothing else; or those of its input alone. */
static void host_copy_run(const struct bench *b, bool back)
{
	size_t n = b->host.rows * COLS;

	check(cudaMemcpyAsync(b->y, b->host.data, 2 * n, cudaMemcpyHostToDevice, b->native),
	      "cudaMemcpyAsync");
	if (back)
		check(cudaMemcpyAsync(b->host_codes, b->codes[0], n, cudaMemcpyDeviceToHost,
				      b->native),
		      "cudaMemcpyAsync");
	check(cudaStreamSynchronize(b->native), "cudaStreamSynchronize");
}

/* In tiles of 128x128. */
static void band_quantize(const struct bench *b, size_t row)
{
	const struct qspec spec = BLOCK;
	size_t n_tiles = tile_count(COLS, spec.tile.cols);
	float *scales = b->paged_scales + row / spec.tile.rows * n_tiles;
	struct matrix band = b->paged;
	struct quant_stats stats = {};
	struct quant_out out = {
		b->paged_codes + row * COLS, COLS, scales, n_tiles, &stats, false
	};
	struct err err;

	band.data = static_cast<const uint16_t *>(band.data) + row * COLS;
	band.rows = HOST_BAND;
	backend_cast(b->backend, &band, &spec, NULL, 0, &out);
	if (backend_failed(b->backend, "x", &err))
		die("a conversion", err.message);
}

/* What the threads have in common. */
struct conversion {
	const struct bench *bench;
	size_t n_begun; /* bands */
};

static void *host_worker(void *context)
{
	struct conversion *conversion = static_cast<struct conversion *>(context);
	size_t n_rows = conversion->bench->paged.rows, row;

	while ((row = __atomic_fetch_add(&conversion->n_begun, 1, __ATOMIC_RELAXED) * HOST_BAND) <
	       HOST_PASSES * n_rows)
		band_quantize(conversion->bench, row % n_rows);
	return NULL;
}

static void host_quantize_run(const struct bench *b)
{
	struct conversion conversion = { b, 0 };
	pthread_t threads[HOST_THREADS];

	for (int i = 0; i < HOST_THREADS; i++) {
		if (pthread_create(&threads[i], NULL, host_worker, &conversion))
			die("pthread_create", "no thread");
	}
	for (int i = 0; i < HOST_THREADS; i++)
		pthread_join(threads[i], NULL);
}

/* A call of the library. */
static void library_check(int rc, const struct fp8conv_error *error)
{
	if (rc)
		die("the library", error->message);
}

static struct fp8conv_tensor library_tensor(void *data, int dtype, size_t rows, size_t columns)
{
	struct fp8conv_tensor t = {};

	t.size = sizeof t;
	t.data = data;
	t.dtype = dtype;
	t.device = FP8CONV_CUDA(0);
	t.rows = rows;
	t.columns = columns;
	return t;
}

/* The elements of x as matrices (SIDE, SIDE), a call each. */
static void library_run(const struct bench *b, const char *name)
{
	const struct fp8conv_recipe *recipe;
	struct fp8conv_error error;
	struct fp8conv_shape shape = {};
	struct fp8conv_copy copy = {};

	shape.size = sizeof shape;
	copy.size = sizeof copy;
	copy.role = FP8CONV_W;
	library_check(fp8conv_recipe_get(b->library, name, NULL, &recipe, &error), &error);
	library_check(fp8conv_scale_shape(recipe, &copy, SIDE, SIDE, &shape, &error), &error);
	for (size_t i = 0; i < b->x.rows * COLS / SIDE / SIDE; i++) {
		struct fp8conv_tensor x = library_tensor((uint16_t *)b->x.data + i * SIDE * SIDE,
							 FP8CONV_BF16, SIDE, SIDE),
				      codes = library_tensor(b->codes[0] + i * SIDE * SIDE,
							     FP8CONV_E4M3, SIDE, SIDE),
				      scales = library_tensor((char *)b->scales[0] +
								      i * SIDE * SIDE / 8,
							      shape.scale_dtype, shape.scale_rows,
							      shape.scale_columns);
		struct fp8conv_quantized q = {};

		x.stream = b->native;
		q.size = sizeof q;
		q.rowwise = &codes;
		q.rowwise_scale_inv = &scales;
		library_check(fp8conv_quantize(b->library, recipe, FP8CONV_W, &x, &q, &error),
			      &error);
	}
}

static void row_run(const struct bench *b, const struct row *row)
{
	bool transpose = row->operation == CAST_BOTH, tensor = row->spec.tile.rows == WHOLE;
	struct fp8_out out = out_of(
		b, &row->spec, row->operation == CAST_GIVEN || (transpose && tensor), transpose);

	switch (row->operation) {
	case COPY:
		check(cudaMemcpyAsync(b->y, b->x.data, 2 * b->x.rows * COLS,
				      cudaMemcpyDeviceToDevice, b->native),
		      "cudaMemcpyAsync");
		break;
	case CAST:
	case CAST_GIVEN:
	case CAST_BOTH:
		gpu_cast(b->stream, &b->x, &row->spec, NULL, &out, b->counts);
		break;
	case NORM:
	case NORM_BF16:
		norm_run(b, &row->spec, row->operation == NORM_BF16);
		break;
	case SWIGLU:
	case SWIGLU_BF16:
		swiglu_run(b, &row->spec, row->operation == SWIGLU_BF16);
		break;
	case DEQUANTIZE:
		dequantize_run(b, &row->spec);
		break;
	case LIBRARY:
		library_run(b, row->recipe);
		break;
	case HOST_IN:
	case HOST_COPY:
		host_copy_run(b, row->operation == HOST_COPY);
		break;
	case HOST_QUANTIZE:
		host_quantize_run(b);
		break;
	}
}

static double row_seconds(const struct bench *b, const struct row *row)
{
	double begin = clock_seconds(CLOCK_MONOTONIC);
	float ms;

	device_begin(b->stream);
	if (row->operation >= HOST_IN) {
		row_run(b, row);
		return (clock_seconds(CLOCK_MONOTONIC) - begin) /
		       (row->operation == HOST_QUANTIZE ? HOST_PASSES : 1);
	}
	check(cudaEventRecord(b->begin, b->native), "cudaEventRecord");
	row_run(b, row);
	check(cudaEventRecord(b->end, b->native), "cudaEventRecord");
	check(cudaEventSynchronize(b->end), "cudaEventSynchronize");
	check(cudaEventElapsedTime(&ms, b->begin, b->end), "cudaEventElapsedTime");
	return ms * 1e-3;
}

/* --- what is told --- */

static size_t row_bytes(const struct bench *b, const struct row *row)
{
	size_t n_rows = row->operation >= HOST_IN ? b->host.rows : b->x.rows;
	size_t n_scales =
		tile_count(n_rows, row->spec.tile.rows) * tile_count(COLS, row->spec.tile.cols);
	size_t scales = n_scales * (row->spec.scale_type == SCALE_E8M0 ? 1 : 4);

	if (row->operation == COPY || row->operation == HOST_IN || row->operation == HOST_COPY)
		scales = 0;
	return n_rows * COLS * row->n_moved + scales * (row->operation == CAST_BOTH ? 2 : 1);
}

static void report(const struct bench *b, int n_runs)
{
	int device = 0, driver = 0, runtime = 0;
	struct cudaDeviceProp about;

	check(cudaGetDevice(&device), "cudaGetDevice");
	check(cudaGetDeviceProperties(&about, device), "cudaGetDeviceProperties");
	cudaDriverGetVersion(&driver);
	cudaRuntimeGetVersion(&runtime);
	printf("{\"device\": \"%s\", \"capability\": \"%d.%d\", \"l2_mib\": %d, \"memory_gib\": "
	       "%zu, \"driver\": %d, "
	       "\"runtime\": %d, \"rows\": [\n",
	       about.name, about.major, about.minor, about.l2CacheSize >> 20,
	       about.totalGlobalMem >> 30, driver, runtime);
	for (size_t i = 0; i < N_ROWS; i++) {
		printf(" {\"name\": \"%s\", \"limit\": \"%s\", \"bytes\": %zu, \"seconds\": ",
		       rows[i].name, rows[i].limit ? rows[i].limit : "", row_bytes(b, &rows[i]));
		print_seconds(rows[i].seconds, n_runs);
		printf("}%s\n", i + 1 < N_ROWS ? "," : "");
	}
	printf("]}\n");
}

int main(int argc, char **argv)
{
	size_t n_rows = 16384;
	long n_runs = 11;
	struct bench b = {};
	struct fp8conv_error error;
	struct err err;

	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--rows"))
			n_rows = strtoul(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--runs"))
			n_runs = strtol(argv[i + 1], NULL, 10);
	}
	if (argc % 2 == 0 || n_rows < HOST_SIZE / 2 / COLS || n_runs < 1 || n_runs > N_RUNS_MAX) {
		fprintf(stderr, "usage: gpu [--rows N, at least %zu] [--runs N]\n",
			HOST_SIZE / 2 / COLS);
		return 2;
	}
	b.backend = cuda_or_exit();
	library_check(fp8conv_context_create(NULL, &b.library, &error), &error);
	bench_init(&b, n_rows);
	for (int run = -N_WARM_UP; run < n_runs; run++) {
		for (size_t i = 0; i < N_ROWS; i++)
			rows[i].seconds[run < 0 ? 0 : run] = row_seconds(&b, &rows[i]);
	}
	if (device_stream_failed(b.stream, &err))
		die("a kernel", err.message);
	report(&b, (int)n_runs);
	return fflush(stdout) ? 4 : 0;
}
