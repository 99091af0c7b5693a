/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test may say and ask of the CUDA runtime that tests/simt/runtime.cc is.
 */
#ifndef FP8CONV_TESTS_SIMT_RUNTIME_H
#define FP8CONV_TESTS_SIMT_RUNTIME_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

extern long simt_runtime_left;	   /* calls that go well, then all fail; -1: no end */
extern size_t simt_runtime_copies; /* so far */
extern size_t simt_runtime_idle;   /* waits so far for a copy after which no other one was queued */

/* All copies that are queued are done now. */
void simt_runtime_finish(void);

#ifdef __cplusplus
}
#endif

#endif
