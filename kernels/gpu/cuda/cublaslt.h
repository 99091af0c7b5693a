/* SPDX-License-Identifier: Apache-2.0
 *
 * cuBLASLt, found at run time, so that one binary runs with and without it.  Declares its functions
 * by their names, and the types and values used here under names of this program: no header of CUDA
 * is needed (cuda/cublaslt_check.cu compares them with <cublasLt.h> where that exists).  Source:
 * NVIDIA, "cuBLAS", Using the cuBLASLt API.
 */
#ifndef FP8CONV_KERNELS_GPU_CUDA_CUBLASLT_H
#define FP8CONV_KERNELS_GPU_CUDA_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cublasStatus_t, as far as it is used. */
enum { LT_SUCCESS = 0 };

/* cudaDataType_t. */
enum lt_type { LT_R_32F = 0, LT_R_16BF = 14, LT_R_8F_E4M3 = 28, LT_R_8F_E5M2 = 29 };

/* cublasComputeType_t and cublasOperation_t. */
enum { LT_COMPUTE_32F = 68 };
enum { LT_OP_N = 0, LT_OP_T = 1 };

/* cublasLtMatmulDescAttributes_t; the type of each. */
enum lt_desc {
	LT_DESC_TRANSA = 3, /* int32_t, cublasOperation_t */
	LT_DESC_TRANSB = 4, /* int32_t */
	LT_DESC_A_SCALE_POINTER =
		17, /* const void *: a NULL stands for 1 where the mode is LT_SCALE_SCALAR */
	LT_DESC_B_SCALE_POINTER = 18,
	LT_DESC_D_SCALE_POINTER = 20,
	LT_DESC_AMAX_D_POINTER = 21, /* void * */
	LT_DESC_FAST_ACCUM = 25,     /* int8_t */
	LT_DESC_A_SCALE_MODE = 31,   /* int32_t, enum lt_scale; since 12.8 */
	LT_DESC_B_SCALE_MODE = 32,
};

/* cublasLtMatmulMatrixScale_t. */
enum lt_scale {
	LT_SCALE_SCALAR = 0,
	LT_SCALE_VEC32_UE8M0 = 2, /* since 12.8 */
	LT_SCALE_VEC128_32F = 4,  /* since 12.9, with the next */
	LT_SCALE_BLK128x128_32F = 5,
};

/* cublasLtMatmulPreferenceAttributes_t. */
enum lt_preference {
	LT_PREF_MAX_WORKSPACE = 1, /* uint64_t, bytes */
	LT_PREF_REDUCTIONS = 3,	   /* uint32_t, of cublasLtReductionScheme_t; 0: none */
	/* uint32_t, bytes: alignment of the address, 256 if not set */
	LT_PREF_MIN_ALIGNMENT_A = 5,
	LT_PREF_MIN_ALIGNMENT_B = 6,
	LT_PREF_MIN_ALIGNMENT_C = 7,
	LT_PREF_MIN_ALIGNMENT_D = 8,
};

/* cublasLtMatmulAlgo_t. */
struct lt_algo {
	uint64_t data[8];
};

/* cublasLtMatmulHeuristicResult_t. */
struct lt_heuristic {
	struct lt_algo algo;
	size_t workspace_size; /* bytes */
	int state;	       /* of cublasStatus_t */
	float waves;
	int reserved[4];
};

/* Result, name without "cublasLt", arguments.  Objects are pointers to structs of the library;
 * alpha and beta are in the memory of the host. */
#define LT_FUNCTIONS(X)                                                                    \
	X(size_t, GetVersion, (void)) /* 120900 for 12.9.0 */                              \
	X(const char *, GetStatusString, (int status))                                     \
	X(int, Create, (void **handle))                                                    \
	X(int, MatmulDescCreate, (void **desc, int compute_type, int scale_type))          \
	X(int, MatmulDescSetAttribute,                                                     \
	  (void *desc, int attribute, const void *value, size_t size))                     \
	X(int, MatmulDescDestroy, (void *desc))                                            \
	X(int, MatrixLayoutCreate,                                                         \
	  (void **layout, int type, uint64_t rows, uint64_t cols, int64_t col_stride))     \
	X(int, MatrixLayoutDestroy, (void *layout))                                        \
	X(int, MatmulPreferenceCreate, (void **preference))                                \
	X(int, MatmulPreferenceSetAttribute,                                               \
	  (void *preference, int attribute, const void *value, size_t size))               \
	X(int, MatmulPreferenceDestroy, (void *preference))                                \
	X(int, MatmulAlgoGetHeuristic,                                                     \
	  (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, \
	   int n_wanted, struct lt_heuristic *results, int *n_results))                    \
	X(int, Matmul,                                                                     \
	  (void *handle, void *desc, const void *alpha, const void *a, void *a_layout,     \
	   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout, \
	   void *d, void *d_layout, const struct lt_algo *algo, void *workspace,           \
	   size_t workspace_size, void *stream))

struct cublaslt {
#define LT_FIELD(result, name, arguments) result(*name) arguments;
	LT_FUNCTIONS(LT_FIELD)
#undef LT_FIELD
};

/* Loads the first existing file of n (NULL: the program itself).  Returns 0, or ERR_SYSTEM with the
 * missing library. */
int cublaslt_load(struct cublaslt *lt, const char *const *files, size_t n, struct err *err);

/* Returns the library, loaded on the first call and never unloaded; any thread.  NULL: *why becomes
 * what is missing, a text that stays valid. */
const struct cublaslt *cublaslt(const char **why);

#ifdef __cplusplus
}
#endif

#endif
