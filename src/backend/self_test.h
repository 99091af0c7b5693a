/* SPDX-License-Identifier: Apache-2.0
 *
 * What is not the CPU may be another than those that the tests ran on: before it is taken unasked,
 * it is tried on a little work whose result is known.
 */
#ifndef FP8CONV_BACKEND_SELF_TEST_H
#define FP8CONV_BACKEND_SELF_TEST_H

#include "backend/backend.h"

/* Casts of every type and kind of tile, there and back, and their counts: 0 where they are the
 * reference's to the bit, else ERR_SYSTEM with which are not, or with what failed.  Not tried:
 * norms, activations, updates of histories, errors of codes. */
int backend_trial(const struct backend *backend, const struct backend *reference, struct err *err);

/* A product in bf16: 0 where it is within the rounding of fp32 sums, else ERR_SYSTEM with what it
 * is, or with what failed.  All that lies between products is not tried. */
int executor_trial(const struct executor_ops *ops, struct err *err);

#endif
