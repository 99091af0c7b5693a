/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares cublaslt.h with cuBLASLt's own header, if the toolkit has it.
 */
#include "kernels/gpu/cuda/cublaslt.h"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <cstddef>

#define SAME(ours, theirs) static_assert((int)(ours) == (int)(theirs), #ours)

SAME(LT_SUCCESS, CUBLAS_STATUS_SUCCESS);
SAME(LT_R_32F, CUDA_R_32F);
SAME(LT_R_16BF, CUDA_R_16BF);
SAME(LT_R_8F_E4M3, CUDA_R_8F_E4M3);
SAME(LT_R_8F_E5M2, CUDA_R_8F_E5M2);
SAME(LT_COMPUTE_32F, CUBLAS_COMPUTE_32F);
SAME(LT_OP_N, CUBLAS_OP_N);
SAME(LT_OP_T, CUBLAS_OP_T);
SAME(LT_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(LT_DESC_TRANSB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(LT_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
SAME(LT_DESC_B_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
SAME(LT_DESC_D_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER);
SAME(LT_DESC_AMAX_D_POINTER, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER);
SAME(LT_DESC_FAST_ACCUM, CUBLASLT_MATMUL_DESC_FAST_ACCUM);
#if CUBLAS_VERSION >= 120900
SAME(LT_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_A_SCALE_MODE);
SAME(LT_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE);
SAME(LT_SCALE_SCALAR, CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F);
SAME(LT_SCALE_VEC32_UE8M0, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0);
SAME(LT_SCALE_VEC128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F);
SAME(LT_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F);
#endif
SAME(LT_PREF_MAX_WORKSPACE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(LT_PREF_REDUCTIONS, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(0, CUBLASLT_REDUCTION_SCHEME_NONE);
SAME(LT_PREF_MIN_ALIGNMENT_A, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(LT_PREF_MIN_ALIGNMENT_B, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
SAME(LT_PREF_MIN_ALIGNMENT_C, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
SAME(LT_PREF_MIN_ALIGNMENT_D, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

static_assert(sizeof(struct lt_algo) == sizeof(cublasLtMatmulAlgo_t), "lt_algo");
static_assert(sizeof(struct lt_heuristic) == sizeof(cublasLtMatmulHeuristicResult_t),
	      "lt_heuristic");
static_assert(offsetof(struct lt_heuristic, workspace_size) ==
		      offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize),
	      "");
static_assert(offsetof(struct lt_heuristic, state) ==
		      offsetof(cublasLtMatmulHeuristicResult_t, state),
	      "");

/* Only compiled: calls each function with the declared types of its arguments. */
template <typename... Theirs> constexpr int arguments(cublasStatus_t (*)(Theirs...))
{
	return sizeof...(Theirs);
}
template <typename... Ours> constexpr int arguments(int (*)(Ours...))
{
	return sizeof...(Ours);
}
#define SAME_ARGUMENTS(name)                                          \
	static_assert(arguments(decltype(cublaslt::name){}) ==        \
			      arguments(decltype(&cublasLt##name){}), \
		      #name)
SAME_ARGUMENTS(Create);
SAME_ARGUMENTS(MatmulDescCreate);
SAME_ARGUMENTS(MatmulDescDestroy);
SAME_ARGUMENTS(MatrixLayoutCreate);
SAME_ARGUMENTS(MatrixLayoutDestroy);
SAME_ARGUMENTS(MatmulDescSetAttribute);
SAME_ARGUMENTS(MatmulPreferenceCreate);
SAME_ARGUMENTS(MatmulPreferenceDestroy);
SAME_ARGUMENTS(MatmulPreferenceSetAttribute);
SAME_ARGUMENTS(MatmulAlgoGetHeuristic);
SAME_ARGUMENTS(Matmul);
#endif
