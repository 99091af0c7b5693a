/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test may say of the cuBLASLt that tests/simt/cublaslt.cc is, and ask of it.
 */
#ifndef FP8CONV_TESTS_SIMT_CUBLASLT_H
#define FP8CONV_TESTS_SIMT_CUBLASLT_H

#include "tests/simt/counts.h" /* of the memory that products use */

extern int simt_lt_version;	  /* 120900 for 12.9.0 */
extern const char *simt_lt_fails; /* the call ("Matmul") that fails with status 13; NULL: none */
extern int simt_lt_fails_after;	  /* so many of them that go well before */
extern long simt_lt_asked;	  /* calls of MatmulAlgoGetHeuristic */
extern long simt_lt_products;	  /* calls of Matmul that went well */
extern long simt_lt_made;	  /* descriptors, layouts and preferences */
extern long simt_lt_objects;	  /* those that were not destroyed */
/* Those that may stay: a descriptor and three layouts of each product that was asked about, whose
 * description has no address and one number of rows. */
extern long simt_lt_kept;

#endif
