/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a regular file, read from its beginning to its end.
 */
#ifndef FP8CONV_CKPT_CHECKSUM_H
#define FP8CONV_CKPT_CHECKSUM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io.h"

#define SHA256_HEX 65 /* digits and a NUL */

/* Both read the file at path below dirfd; a signal number in *stop (unless NULL) ends that:
 * ERR_INTERRUPTED.  A file that changes meanwhile, or is no regular one: ERR_INPUT. */

/* CRC-32, zlib's. */
int checksum_crc32(const struct io *io, int dirfd, const char *path, const atomic_int *stop,
		   uint32_t *crc, struct err *err);

/* SHA-256 as hexadecimal digits in small letters, and the bytes that it is of. */
int checksum_sha256(const struct io *io, int dirfd, const char *path, const atomic_int *stop,
		    char hex[SHA256_HEX], uint64_t *size, struct err *err);

#endif
