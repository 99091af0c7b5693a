/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by cuBLASLt.  The library's matrices are column-major: B is its first operand,
 * transposed, and A its second, not transposed.  This form, "TN", is the only one that FP8 has
 * everywhere.  Of D += A^T B it is A that is transposed, "NT".  The library's m is our n, its n our
 * m.
 *
 * Asking the library for an algorithm takes longer than a small product, so its answer is kept for
 * each shape, with the descriptors if they hold no more than that: FP8's hold the addresses of
 * scales.  One answer serves any m where rows must have the same bits for any m: no sum of it is
 * split over blocks, and a block sums up in one order.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/cuda/cublaslt.h"
#include "kernels/gpu/gemm.h"
}

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <gpu.h>
#include "num/history.h"

#define WORKSPACE_MOST \
	((uint64_t)32  \
	 << 20) /* what NVIDIA recommends for Hopper; algorithms ask for what they need of it */
#define WORKSPACE_LEAST ((size_t)1 << 16)
#define AMAX_SIZE	256  /* of one float, and its alignment */
#define ALIGN_MOST	256u /* the largest alignment that the library distinguishes */
#define UPDATE_THREADS	32
#define ANY_M		256 /* rows that the algorithm for any number of them is asked for */
#define N_BUCKETS	1024

/* Everything that the library's answer depends on.  Compared byte by byte, so the padding is
 * zeroed. */
struct shape_key {
	int device;
	size_t m, n, k;
	enum dtype types[3]; /* of A, B, D */
	size_t strides[3];
	uint32_t alignments[3]; /* bytes, of the addresses of rows */
	struct tile tiles[2];
	bool fast, has_amax, is_sum, any_m;
};

/* What the library is told of a product: its A is our B; c: if D is FP8. */
struct described {
	void *desc, *a, *b, *c, *d;
};

struct shape {
	struct shape_key key;
	struct described described; /* of products that is_described_once() */
	struct lt_algo algo;
	size_t workspace_size;
	struct shape *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the variables below */
static void *handles[DEVICES_MOST];
static struct shape *buckets[N_BUCKETS];

/* The state of one call of gpu_gemm(). */
struct call {
	struct device_stream *stream;
	const struct cublaslt *lt;
	const struct gpu_gemm *g;
	void *native, *handle;
	struct described own;
	void *preference; /* while an algorithm is asked for */
};

static bool went_well(const struct call *c, const char *name, int status)
{
	if (status != LT_SUCCESS)
		device_fail(c->stream, name, c->lt->GetStatusString(status));
	return status == LT_SUCCESS;
}

#define CALL(c, name, ...) went_well((c), "cublasLt" #name, (c)->lt->name(__VA_ARGS__))

static bool is_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2;
}

static int lt_type_of(enum dtype dtype)
{
	switch (dtype) {
	case DT_BF16:
		return LT_R_16BF;
	case DT_F8_E4M3:
		return LT_R_8F_E4M3;
	case DT_F8_E5M2:
		return LT_R_8F_E5M2;
	default:
		return LT_R_32F;
	}
}

static int32_t scale_mode(struct tile tile)
{
	if (tile.cols == WHOLE)
		return LT_SCALE_SCALAR;
	if (tile.cols == 32)
		return LT_SCALE_VEC32_UE8M0;
	return tile.rows == 1 ? LT_SCALE_VEC128_32F : LT_SCALE_BLK128x128_32F;
}

static bool desc_set(const struct call *c, enum lt_desc attribute, const void *value, size_t size)
{
	return CALL(c, MatmulDescSetAttribute, c->own.desc, attribute, value, size);
}

static bool pointer_set(const struct call *c, enum lt_desc attribute, const void *pointer)
{
	return desc_set(c, attribute, &pointer, sizeof pointer);
}

/* A library older than 12.8 has only the default mode, which is not set. */
static bool mode_set(const struct call *c, enum lt_desc attribute, struct tile tile)
{
	int32_t mode = scale_mode(tile);

	return mode == LT_SCALE_SCALAR || desc_set(c, attribute, &mode, sizeof mode);
}

