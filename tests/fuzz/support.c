/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/fuzz/fuzz.h"

_Noreturn void fuzz_fail(const char *file, int line, const char *condition)
{
	fprintf(stderr, "%s:%d: %s does not hold\n", file, line, condition);
	abort();
}

void fuzz_check_error(const struct err *err)
{
	size_t n = strnlen(err->message, sizeof err->message);

	FUZZ_CHECK(err->kind == ERR_INPUT || err->kind == ERR_USAGE);
	FUZZ_CHECK(n > 0 && n < sizeof err->message);
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK((unsigned char)err->message[i] >= 0x20 && err->message[i] != 0x7f);
}

struct json_text fuzz_part(const uint8_t **data, size_t *size)
{
	const uint8_t *nul = *size ? memchr(*data, 0, *size) : NULL;
	struct json_text part = { (const char *)*data, nul ? (size_t)(nul - *data) : *size };
	size_t used = part.len + (nul != NULL);

	*data += used;
	*size -= used;
	return part;
}

static int no_fsync(const struct io *io, int fd)
{
	(void)io;
	(void)fd;
	return 0;
}

const struct io *fuzz_io(void)
{
	static struct io io;

	io = io_system;
	io.fsync = no_fsync;
	return &io;
}

static char folder[PATH_MAX];
static pid_t owner;

static int remove_inner(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	return at->level ? remove(path) : 0;
}

static void remove_folder(void)
{
	if (getpid() != owner)
		return;
	nftw(folder, remove_inner, 16, FTW_DEPTH | FTW_PHYS);
	rmdir(folder);
}

/* $TMPDIR, or memory, or /tmp. */
static const char *scratch_parent(void)
{
	const char *parent = getenv("TMPDIR");

	if (parent && *parent)
		return parent;
	return access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm";
}

const char *fuzz_folder(void)
{
	if (!folder[0]) {
		snprintf(folder, sizeof folder, "%s/fp8conv-fuzz-XXXXXX", scratch_parent());
		FUZZ_CHECK(mkdtemp(folder));
		owner = getpid();
		atexit(remove_folder);
	}
	nftw(folder, remove_inner, 16, FTW_DEPTH | FTW_PHYS);
	return folder;
}
