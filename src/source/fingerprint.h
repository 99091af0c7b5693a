/* SPDX-License-Identifier: Apache-2.0
 *
 * The fingerprint of a checkpoint: equal for equal weights, however they are distributed over
 * files, and cheap for 700 GB, of which it reads at most 16 MiB.
 *
 * It is the first half of the SHA-256 of this text, over all tensors by name, bytewise: name, NUL,
 * type as in the header, NUL, the number of dimensions and each dimension as 8 bytes,
 * little-endian.  For 4096 of the tensors, or for all if there are fewer, the middle 4096 bytes
 * follow: (size - 4096) / 2 bytes, rounded down, precede them; a smaller tensor follows whole.  Of
 * n > 4096 tensors, tensor i is sampled if i * 4096 / n, rounded down, differs from that of i - 1.
 */
#ifndef FP8CONV_SOURCE_FINGERPRINT_H
#define FP8CONV_SOURCE_FINGERPRINT_H

#include "source/source.h"

#define FINGERPRINT_SIZE 33 /* 32 hexadecimal digits and NUL */

/* Computes the fingerprint of source's checkpoint. */
int fingerprint_make(struct source *source, char text[FINGERPRINT_SIZE], struct err *err);

#endif
