/* SPDX-License-Identifier: Apache-2.0
 *
 * The self-test of a device.  It may be another one than the tests ran on: before it is taken
 * unasked, it does a little work whose result is known.
 */
#ifndef FP8CONV_BACKEND_SELF_TEST_H
#define FP8CONV_BACKEND_SELF_TEST_H

#include "backend/backend.h"

/* Casts of every type and kind of tile, there and back, and their counts: 0 where they are the
 * reference's to the bit, else ERR_SYSTEM with which are not, or with what failed.  Norms,
 * activations, updates of histories and errors of codes are not tested. */
int self_test_codes(const struct backend *backend, const struct backend *reference,
		    struct err *err);

/* A product in bf16: 0 where it is within the rounding of fp32 sums, else ERR_SYSTEM with what it
 * is, or with what failed.  What lies between products is not tested. */
int self_test_product(const struct executor_ops *ops, struct err *err);

#endif
