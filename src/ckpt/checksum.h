/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a regular file, read from its beginning to its end.
 */
#ifndef FP8CONV_CKPT_CHECKSUM_H
#define FP8CONV_CKPT_CHECKSUM_H

#include <stdint.h>

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"

#define SHA256_HEX 65 /* digits and a NUL */

/* Both read the file at path below dirfd and count its bytes in progress->done; progress->stop ends
 * that: ERR_INTERRUPTED.  A file that changes meanwhile, or is not a regular one: ERR_INPUT. */

/* CRC-32, zlib's. */
int checksum_crc32(const struct io *io, int dirfd, const char *path, struct progress *progress,
		   uint32_t *crc, struct err *err);

struct sha256 {
	char hex[SHA256_HEX]; /* in small letters */
	uint64_t size;	      /* bytes that it is of */
};

int checksum_sha256(const struct io *io, int dirfd, const char *path, struct progress *progress,
		    struct sha256 *sha256, struct err *err);

#endif