static bool describe_fp8(const struct call *c, const float *amax)
{
	const struct gpu_gemm *g = c->g;
	int8_t fast = g->fast;

	if (!mode_set(c, LT_DESC_A_SCALE_MODE, g->b.tile) ||
	    !mode_set(c, LT_DESC_B_SCALE_MODE, g->a.tile) ||
	    !pointer_set(c, LT_DESC_A_SCALE_POINTER, g->b.scale_inv) ||
	    !pointer_set(c, LT_DESC_B_SCALE_POINTER, g->a.scale_inv) ||
	    (fast && !desc_set(c, LT_DESC_FAST_ACCUM, &fast, sizeof fast)))
		return false;
	return !is_fp8(g->d.dtype) ||
	       (pointer_set(c, LT_DESC_D_SCALE_POINTER, g->d.scale) &&
		(!g->d.history || pointer_set(c, LT_DESC_AMAX_D_POINTER, amax)));
}

static bool layout_new(const struct call *c, void **layout, enum dtype dtype, size_t rows,
		       size_t cols, size_t stride)
{
	return CALL(c, MatrixLayoutCreate, layout, lt_type_of(dtype), rows, cols,
		    static_cast<int64_t>(stride));
}

/* Describes which operand is transposed, and the layouts of both. */
static bool describe_operands(struct call *c)
{
	const struct gpu_gemm *g = c->g;
	int32_t transposed = LT_OP_T;

	if (g->form == GEMM_SUM)
		return desc_set(c, LT_DESC_TRANSB, &transposed, sizeof transposed) &&
		       layout_new(c, &c->own.a, g->b.dtype, g->n, g->k, g->b.stride) &&
		       layout_new(c, &c->own.b, g->a.dtype, g->m, g->k, g->a.stride);
	return desc_set(c, LT_DESC_TRANSA, &transposed, sizeof transposed) &&
	       layout_new(c, &c->own.a, g->b.dtype, g->k, g->n, g->b.stride) &&
	       layout_new(c, &c->own.b, g->a.dtype, g->k, g->m, g->a.stride);
}

static bool describe(struct call *c, const float *amax)
{
	const struct gpu_gemm *g = c->g;

	return CALL(c, MatmulDescCreate, &c->own.desc, LT_COMPUTE_32F, LT_R_32F) &&
	       describe_operands(c) &&
	       (!is_fp8(g->d.dtype) ||
		layout_new(c, &c->own.c, DT_BF16, g->n, g->m, g->d.stride)) &&
	       layout_new(c, &c->own.d, g->d.dtype, g->n, g->m, g->d.stride) &&
	       (!is_fp8(g->a.dtype) || describe_fp8(c, amax));
}

/* Returns the layout of the matrix that beta multiplies: D itself, unless D is FP8. */
static void *c_layout(const struct described *described)
{
	return described->c ? described->c : described->d;
}

static void call_release(struct call *c)
{
	void *layouts[] = { c->own.a, c->own.b, c->own.c, c->own.d };

	for (void *layout : layouts) {
		if (layout)
			CALL(c, MatrixLayoutDestroy, layout);
	}
	if (c->own.desc)
		CALL(c, MatmulDescDestroy, c->own.desc);
	if (c->preference)
		CALL(c, MatmulPreferenceDestroy, c->preference);
}

/* Do descriptors of this shape serve all of its products? */
static bool is_described_once(const struct shape_key *key)
{
	return !key->any_m && !is_fp8(key->types[0]);
}

/* Returns the alignment of the address of any row, so that the algorithm does not depend on the row
 * at which a matrix begins. */
static uint32_t alignment_of(const void *data, size_t stride, enum dtype dtype)
{
	uintptr_t bits =
		reinterpret_cast<uintptr_t>(data) | stride * dtype_bits(dtype) / 8 | ALIGN_MOST;

	return static_cast<uint32_t>(bits & -bits);
}

