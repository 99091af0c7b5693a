/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLASLt for a CPU: the functions that kernels/gpu/cuda calls, by their own names.  It knows only
 * what descriptors say, multiplies in double, and refuses what NVIDIA documents as unsupported:
 * cuBLAS, Tensor Core Usage, Narrow Precision Data Types Usage, cublasLtMatmul().  An algorithm is
 * good for the problem that it was found for, and for no other; without splits, for any columns.
 */
extern "C" {
#include "kernels/gpu/cuda/cublaslt.h"
#include "tests/simt/cublaslt.h"
#include "tests/simt/device.h"
}

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "num/float16.h"
#include "num/fp8.h"

#define SUCCESS	      0
#define NOT_READY     1
#define BAD_VALUE     7
#define FAILED	      13
#define UNSUPPORTED   15
#define DEFAULT_ALIGN 256u
#define WORKSPACE     ((size_t)4096)

int simt_lt_version = 130000;
const char *simt_lt_fails;
int simt_lt_fails_after;
long simt_lt_asked, simt_lt_products, simt_lt_objects;

struct desc {
	int32_t transposed[2], modes[2];
	const void *scales[2], *d_scale;
	void *amax;
	int8_t fast;
};

struct layout {
	int type;
	uint64_t rows, cols;
	int64_t stride;
};

struct preference {
	uint64_t workspace;
	uint32_t reductions;
	uint32_t alignments[4];
};

/* What lt_algo is here. */
struct algo {
	uint64_t problem; /* hash of all that it was found for */
	uint32_t alignments[4];
	uint64_t workspace_size;
	bool any_cols; /* no sum is split: D may have any number of columns */
};

static bool fails(const char *name)
{
	return simt_lt_fails && !strcmp(simt_lt_fails, name) && simt_lt_fails_after-- <= 0;
}

