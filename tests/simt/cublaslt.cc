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

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/simt/cublaslt_problem.h"

#define DEFAULT_ALIGN 256u
#define WORKSPACE     ((size_t)4096)

int simt_lt_version = 130000;
const char *simt_lt_fails;
int simt_lt_fails_after;
long simt_lt_asked, simt_lt_products, simt_lt_made, simt_lt_objects, simt_lt_kept;

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

static void add(long *count, long n)
{
	__atomic_add_fetch(count, n, __ATOMIC_RELAXED);
}

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
	add(&simt_lt_made, 1);
	add(&simt_lt_objects, 1);
	return SUCCESS;
}

static int object_destroy(void *object)
{
	if (!object)
		return BAD_VALUE;
	free(object);
	add(&simt_lt_objects, -1);
	return SUCCESS;
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

	add(&simt_lt_asked, 1);
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
	if (!algo.any_cols && !is_fp8(p.a->type))
		add(&simt_lt_kept, 4);
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
	add(&simt_lt_products, 1);
	return SUCCESS;
}
