/* SPDX-License-Identifier: Apache-2.0
 *
 * Static scales of inputs: what each is by itself, and what the matrices of an expert have.  The
 * first and third matrix of an expert (gate and up) take the same input, and engines keep one scale
 * for both.
 */
#ifndef FP8CONV_VERIFY_INPUTS_H
#define FP8CONV_VERIFY_INPUTS_H

#include "verify/steps.h"

/* Reads the static input scales, judges each, and compares the first and third matrix's of each
 * expert.  ERR_INPUT where a file is truncated or changed. */
int verify_inputs(struct verify *verify, struct err *err);

#endif
