/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/sha256.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define HASH_CHUNK (1 << 20)

static int fd_sha256(const struct io *io, int fd, const char *name, char hex[SHA256_HEX],
		     const atomic_int *stop, struct err *err)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	void *chunk = xmalloc(HASH_CHUNK);
	unsigned char digest[32];
	size_t got = HASH_CHUNK;
	int rc = 0;

	if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
		rc = err_set(err, ERR_SYSTEM, "libcrypto has no SHA-256");
	while (!rc && got == HASH_CHUNK) {
		if (stop && atomic_load(stop))
			rc = err_set(err, ERR_INTERRUPTED, "interrupted by signal %d",
				     atomic_load(stop));
		else
			rc = io_read_full(io, fd, chunk, HASH_CHUNK, &got, name, err);
		if (!rc)
			EVP_DigestUpdate(context, chunk, got);
	}
	if (!rc)
		EVP_DigestFinal_ex(context, digest, NULL);
	for (size_t i = 0; !rc && i < sizeof digest; i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	free(chunk);
	EVP_MD_CTX_free(context);
	return rc;
}

int file_sha256(const struct io *io, int dirfd, const char *path, char hex[SHA256_HEX],
		uint64_t *size, const atomic_int *stop, struct err *err)
{
	struct file_identity identity;
	int fd;
	int rc;

	if (io_open_regular(io, dirfd, path, &fd, &identity, err))
		return -1;
	rc = fd_sha256(io, fd, path, hex, stop, err);
	if (!rc)
		rc = io_check_unchanged(fd, &identity, path, err);
	io->close(fd);
	*size = identity.size;
	return rc;
}