static void key_init(struct shape_key *key, const struct call *c)
{
	const struct gpu_gemm *g = c->g;

	memset(key, 0, sizeof *key);
	key->device = device_index(c->stream);
	key->m = g->any_m ? ANY_M : g->m;
	key->any_m = g->any_m;
	key->n = g->n;
	key->k = g->k;
	key->types[0] = g->a.dtype;
	key->types[1] = g->b.dtype;
	key->types[2] = g->d.dtype;
	key->strides[0] = g->a.stride;
	key->strides[1] = g->b.stride;
	key->strides[2] = g->d.stride;
	key->alignments[0] = alignment_of(g->a.data, g->a.stride, g->a.dtype);
	key->alignments[1] = alignment_of(g->b.data, g->b.stride, g->b.dtype);
	key->alignments[2] = alignment_of(g->d.data, g->d.stride, g->d.dtype);
	if (is_fp8(g->a.dtype)) {
		key->tiles[0] = g->a.tile;
		key->tiles[1] = g->b.tile;
		key->fast = g->fast;
	}
	key->has_amax = is_fp8(g->d.dtype) && g->d.history;
	key->is_sum = g->form == GEMM_SUM;
}

static struct shape **bucket_of(const struct shape_key *key)
{
	const unsigned char *bytes = reinterpret_cast<const unsigned char *>(key);
	uint64_t hash = 0xCBF29CE484222325; /* FNV-1a */

	for (size_t i = 0; i < sizeof *key; i++)
		hash = (hash ^ bytes[i]) * 0x100000001B3;
	return &buckets[hash % N_BUCKETS];
}

static bool prefer(const struct call *c, const struct shape_key *key)
{
	const uint64_t most = WORKSPACE_MOST;
	const uint32_t no_reductions = 0;
	const struct {
		enum lt_preference which;
		uint32_t alignment;
	} rows[] = { { LT_PREF_MIN_ALIGNMENT_A, key->alignments[1] },
		     { LT_PREF_MIN_ALIGNMENT_B, key->alignments[0] },
		     { LT_PREF_MIN_ALIGNMENT_C, key->alignments[2] },
		     { LT_PREF_MIN_ALIGNMENT_D, key->alignments[2] } };

	if (!CALL(c, MatmulPreferenceSetAttribute, c->preference, LT_PREF_MAX_WORKSPACE, &most,
		  sizeof most) ||
	    (key->any_m && !CALL(c, MatmulPreferenceSetAttribute, c->preference, LT_PREF_REDUCTIONS,
				 &no_reductions, sizeof no_reductions)))
		return false;
	for (const auto &row : rows) {
		if (!CALL(c, MatmulPreferenceSetAttribute, c->preference, row.which, &row.alignment,
			  sizeof row.alignment))
			return false;
	}
	return true;
}

/* Asks for an algorithm for the described product. */
static bool algo_find(struct call *c, const struct shape_key *key, struct lt_heuristic *found)
{
	int n_found = 0;

	if (!CALL(c, MatmulPreferenceCreate, &c->preference) || !prefer(c, key) ||
	    !CALL(c, MatmulAlgoGetHeuristic, c->handle, c->own.desc, c->own.a, c->own.b,
		  c_layout(&c->own), c->own.d, c->preference, 1, found, &n_found))
		return false;
	if (n_found == 0) {
		device_fail(c->stream, "cublasLtMatmulAlgoGetHeuristic",
			    "no algorithm for this product");
		return false;
	}
	return went_well(c, "cublasLtMatmulAlgoGetHeuristic", found->state);
}

/* Returns NULL if the stream has failed; the next product of the shape asks again. */
static struct shape *shape_ask(const struct call *c, const struct shape_key *key, const float *amax)
{
	struct lt_heuristic found = {};
	struct gpu_gemm g = *c->g;
	struct call ask = {};
	struct shape *shape;
	bool well;

	g.m = key->m;
	ask.stream = c->stream;
	ask.lt = c->lt;
	ask.g = &g;
	ask.handle = c->handle;
	well = describe(&ask, amax) && algo_find(&ask, key, &found);
	shape = static_cast<struct shape *>(well ? xcalloc(1, sizeof *shape) : NULL);
	if (well && is_described_once(key)) {
		shape->described = ask.own;
		ask.own = {};
	}
	call_release(&ask);
	if (!well)
		return NULL;
	shape->key = *key;
	shape->algo = found.algo;
	shape->workspace_size = found.workspace_size;
	return shape;
}

