/* SPDX-License-Identifier: Apache-2.0 */
/* SHA256_Init() and its kin take no memory; libcrypto 3.0 ends the program where its own contexts
 * find none. */
#define OPENSSL_API_COMPAT 0x10100000L

#include "ckpt/checksum.h"

#include <fcntl.h>
#include <isa-l/crc.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/mem.h"

#define CHUNK (1 << 20) /* bytes */

/* The consumer of the bytes. */
struct sink {
	void (*update)(void *context, const void *data, size_t n);
	void *context;
};

static int read_chunks(const struct file *file, const struct sink *sink, struct progress *progress,
		       struct err *err)
{
	void *chunk = xmalloc(CHUNK);
	size_t got = CHUNK;
	int rc = 0;

	while (!rc && got == CHUNK) {
		rc = progress_stopped(progress->stop, err);
		if (!rc)
			rc = io_read_full(file, chunk, CHUNK, &got, err);
		if (rc)
			break;
		sink->update(sink->context, chunk, got);
		atomic_fetch_add(&progress->done, got);
	}
	free(chunk);
	return rc;
}

/* Reads past the page cache, which is for files that are read twice. */
static int read_all(const struct file *file, const struct file_identity *identity,
		    const struct sink *sink, struct progress *progress, struct err *err)
{
	int rc;

	file->io->fadvise(file->io, file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	rc = read_chunks(file, sink, progress, err);
	if (!rc)
		rc = io_check_unchanged(file, identity, err);
	file->io->fadvise(file->io, file->fd, 0, 0, POSIX_FADV_DONTNEED);
	return rc;
}

/* ISA-L returns with the upper halves of vector registers in use.  Code for SSE, which is all code
 * of this program but its kernels, takes four times as long then. */
uint32_t checksum_crc32_add(uint32_t crc, const void *data, size_t n)
{
	crc = crc32_gzip_refl(crc, data, n);
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		__asm__ volatile("vzeroupper");
#endif
	return crc;
}

static void crc_update(void *context, const void *data, size_t n)
{
	uint32_t *crc = context;

	*crc = checksum_crc32_add(*crc, data, n);
}

int checksum_crc32(const struct io *io, int dirfd, const char *path, struct progress *progress,
		   uint32_t *crc, struct err *err)
{
	struct file file = { .io = io, .name = path };
	struct sink sink = { crc_update, crc };
	struct file_identity identity;
	int rc;

	*crc = 0;
	if (io_open_regular(io, dirfd, path, &file.fd, &identity, err))
		return -1;
	rc = read_all(&file, &identity, &sink, progress, err);
	io->close(io, file.fd);
	return rc;
}

static void sha_update(void *context, const void *data, size_t n)
{
	SHA256_Update(context, data, n);
}

static int sha256_read(const struct file *file, const struct file_identity *identity,
		       struct progress *progress, struct sha256 *sha256, struct err *err)
{
	SHA256_CTX context;
	struct sink sink = { sha_update, &context };
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256_Init(&context);
	if (read_all(file, identity, &sink, progress, err))
		return -1;
	SHA256_Final(digest, &context);
	text_hex(sha256->hex, digest, sizeof digest);
	sha256->identity = *identity;
	return 0;
}

int checksum_sha256(const struct io *io, int dirfd, const char *path, struct progress *progress,
		    struct sha256 *sha256, struct err *err)
{
	struct file file = { .io = io, .name = path };
	struct file_identity identity;
	int rc;

	if (io_open_regular(io, dirfd, path, &file.fd, &identity, err))
		return -1;
	rc = sha256_read(&file, &identity, progress, sha256, err);
	io->close(io, file.fd);
	return rc;
}
