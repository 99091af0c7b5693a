/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of a device, which may be another model than the tests ran on.  `auto` takes a
 * device only if it does a little work with a known result.
 */
#ifndef FP8CONV_BACKEND_SELF_TEST_H
#define FP8CONV_BACKEND_SELF_TEST_H

#include "backend/backend.h"

/* Quantizes and dequantizes every type with every kind of tile.  Returns 0 where codes, scales and
 * counts equal the reference's to the bit, else ERR_SYSTEM with the first difference or failure.
 * Norms, activations, updates of histories and error() are not tested. */
int self_test_codes(const struct backend *backend, const struct backend *reference,
		    struct err *err);

/* Computes a product in bf16.  Returns 0 where it is within the rounding of fp32 sums, else
 * ERR_SYSTEM with the difference or failure.  The operations between products are not tested. */
int self_test_product(const struct executor_ops *ops, int device, struct err *err);

#endif
