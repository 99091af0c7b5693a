/* SPDX-License-Identifier: Apache-2.0
 *
 * An I/O table that fails its N-th call, and that watches the order of those that succeed: what is
 * renamed must have been fsynced since its last byte, and the folders of all earlier renames too.
 * fsync itself does nothing, for speed.
 */
#ifndef FP8CONV_TESTS_FAULTY_IO_H
#define FP8CONV_TESTS_FAULTY_IO_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

/* Calls by what a failure of theirs means. */
enum op {
	OPEN,
	CREATE,
	CLOSE,
	CLOSE_WRITTEN,
	READ,
	PWRITE, /* the data of a shard */
	WRITE,	/* small files, streams */
	FALLOCATE,
	FTRUNCATE,
	FSYNC,
	FSYNC_FOLDER,
	RENAME,
	UNLINK,
	MKDIR,
	N_OPS
};

enum io_fault {
	FAULT_NONE,
	FAULT_EIO,
	FAULT_ENOSPC,
	FAULT_EINTR,
	FAULT_SHORT, /* half of what was asked for is moved */
	FAULT_FULL,  /* ENOSPC from this call on */
	FAULT_DEAD,  /* nothing is done from this call on, as after kill -9 */
	FAULT_STOP,  /* the call is done, and SIGTERM arrives */
	N_FAULTS
};

static const char *const op_names[N_OPS] = { "open",
					     "creating open",
					     "close",
					     "close of a written file",
					     "read",
					     "pwrite",
					     "write",
					     "fallocate",
					     "ftruncate",
					     "fsync",
					     "fsync of a folder",
					     "rename",
					     "unlink",
					     "mkdir" };

#define N_FDS	    1024
#define N_UNSYNCED  64
#define MKDIR_AGAIN 1 /* in place of flags: the folder is there */

static struct {
	pthread_mutex_t lock;
	enum io_fault fault;
	enum op only; /* calls of this kind are counted; N_OPS: of any */
	long at;      /* the call that fails, from 1; only calls that can fail so are counted */
	long n_calls;
	long n_undisturbed[N_OPS];
	bool hit;
	enum op op;	   /* of the call that failed */
	bool tolerated;	   /* the job may end well without it */
	char subject[256]; /* what the message must name */
	atomic_int stop;
	long n_reads_after;    /* that stop was set, where the job should end then */
	const char *committed; /* a file, or NULL: from when it is there, a job does not end */
	char names[N_FDS][256];
	int flags[N_FDS];
	/* files with bytes, "/INODE" of folders with names, that fsync has not seen */
	char unsynced[N_UNSYNCED][256];
	char disorder[512]; /* the first rename that came too early; empty: none */
} faulty = { .lock = PTHREAD_MUTEX_INITIALIZER };

static inline void faulty_arm(enum io_fault fault, enum op only, long at)
{
	faulty.fault = fault;
	faulty.only = only;
	faulty.at = at;
	faulty.n_calls = faulty.n_reads_after = 0;
	faulty.hit = faulty.tolerated = false;
	atomic_store(&faulty.stop, 0);
	faulty.subject[0] = faulty.disorder[0] = '\0';
	memset(faulty.unsynced, 0, sizeof faulty.unsynced);
	if (fault == FAULT_NONE)
		memset(faulty.n_undisturbed, 0, sizeof faulty.n_undisturbed);
}

/* --- durability --- */

static inline void unsynced_drop(const char *name)
{
	for (int i = 0; i < N_UNSYNCED; i++)
		if (!strcmp(faulty.unsynced[i], name))
			faulty.unsynced[i][0] = '\0';
}

static inline void unsynced_add(const char *name)
{
	unsynced_drop(name);
	for (int i = 0; i < N_UNSYNCED; i++) {
		if (!faulty.unsynced[i][0]) {
			snprintf(faulty.unsynced[i], sizeof faulty.unsynced[i], "%s", name);
			return;
		}
	}
}

static inline const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Of the folder that the path lies in. */
static inline void folder_key(int fd, const char *path, char key[32])
{
	int n = (int)(base_of(path) - path);
	char folder[256];
	struct stat st = { 0 };

	snprintf(folder, sizeof folder, "%.*s", n, path);
	fstatat(fd, folder, &st, AT_EMPTY_PATH); /* AT_FDCWD too */
	snprintf(key, 32, "/%llu", (unsigned long long)st.st_ino);
}

/* Everything that was written or named before must be on the disk when a name appears. */
static inline void check_order(const char *to)
{
	for (int i = 0; i < N_UNSYNCED && !faulty.disorder[0]; i++) {
		const char *name = faulty.unsynced[i];
		bool own = *name == '.' && !strncmp(name + 1, to, strlen(to)) &&
			   !strcmp(name + 1 + strlen(to), ".partial");

		if (*name == '/' || own)
			snprintf(faulty.disorder, sizeof faulty.disorder,
				 "'%s' gets its name before fsync of '%s'", to, name);
	}
}

