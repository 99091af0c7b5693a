/* SPDX-License-Identifier: Apache-2.0
 *
 * Checksums of the contents of a regular file.
 */
#ifndef FP8CONV_CKPT_CHECKSUM_H
#define FP8CONV_CKPT_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"

#define SHA256_HEX 65 /* digits and a NUL */

/* Returns the CRC-32, zlib's, of what crc is that of, 0 for nothing, followed by n bytes. */
uint32_t checksum_crc32_add(uint32_t crc, const void *data, size_t n);

/* Both read the file at path below dirfd, and add its bytes to progress->done.  ERR_INTERRUPTED
 * after a signal in progress->stop; ERR_INPUT where the file changes meanwhile, or is not a regular
 * file. */

/* CRC-32, zlib's. */
int checksum_crc32(const struct io *io, int dirfd, const char *path, struct progress *progress,
		   uint32_t *crc, struct err *err);

struct sha256 {
	char hex[SHA256_HEX]; /* in lower case */
	struct file_identity identity;
};

int checksum_sha256(const struct io *io, int dirfd, const char *path, struct progress *progress,
		    struct sha256 *sha256, struct err *err);

#endif
