/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FP8CONV_CKPT_SHA256_H
#define FP8CONV_CKPT_SHA256_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io.h"

#define SHA256_HEX 65 /* digits and a NUL */

/* The SHA-256 of the regular file at path below dirfd, as hexadecimal digits in small letters, and
 * its size in bytes. ERR_INPUT if it changed meanwhile; ERR_INTERRUPTED where *stop (unless NULL)
 * becomes a signal number. */
int file_sha256(const struct io *io, int dirfd, const char *path, char hex[SHA256_HEX],
		uint64_t *size, const atomic_int *stop, struct err *err);

#endif