/* --- failing --- */

static inline bool op_fails_so(enum op op, enum io_fault fault)
{
	bool space = op == PWRITE || op == WRITE || op == FALLOCATE || op == FTRUNCATE ||
		     op == CREATE || op == RENAME || op == MKDIR;
	bool sync = op == FSYNC || op == FSYNC_FOLDER || op == CLOSE_WRITTEN;

	switch (fault) {
	case FAULT_ENOSPC:
	case FAULT_FULL:
		return space || sync;
	case FAULT_EINTR:
		return sync || op == OPEN || op == CREATE || op == CLOSE || op == READ ||
		       op == PWRITE || op == WRITE || op == FALLOCATE;
	case FAULT_SHORT:
		return op == READ || op == PWRITE || op == WRITE;
	default:
		return true;
	}
}

/* What cleans up, is only tried, or closes what was only read. */
static inline bool is_tolerated(enum op op, const char *name, int flags)
{
	if (op == OPEN)
		return flags & O_DIRECT;
	if (op == MKDIR)
		return flags == MKDIR_AGAIN;
	return op == CLOSE || (op == UNLINK && (*name == '.' || flags & AT_REMOVEDIR));
}

/* 0: go on; 1: move half; -1: fail with errno. */
static inline int trouble(enum op op, const char *name, int flags)
{
	static const int numbers[N_FAULTS] = { [FAULT_EIO] = EIO,
					       [FAULT_ENOSPC] = ENOSPC,
					       [FAULT_EINTR] = EINTR,
					       [FAULT_FULL] = ENOSPC,
					       [FAULT_DEAD] = EIO };
	bool lasting = faulty.fault == FAULT_FULL || faulty.fault == FAULT_DEAD;
	bool counted = false;
	int rc = 0;

	if (faulty.fault != FAULT_NONE && !op_fails_so(op, faulty.fault))
		return 0;
	pthread_mutex_lock(&faulty.lock);
	if (op == READ && atomic_load(&faulty.stop))
		faulty.n_reads_after += !faulty.committed || access(faulty.committed, F_OK);
	if (faulty.fault == FAULT_NONE)
		faulty.n_undisturbed[op]++;
	else if (faulty.only == N_OPS || faulty.only == op)
		counted = ++faulty.n_calls == faulty.at;
	if (counted || (lasting && faulty.hit)) {
		bool tolerated = is_tolerated(op, name, flags);

		if (!faulty.hit || (faulty.tolerated && !tolerated)) {
			faulty.op = op;
			faulty.tolerated = tolerated;
			snprintf(faulty.subject, sizeof faulty.subject, "%s", base_of(name));
		}
		faulty.hit = true;
		rc = faulty.fault == FAULT_SHORT ? 1 : -1;
		if (faulty.fault == FAULT_STOP) {
			atomic_store(&faulty.stop, SIGTERM);
			rc = 0;
		}
	}
	pthread_mutex_unlock(&faulty.lock);
	errno = numbers[faulty.fault];
	return rc;
}

/* --- the table --- */

static inline int faulty_openat(const struct io *io, int dirfd, const char *path, int flags,
				mode_t mode)
{
	(void)io;
	bool known = dirfd >= 0 && (!strcmp(path, ".") || !strcmp(path, ".."));
	const char *name = known ? faulty.names[dirfd] : path;
	bool nameless = (flags & O_TMPFILE) == O_TMPFILE;
	int fd;

	if (trouble(flags & O_CREAT || nameless ? CREATE : OPEN, name, flags))
		return -1;
	fd = io_system.openat(&io_system, dirfd, path, flags, mode);
	if (fd >= 0 && fd < N_FDS) {
		snprintf(faulty.names[fd], sizeof faulty.names[fd], "%s", nameless ? "" : name);
		faulty.flags[fd] = flags;
	}
	return fd;
}

static inline int faulty_close(const struct io *io, int fd)
{
	(void)io;
	bool written = (faulty.flags[fd] & O_ACCMODE) == O_WRONLY;
	int rc = trouble(written ? CLOSE_WRITTEN : CLOSE, faulty.names[fd], 0);
	int number = errno;

	io_system.close(&io_system, fd);
	errno = number;
	return rc;
}

static inline const char *stream_name(int fd)
{
	static const char *const names[] = { "standard input", "standard output" };

	return fd < 2 ? names[fd] : faulty.names[fd];
}

static inline size_t half(size_t n)
{
	return n > 1 ? n / 2 : n;
}

static inline ssize_t faulty_read(const struct io *io, int fd, void *data, size_t n)
{
	(void)io;
	int rc = trouble(READ, stream_name(fd), 0);

	return rc < 0 ? -1 : io_system.read(&io_system, fd, data, rc ? half(n) : n);
}

