/* SPDX-License-Identifier: Apache-2.0
 *
 * Which model a checkpoint is: the same for the same weights however they are spread over files,
 * and cheap for 700 GB, of which it reads 16 MiB at most.
 *
 * It is the first half of the SHA-256 of this text, over all tensors by name, bytewise: name, NUL,
 * type as in the header, NUL, the number of dimensions and each of them as 8 bytes, little-endian;
 * and of 4096 tensors, or of all where there are fewer, the middle 4096 bytes (all, where there are
 * fewer; (size - 4096) / 2, rounded down, lie before them). Of n > 4096 tensors, tensor i is
 * sampled if i * 4096 / n, rounded down, is another number than for i - 1.
 */
#ifndef FP8CONV_SOURCE_FINGERPRINT_H
#define FP8CONV_SOURCE_FINGERPRINT_H

#include "source/source.h"

#define FINGERPRINT_SIZE 33 /* 32 hexadecimal digits and NUL */

/* The fingerprint of source's checkpoint. */
int fingerprint_make(struct source *source, char text[FINGERPRINT_SIZE], struct err *err);

#endif
