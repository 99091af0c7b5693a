/* SPDX-License-Identifier: Apache-2.0
 *
 * The backends of this build.  The only file that knows what was built.
 */
#include "backend/backend.h"
#include "kernels/cpu/cpu.h"
#ifdef FP8CONV_CUDA
#include "kernels/gpu/backend.h"
#endif

const struct backend *const backends[] = {
	&backend_reference,
#ifdef __x86_64__
	&backend_avx2,
	&backend_avx512,
#endif
#ifdef FP8CONV_CUDA
	&backend_cuda,
#endif
	NULL,
};