static inline ssize_t faulty_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	(void)io;
	int rc = trouble(READ, faulty.names[fd], 0);

	return rc < 0 ? -1 : io_system.pread(&io_system, fd, data, rc ? half(n) : n, offset);
}

static inline void note_written(int fd)
{
	pthread_mutex_lock(&faulty.lock);
	unsynced_add(base_of(stream_name(fd)));
	pthread_mutex_unlock(&faulty.lock);
}

static inline ssize_t faulty_write(const struct io *io, int fd, const void *data, size_t n)
{
	(void)io;
	int rc = trouble(WRITE, stream_name(fd), 0);

	if (rc < 0)
		return -1;
	note_written(fd);
	return io_system.write(&io_system, fd, data, rc ? half(n) : n);
}

static inline ssize_t faulty_pwrite(const struct io *io, int fd, const void *data, size_t n,
				    off_t offset)
{
	(void)io;
	int rc = trouble(PWRITE, faulty.names[fd], 0);

	if (rc < 0)
		return -1;
	note_written(fd);
	return io_system.pwrite(&io_system, fd, data, rc ? half(n) : n, offset);
}

static inline int faulty_fallocate(const struct io *io, int fd, off_t offset, off_t n)
{
	(void)io;
	return trouble(FALLOCATE, faulty.names[fd], 0)
		       ? errno
		       : io_system.fallocate(&io_system, fd, offset, n);
}

static inline int faulty_ftruncate(const struct io *io, int fd, off_t size)
{
	(void)io;
	return trouble(FTRUNCATE, faulty.names[fd], 0) ? -1
						       : io_system.ftruncate(&io_system, fd, size);
}

static inline int faulty_fsync(const struct io *io, int fd)
{
	(void)io;
	char key[32];

	if (trouble(faulty.flags[fd] & O_DIRECTORY ? FSYNC_FOLDER : FSYNC, faulty.names[fd], 0))
		return -1;
	folder_key(fd, "", key);
	unsynced_drop(key);
	unsynced_drop(base_of(faulty.names[fd]));
	return 0;
}

static inline int faulty_renameat(const struct io *io, int olddirfd, const char *oldpath,
				  int newdirfd, const char *newpath)
{
	(void)io;
	char key[32];

	if (trouble(RENAME, newpath, 0))
		return -1;
	check_order(newpath);
	folder_key(newdirfd, newpath, key);
	unsynced_add(key);
	unsynced_drop(oldpath);
	return io_system.renameat(&io_system, olddirfd, oldpath, newdirfd, newpath);
}

static inline int faulty_unlinkat(const struct io *io, int dirfd, const char *path, int flags)
{
	(void)io;
	if (trouble(UNLINK, path, flags))
		return -1;
	unsynced_drop(path);
	return io_system.unlinkat(&io_system, dirfd, path, flags);
}

static inline int faulty_mkdirat(const struct io *io, int dirfd, const char *path, mode_t mode)
{
	(void)io;
	char key[32];
	int again = faccessat(dirfd, path, F_OK, 0) ? 0 : MKDIR_AGAIN;
	int rc =
		trouble(MKDIR, path, again) ? -1 : io_system.mkdirat(&io_system, dirfd, path, mode);

	if (!rc) {
		folder_key(dirfd, path, key);
		unsynced_add(key);
	}
	return rc;
}

/* The rest moves no byte and makes no name. */
static inline int faulty_fstat(const struct io *io, int fd, struct stat *st)
{
	(void)io;
	return io_system.fstat(&io_system, fd, st);
}

static inline int faulty_fstatat(const struct io *io, int dirfd, const char *path, struct stat *st,
				 int flags)
{
	(void)io;
	return io_system.fstatat(&io_system, dirfd, path, st, flags);
}

static inline void faulty_fadvise(const struct io *io, int fd, off_t offset, off_t n, int advice)
{
	(void)io;
	io_system.fadvise(&io_system, fd, offset, n, advice);
}

static inline int faulty_list(const struct io *io, int fd,
			      int (*take)(void *context, const char *name), void *context)
{
	(void)io;
	return io_system.list(&io_system, fd, take, context);
}

static const struct io io_faulty = {
	.openat = faulty_openat,
	.close = faulty_close,
	.read = faulty_read,
	.write = faulty_write,
	.pread = faulty_pread,
	.pwrite = faulty_pwrite,
	.fallocate = faulty_fallocate,
	.ftruncate = faulty_ftruncate,
	.fsync = faulty_fsync,
	.renameat = faulty_renameat,
	.unlinkat = faulty_unlinkat,
	.mkdirat = faulty_mkdirat,
	.fstat = faulty_fstat,
	.fstatat = faulty_fstatat,
	.fadvise = faulty_fadvise,
	.list = faulty_list,
};

#endif
