/* SPDX-License-Identifier: Apache-2.0
 *
 * The scales of KV caches: their names, shapes and values, and whether none is missing.
 */
#ifndef FP8CONV_VERIFY_CACHES_H
#define FP8CONV_VERIFY_CACHES_H

#include "verify/steps.h"

/* Checks names, shapes and values of the scales of KV caches, and whether one is missing.
 * ERR_INPUT where a file is truncated or changed. */
int verify_caches(struct verify *verify, struct err *err);

#endif