/* Returns the kept answer, or a new one.  An answer never changes and is never freed. */
static const struct shape *shape_get(struct call *c, const float *amax)
{
	struct shape **bucket, *shape;
	struct shape_key key;

	key_init(&key, c);
	bucket = bucket_of(&key);
	pthread_mutex_lock(&lock);
	for (shape = *bucket; shape && memcmp(&shape->key, &key, sizeof key);)
		shape = shape->next;
	if (!shape) {
		shape = shape_ask(c, &key, amax);
		if (shape) {
			shape->next = *bucket;
			*bucket = shape;
		}
	}
	pthread_mutex_unlock(&lock);
	return shape;
}

/* Returns the handle of a GPU, which all threads may use. */
static bool handle_get(struct call *c)
{
	void **handle = &handles[device_index(c->stream)];
	bool well;

	pthread_mutex_lock(&lock);
	well = *handle || CALL(c, Create, handle);
	c->handle = *handle;
	pthread_mutex_unlock(&lock);
	return well;
}

/* Sizes double, so all the outgrown memory together is at most as large as the memory in use. */
static bool space_ready(struct device_stream *stream, struct gpu_gemm_space *space, size_t size)
{
	size_t doubled = WORKSPACE_LEAST;

	if (!space->amax)
		space->amax = static_cast<float *>(device_take(stream, AMAX_SIZE));
	if (space->size < size) {
		while (doubled < size)
			doubled *= 2;
		space->workspace = device_take(stream, doubled);
		space->size = space->workspace ? doubled : 0;
	}
	return !device_stream_stopped(stream);
}

/* Ends a product whose output is FP8. */
static __global__ void gemm_update(const float *scale, const float *amax, float *scale_inv,
				   float *history)
{
	if (threadIdx.x == 0)
		history_gemm_update(*scale, history ? *amax : 0, scale_inv, history);
}

static bool multiply(struct call *c, struct gpu_gemm_space *space)
{
	const struct gpu_gemm *g = c->g;
	const float one = 1, beta = g->form == GEMM_SUM ? 1 : 0;
	const struct shape *shape = shape_get(c, space->amax);
	const struct described *told = &c->own;

	if (!shape || !space_ready(c->stream, space, shape->workspace_size))
		return false;
	if (shape->described.desc)
		told = &shape->described;
	else if (!describe(c, space->amax))
		return false;
	return CALL(c, Matmul, c->handle, told->desc, &one, g->b.data, told->a, g->a.data, told->b,
		    &beta, told->c ? NULL : g->d.data, c_layout(told), g->d.data, told->d,
		    &shape->algo, space->workspace, shape->workspace_size, c->native);
}

void gpu_gemm_reserve(struct device_stream *stream, struct gpu_gemm_space *space)
{
	space_ready(stream, space, WORKSPACE_MOST);
}

int gpu_gemm_library(char *text, size_t size, struct err *err)
{
	const char *why = NULL;
	const struct cublaslt *lt = cublaslt(&why);
	size_t version;

	if (!lt)
		return err_set(err, ERR_SYSTEM, "%s", why);
	version = lt->GetVersion();
	snprintf(text, size, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100,
		 version % 100);
	return 0;
}

void gpu_gemm(struct device_stream *stream, struct gpu_gemm_space *space, const struct gpu_gemm *g)
{
	struct call c = {};
	const char *why = NULL;
	bool well;

	if (g->m == 0 || g->n == 0)
		return;
	c.stream = stream;
	c.g = g;
	c.native = device_stream_native(stream); /* a new handle belongs to the current GPU */
	c.lt = cublaslt(&why);
	if (!c.lt) {
		device_fail(stream, "dlopen", why);
		return;
	}
	well = space_ready(stream, space, 0) && handle_get(&c) && multiply(&c, space);
	call_release(&c);
	if (!well || !is_fp8(g->d.dtype))
		return;
	GPU_LAUNCH(gemm_update, 1, UPDATE_THREADS, c.native, g->d.scale, space->amax,
		   g->d.scale_inv, g->d.history);
	device_launched(stream, "gemm_update");
}
