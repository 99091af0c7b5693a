/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of the CUDA runtime that kernels/gpu/cuda/staging.cu needs to copy, for a CPU
 * (runtime.cc): as late as may be.
 */
#ifndef FP8CONV_TESTS_SIMT_CUDA_RUNTIME_H
#define FP8CONV_TESTS_SIMT_CUDA_RUNTIME_H

#include <stddef.h>

enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorUnknown = 999 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

#define cudaEventDisableTiming 2
#define cudaEventBlockingSync  0x01
#define cudaHostAllocDefault   0

typedef struct simt_stream *cudaStream_t;
typedef struct simt_event *cudaEvent_t;

cudaError_t cudaHostAlloc(void **memory, size_t size, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind,
			    cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_stride, const void *from, size_t from_stride,
			      size_t row_size, size_t n_rows, cudaMemcpyKind kind,
			      cudaStream_t stream);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t error);

#endif
