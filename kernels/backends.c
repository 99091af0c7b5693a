/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends of this build.  Only this file knows which ones were built.
 */
#include "backend/backend.h"
#include "backend/host_ops.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/forward/ops.h"
#ifdef FP8CONV_CUDA
#include "kernels/gpu/backend.h"
#endif

const struct backend *const backends[] = {
	&backend_reference,
#ifdef __x86_64__
	&backend_avx2,
	&backend_avx512,
#endif
#ifdef __aarch64__
	&backend_neon,
#endif
#ifdef FP8CONV_CUDA
	&backend_gpu,
#endif
	NULL,
};

const struct host_ops *const host_ops[] = {
#ifdef __x86_64__
	&cpu_ops_avx512,
	&cpu_ops_avx2,
#endif
	&cpu_ops_any,
	NULL,
};
