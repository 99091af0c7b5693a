/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/checksum.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/progress.h"

#define CHUNK (1 << 20) /* bytes */

typedef void update_fn(void *context, const void *data, size_t n);

static int read_chunks(const struct io *io, int fd, const char *path, const atomic_int *stop,
		       update_fn *update, void *context, struct err *err)
{
	void *chunk = xmalloc(CHUNK);
	size_t got = CHUNK;
	int rc = 0;

	while (!rc && got == CHUNK) {
		rc = progress_stopped(stop, err);
		if (!rc)
			rc = io_read_full(io, fd, chunk, CHUNK, &got, path, err);
		if (!rc)
			update(context, chunk, got);
	}
	free(chunk);
	return rc;
}

/* The page cache is for files that are read twice. */
static int read_all(const struct io *io, int dirfd, const char *path, const atomic_int *stop,
		    update_fn *update, void *context, uint64_t *size, struct err *err)
{
	struct file_identity identity;
	int fd;
	int rc;

	if (io_open_regular(io, dirfd, path, &fd, &identity, err))
		return -1;
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	rc = read_chunks(io, fd, path, stop, update, context, err);
	if (!rc)
		rc = io_check_unchanged(fd, &identity, path, err);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	io->close(fd);
	*size = identity.size;
	return rc;
}

static void crc_update(void *context, const void *data, size_t n)
{
	uint32_t *crc = context;

	*crc = crc32_gzip_refl(*crc, data, n);
}

int checksum_crc32(const struct io *io, int dirfd, const char *path, const atomic_int *stop,
		   uint32_t *crc, struct err *err)
{
	uint64_t size;

	*crc = 0;
	return read_all(io, dirfd, path, stop, crc_update, crc, &size, err);
}

static void sha_update(void *context, const void *data, size_t n)
{
	EVP_DigestUpdate(context, data, n);
}

int checksum_sha256(const struct io *io, int dirfd, const char *path, const atomic_int *stop,
		    char hex[SHA256_HEX], uint64_t *size, struct err *err)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	unsigned char digest[32];
	int rc;

	if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
		rc = err_set(err, ERR_SYSTEM, "libcrypto has no SHA-256");
	else
		rc = read_all(io, dirfd, path, stop, sha_update, context, size, err);
	if (!rc)
		EVP_DigestFinal_ex(context, digest, NULL);
	for (size_t i = 0; !rc && i < sizeof digest; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	EVP_MD_CTX_free(context);
	return rc;
}