template <typename T> static int object_new(const char *name, void **made, T value)
{
	T *object;

	if (fails(name))
		return FAILED;
	object = static_cast<T *>(malloc(sizeof value));
	*object = value;
	*made = object;
	__atomic_add_fetch(&simt_lt_objects, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

static int object_destroy(void *object)
{
	if (!object)
		return BAD_VALUE;
	free(object);
	__atomic_sub_fetch(&simt_lt_objects, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

static bool is_fp8(int type)
{
	return type == LT_R_8F_E4M3 || type == LT_R_8F_E5M2;
}

static size_t type_size(int type)
{
	return is_fp8(type) ? 1 : type == LT_R_16BF ? 2 : 4;
}

static double load(int type, const void *data, size_t i)
{
	if (type == LT_R_16BF)
		return bf16_to_f32(static_cast<const uint16_t *>(data)[i]);
	if (is_fp8(type))
		return fp8_to_f32(type == LT_R_8F_E4M3 ? FP8_E4M3 : FP8_E5M2,
				  static_cast<const uint8_t *>(data)[i]);
	return static_cast<const float *>(data)[i];
}

static void store(int type, void *data, size_t i, float v, float scale)
{
	if (type == LT_R_16BF)
		static_cast<uint16_t *>(data)[i] = bf16_from_f32(v);
	else if (is_fp8(type))
		static_cast<uint8_t *>(data)[i] =
			fp8_from_f32(type == LT_R_8F_E4M3 ? FP8_E4M3 : FP8_E5M2, v * scale);
	else
		static_cast<float *>(data)[i] = v;
}

/* "Scaling factors layouts" and "1D Block Scaling Factors Layout": of element l along K of row i of
 * M (or column i of N). */
static double scale_at(int mode, const void *scales, size_t i, size_t l, size_t rows, size_t k)
{
	const float *floats = static_cast<const float *>(scales);
	size_t k4 = ((k + 127) / 128 + 3) / 4 * 4,
	       blocks = ((k + 31) / 32 + 3) / 4 * 4; /* in a row, to 4 */
	size_t inner = l / 32, outer = i % 128, tile = (inner / 4 * 4 + i / 128 * blocks) * 128;

	switch (mode) {
	case LT_SCALE_VEC128_32F:
		return floats[i + l / 128 * rows];
	case LT_SCALE_BLK128x128_32F:
		return floats[l / 128 + i / 128 * k4];
	case LT_SCALE_VEC32_UE8M0:
		return ldexp(1,
			     static_cast<const uint8_t *>(
				     scales)[tile + outer % 32 * 16 + outer / 32 * 4 + inner % 4] -
				     127);
	default:
		return floats ? floats[0] : 1;
	}
}

/* --- what is refused --- */

struct problem {
	const struct desc *desc;
	const struct layout *a, *b, *c, *d;
	size_t m, n, k;
};

static bool shapes_agree(struct problem *p)
{
	const struct desc *desc = p->desc;
	size_t b_k = desc->transposed[1] ? p->b->cols : p->b->rows;

	p->m = desc->transposed[0] ? p->a->cols : p->a->rows;
	p->k = desc->transposed[0] ? p->a->rows : p->a->cols;
	p->n = desc->transposed[1] ? p->b->rows : p->b->cols;
	for (const struct layout *l : { p->a, p->b, p->c, p->d }) {
		if (l->rows == 0 || l->cols == 0 || l->stride < (int64_t)l->rows)
			return false;
	}
	return b_k == p->k && p->d->rows == p->m && p->d->cols == p->n && p->c->rows == p->m &&
	       p->c->cols == p->n;
}

static bool types_known(const struct problem *p)
{
	int a = p->a->type, b = p->b->type, d = p->d->type;
	bool e5m2 = a == LT_R_8F_E5M2 || b == LT_R_8F_E5M2;

	if (!is_fp8(d) && p->c->type != d)
		return false;
	if (is_fp8(d) && p->c->type != LT_R_16BF)
		return false;
	if (a == LT_R_16BF || b == LT_R_16BF || a == LT_R_32F || b == LT_R_32F)
		return a == b && !is_fp8(d) && (d == a || d == LT_R_32F);
	if (a == LT_R_8F_E5M2 && b == LT_R_8F_E5M2)
		return false;
	return d != LT_R_8F_E5M2 || e5m2;
}

static bool modes_known(const struct problem *p)
{
	const int *modes = p->desc->modes;
	bool block = modes[0] == LT_SCALE_VEC128_32F || modes[0] == LT_SCALE_BLK128x128_32F;
	bool other = modes[1] == LT_SCALE_VEC128_32F || modes[1] == LT_SCALE_BLK128x128_32F;

	if (modes[0] == LT_SCALE_SCALAR && modes[1] == LT_SCALE_SCALAR)
		return simt_capability >= 89;
	if (p->desc->fast ||
	    is_fp8(p->d->type)) /* codes of MX blocks would need a place for their scales */
		return false;
	if (modes[0] == LT_SCALE_VEC32_UE8M0 && modes[1] == LT_SCALE_VEC32_UE8M0)
		return simt_capability >= 100 && simt_capability < 120;
	return block && other && simt_capability == 90 && p->m % 4 == 0 && p->n % 4 == 0 &&
	       !(modes[0] == LT_SCALE_BLK128x128_32F && modes[1] == LT_SCALE_BLK128x128_32F);
}

static bool aligned_16(const struct problem *p, const uint32_t alignments[4])
{
	const struct layout *layouts[] = { p->a, p->b, p->c, p->d };

	for (int i = 0; i < 4; i++) {
		if (layouts[i]->rows * type_size(layouts[i]->type) % 16 ||
		    layouts[i]->stride * type_size(layouts[i]->type) % 16 || alignments[i] < 16)
			return false;
	}
	return true;
}

static int judge(struct problem *p, const uint32_t alignments[4])
{
	const struct desc *desc = p->desc;
	bool tn = desc->transposed[0] && !desc->transposed[1];
	bool scaled = desc->scales[0] || desc->scales[1] || desc->modes[0] || desc->modes[1];

	if (!shapes_agree(p) || !types_known(p))
		return BAD_VALUE;
	if (!is_fp8(p->a->type))
		return scaled || desc->d_scale || desc->amax || desc->fast ? BAD_VALUE : SUCCESS;
	if (!is_fp8(p->d->type) && (desc->d_scale || desc->amax))
		return BAD_VALUE;
	for (int i = 0; i < 2; i++) {
		if (desc->modes[i] &&
		    (!desc->scales[i] || reinterpret_cast<uintptr_t>(desc->scales[i]) % 16))
			return BAD_VALUE;
	}
	if (!modes_known(p) || (!tn && (simt_capability < 100 || simt_capability >= 120)) ||
	    !aligned_16(p, alignments))
		return UNSUPPORTED;
	return SUCCESS;
}

static uint64_t problem_hash(const struct problem *p, bool any_cols)
{
	const struct layout *layouts[] = { p->a, p->b, p->c, p->d };
	uint64_t hash = 14695981039346656037u;
	auto mix = [&hash](uint64_t v) { hash = (hash ^ v) * 1099511628211u; };

	for (const struct layout *l : layouts) {
		mix((uint64_t)l->type);
		mix(l->rows);
		mix(any_cols && l != p->a ? 0 : l->cols);
		mix((uint64_t)l->stride);
	}
	for (int i = 0; i < 2; i++) {
		mix((uint64_t)p->desc->modes[i]);
		mix((uint64_t)p->desc->transposed[i]);
	}
	mix(p->desc->amax != NULL);
	mix(p->desc->d_scale != NULL);
	mix((uint64_t)p->desc->fast);
	return hash;
}

/* --- the product --- */

static double element(const struct problem *p, const void *a, const void *b, size_t i, size_t j)
{
	const struct desc *d = p->desc;
	double sum = 0;

	for (size_t l = 0; l < p->k; l++) {
		size_t at_a = d->transposed[0] ? l + i * p->a->stride : i + l * p->a->stride;
		size_t at_b = d->transposed[1] ? j + l * p->b->stride : l + j * p->b->stride;

		sum += load(p->a->type, a, at_a) *
		       scale_at(d->modes[0], d->scales[0], i, l, p->m, p->k) *
		       load(p->b->type, b, at_b) *
		       scale_at(d->modes[1], d->scales[1], j, l, p->n, p->k);
	}
	return sum;
}

static void multiply(const struct problem *p, const float *scalars, const void *a, const void *b,
		     const void *c, void *d)
{
	float scale = p->desc->d_scale ? *static_cast<const float *>(p->desc->d_scale) : 1,
	      amax = 0;

	for (size_t j = 0; j < p->n; j++) {
		for (size_t i = 0; i < p->m; i++) {
			double v = scalars[0] * element(p, a, b, i, j);

			if (scalars[1] != 0)
				v += scalars[1] * load(p->c->type, c, i + j * p->c->stride);
			amax = fmaxf(amax, fabsf((float)v));
			store(p->d->type, d, i + j * p->d->stride, (float)v, scale);
		}
	}
	if (p->desc->amax)
		*static_cast<float *>(p->desc->amax) = amax;
}

static bool lies(const void *data, uint32_t alignment)
{
	simt_counts_use(data);
	return reinterpret_cast<uintptr_t>(data) % alignment == 0;
}

/* --- the functions --- */

#define API extern "C" __attribute__((visibility("default")))

API size_t cublasLtGetVersion(void)
{
	return (size_t)simt_lt_version;
}

API const char *cublasLtGetStatusString(int status)
{
	return status == BAD_VALUE ? "an unsupported value or parameter was passed to the function"
	       : status == UNSUPPORTED ? "the functionality requested is not supported"
				       : "the GPU program failed to execute";
}

API int cublasLtCreate(void **handle)
{
	static char one;

	if (fails("Create"))
		return FAILED;
	*handle = &one;
	return SUCCESS;
}

API int cublasLtMatmulDescCreate(void **desc, int compute_type, int scale_type)
{
	if (compute_type != LT_COMPUTE_32F || scale_type != LT_R_32F)
		return BAD_VALUE;
	return object_new("MatmulDescCreate", desc, (struct desc){});
}

/* Where an attribute is kept, and its size. */
static void *attribute_of(struct desc *desc, int attribute, size_t *size)
{
	*size = sizeof(int32_t);
	if ((attribute == LT_DESC_A_SCALE_MODE || attribute == LT_DESC_B_SCALE_MODE) &&
	    simt_lt_version >= 120800)
		return &desc->modes[attribute - LT_DESC_A_SCALE_MODE];
	if (attribute == LT_DESC_TRANSA || attribute == LT_DESC_TRANSB)
		return &desc->transposed[attribute - LT_DESC_TRANSA];
	*size = sizeof desc->fast;
	if (attribute == LT_DESC_FAST_ACCUM)
		return &desc->fast;
	*size = sizeof(void *);
	if (attribute == LT_DESC_A_SCALE_POINTER || attribute == LT_DESC_B_SCALE_POINTER)
		return &desc->scales[attribute - LT_DESC_A_SCALE_POINTER];
	if (attribute == LT_DESC_D_SCALE_POINTER)
		return &desc->d_scale;
	return attribute == LT_DESC_AMAX_D_POINTER ? &desc->amax : NULL;
}

API int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t size)
{
	size_t wanted;
	void *place = attribute_of(static_cast<struct desc *>(desc), attribute, &wanted);
	int32_t mode;

	if (fails("MatmulDescSetAttribute"))
		return FAILED;
	if (!place || size != wanted)
		return BAD_VALUE;
	if (attribute == LT_DESC_A_SCALE_MODE || attribute == LT_DESC_B_SCALE_MODE) {
		memcpy(&mode, value, sizeof mode);
		if (mode > LT_SCALE_VEC32_UE8M0 && simt_lt_version < 120900)
			return BAD_VALUE;
	}
	memcpy(place, value, size);
	return SUCCESS;
}

API int cublasLtMatmulDescDestroy(void *desc)
{
	return object_destroy(desc);
}

API int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t cols,
				   int64_t stride)
{
	return object_new("MatrixLayoutCreate", layout,
			  (struct layout){ type, rows, cols, stride });
}

API int cublasLtMatrixLayoutDestroy(void *layout)
{
	return object_destroy(layout);
}

API int cublasLtMatmulPreferenceCreate(void **preference)
{
	return object_new(
		"MatmulPreferenceCreate", preference,
		(struct preference){
			0, ~0u, { DEFAULT_ALIGN, DEFAULT_ALIGN, DEFAULT_ALIGN, DEFAULT_ALIGN } });
}

API int cublasLtMatmulPreferenceSetAttribute(void *object, int attribute, const void *value,
					     size_t size)
{
	struct preference *preference = static_cast<struct preference *>(object);

	if (fails("MatmulPreferenceSetAttribute"))
		return FAILED;
	if (attribute == LT_PREF_MAX_WORKSPACE && size == sizeof preference->workspace)
		memcpy(&preference->workspace, value, size);
	else if (attribute == LT_PREF_REDUCTIONS && size == sizeof preference->reductions)
		memcpy(&preference->reductions, value, size);
	else if (attribute >= LT_PREF_MIN_ALIGNMENT_A && attribute <= LT_PREF_MIN_ALIGNMENT_D &&
		 size == sizeof(uint32_t))
		memcpy(&preference->alignments[attribute - LT_PREF_MIN_ALIGNMENT_A], value, size);
	else
		return BAD_VALUE;
	return SUCCESS;
}

API int cublasLtMatmulPreferenceDestroy(void *preference)
{
	return object_destroy(preference);
}

static struct problem problem_of(void *desc, void *a, void *b, void *c, void *d)
{
	return { static_cast<struct desc *>(desc),
		 static_cast<struct layout *>(a),
		 static_cast<struct layout *>(b),
		 static_cast<struct layout *>(c),
		 static_cast<struct layout *>(d),
		 0,
		 0,
		 0 };
}

/* The workspace grows with the product, as split sums do, up to what is allowed. */
API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
				       void *preference, int n_wanted, struct lt_heuristic *results,
				       int *n_results)
{
	const struct preference *prefers = static_cast<struct preference *>(preference);
	struct problem p = problem_of(desc, a, b, c, d);
	struct algo algo;
	int status;

	__atomic_add_fetch(&simt_lt_asked, 1, __ATOMIC_RELAXED);
	usleep(2000); /* it takes its time, in which another thread may come */
	*n_results = 0;
	if (fails("MatmulAlgoGetHeuristic"))
		return FAILED;
	if (!handle || n_wanted < 1)
		return NOT_READY;
	status = judge(&p, prefers->alignments);
	if (status)
		return status;
	algo.any_cols = prefers->reductions == 0;
	algo.problem = problem_hash(&p, algo.any_cols);
	memcpy(algo.alignments, prefers->alignments, sizeof algo.alignments);
	algo.workspace_size = WORKSPACE * p.m;
	if (algo.workspace_size > prefers->workspace)
		algo.workspace_size = prefers->workspace;
	*n_results = 1;
	*results = {};
	memcpy(&results->algo, &algo, sizeof algo);
	results->workspace_size = algo.workspace_size;
	return SUCCESS;
}

API int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
		       const void *b, void *b_layout, const void *beta, const void *c,
		       void *c_layout, void *d, void *d_layout, const struct lt_algo *chosen,
		       void *workspace, size_t workspace_size, void *stream)
{
	struct problem p = problem_of(desc, a_layout, b_layout, c_layout, d_layout);
	const float scalars[] = { *static_cast<const float *>(alpha),
				  *static_cast<const float *>(beta) };
	struct algo algo;
	int status;

	(void)stream;
	if (fails("Matmul"))
		return FAILED;
	memcpy(&algo, chosen, sizeof algo);
	status = judge(&p, algo.alignments);
	if (!handle || status)
		return handle ? status : NOT_READY;
	if (algo.problem != problem_hash(&p, algo.any_cols) ||
	    workspace_size < algo.workspace_size || !lies(workspace, 256) ||
	    (!c && (scalars[1] != 0 || !is_fp8(p.d->type))) || !lies(a, algo.alignments[0]) ||
	    !lies(b, algo.alignments[1]) || !lies(c, algo.alignments[2]) ||
	    !lies(d, algo.alignments[3]))
		return BAD_VALUE;
	memset(workspace, 0x5A, workspace_size);
	multiply(&p, scalars, a, b, c, d);
	__atomic_add_fetch(&simt_lt_products, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}
