/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/outdir.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/progress.h"

#define GUARD	       ".fp8conv.guard"
#define COPY_CHUNK     (1 << 20)
#define LONG_NAME_KEPT 200 /* bytes kept of a name that is too long to extend */

char *outdir_own_name(const char *name, const char *suffix)
{
	/* Clang-tidy believes that err_errno() may return 0. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker) */
	size_t n = strlen(name);

	if (n + strlen(suffix) + 2 <= NAME_MAX)
		return xasprintf(".%s.%s", name, suffix);
	return xasprintf(".%.*s~%08x.%s", LONG_NAME_KEPT, name,
			 crc32_gzip_refl(0, (const void *)name, n), suffix);
}

char *outdir_partial_name(const char *name)
{
	return outdir_own_name(name, "partial");
}

/* Is the file still the locked one?  Its holder may unlink the lock file between the calls of open
 * and flock; then this process holds a file that no other process will see, and must open it
 * again. */
static bool same_file(int dirfd, const char *name, int fd)
{
	struct stat by_name, by_fd;

	return !fstatat(dirfd, name, &by_name, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &by_fd) &&
	       by_name.st_dev == by_fd.st_dev && by_name.st_ino == by_fd.st_ino;
}

/* Returns 1, with *err set, if another process holds the lock. */
static int lock_take(const struct outdir *dir, const char *name, int operation, int *fd,
		     struct err *err)
{
	for (;;) {
		*fd = io_openat(dir->io, dir->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
				0666);
		if (*fd < 0)
			return err_errno(err, "cannot create the lock '%s/%s'", dir->path, name);
		if (flock(*fd, operation)) {
			bool held = errno == EWOULDBLOCK;

			if (errno == EINTR) {
				dir->io->close(dir->io, *fd);
				continue;
			}

			if (held)
				err_set(err, ERR_SYSTEM,
					"'%s' is in use by another fp8conv: try again after it "
					"ends",
					dir->path);
			else
				err_errno(err, "cannot lock '%s/%s'", dir->path, name);
			dir->io->close(dir->io, *fd);
			*fd = -1;
			return held ? 1 : -1;
		}
		if (same_file(dir->fd, name, *fd))
			return 0;
		dir->io->close(dir->io, *fd);
	}
}

/* Flushes the directory above, so that the name of a new directory lasts.  A directory above that
 * may not be read cannot be flushed either.  fd is the new one. */
static int sync_above(const struct io *io, int fd, const char *path, struct err *err)
{
	int above = io_openat(io, fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int rc = 0;

	if (above < 0 && errno == EACCES)
		return 0;
	if (above < 0 || io->fsync(io, above))
		rc = err_errno(err, "cannot write the parent directory of '%s'", path);
	if (above >= 0)
		io->close(io, above);
	return rc;
}

/* Creates a directory durably.  Returns 0 also where mkdir fails: creating the directory inside it
 * reports that. */
static int parent_make(const struct io *io, const char *path, struct err *err)
{
	int fd, rc;

	if (io->mkdirat(io, AT_FDCWD, path, 0777))
		return 0;
	fd = io_openat(io, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return err_errno(err, "cannot open directory '%s'", path);
	rc = sync_above(io, fd, path, err);
	io->close(io, fd);
	return rc;
}

/* Creates the directories above path, as mkdir -p does. */
static int parents_make(const struct outdir *dir, struct err *err)
{
	const char *slash = strchr(dir->path + 1, '/');
	int rc = 0;

	/* Trailing slashes are not inside the path. */
	while (!rc && slash && slash[strspn(slash, "/")]) {
		char *parent = xstrndup(dir->path, (size_t)(slash - dir->path));

		rc = parent_make(dir->io, parent, err);
		free(parent);
		slash = strchr(slash + strspn(slash, "/"), '/');
	}
	return rc;
}

static int directory_open(struct outdir *dir, struct err *err)
{
	struct stat st;

	if (stat(dir->path, &st) && !lstat(dir->path, &st) && S_ISLNK(st.st_mode))
		return err_set(err, ERR_INPUT, "'%s' is a symbolic link to a missing directory",
			       dir->path);
	if (*dir->path && faccessat(AT_FDCWD, dir->path, F_OK, 0) && parents_make(dir, err))
		return -1;
	if (!dir->io->mkdirat(dir->io, AT_FDCWD, dir->path, 0777))
		dir->created = true;
	else if (errno != EEXIST)
		return err_errno(err, "cannot create directory '%s'", dir->path);
	dir->fd = io_openat(dir->io, AT_FDCWD, dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (dir->fd < 0)
		return errno == ENOTDIR
			       ? err_set(err, ERR_INPUT,
					 "output '%s' is a file, not a directory: give another "
					 "name",
					 dir->path)
			       : err_errno(err, "cannot open directory '%s'", dir->path);
	return dir->created ? sync_above(dir->io, dir->fd, dir->path, err) : 0;
}

int outdir_open(struct outdir *dir, const struct io *io, const char *path, const char *lock,
		bool shared, struct err *err)
{
	int rc;

	*dir = (struct outdir){ .io = io, .path = xstrdup(path), .fd = -1, .lock_fd = -1 };
	rc = directory_open(dir, err);
	if (!rc)
		rc = lock_take(dir, lock, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB, &dir->lock_fd,
			       err);
	if (rc) {
		outdir_close(dir);
		dir->held = rc > 0;
		return -1;
	}
	dir->lock_name = xstrdup(lock);
	return 0;
}

/* Opens directory `name` of `parent`, and creates it durably if wanted and needed; never follows a
 * link.  path: its path, for messages. */
static int subdirectory_open(const struct outdir *dir, int parent, const char *name,
			     const char *path, bool create, struct err *err)
{
	const struct io *io = dir->io;
	bool created = create && !io->mkdirat(io, parent, name, 0777);
	int fd = -1;

	if (created && io->fsync(io, parent))
		return err_errno(err, "cannot create directory '%s' in '%s'", path, dir->path);
	if (created || !create || errno == EEXIST)
		fd = io_openat(io, parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			       0);
	if (fd < 0)
		err_errno(err, "cannot open or create directory '%s' in '%s'", path, dir->path);
	return fd;
}

int outdir_parent(const struct outdir *dir, const char *name, bool create, int *fd,
		  const char **base, struct err *err)
{
	const char *slash;

	*fd = io_openat(dir->io, dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (*fd < 0)
		return err_errno(err, "cannot open directory '%s'", dir->path);
	for (*base = name; (slash = strchr(*base, '/')); *base = slash + 1) {
		char *path = xstrndup(name, (size_t)(slash - name));
		int next = subdirectory_open(dir, *fd, path + (*base - name), path, create, err);

		free(path);
		dir->io->close(dir->io, *fd);
		*fd = next;
		if (next < 0)
			return -1;
	}
	return 0;
}

/* A file that appears under its name when it is whole. */
struct put {
	const struct outdir *dir;
	char *path; /* for messages */
	const char *base;
	char *partial;
	int parent;
	int fd;
};

static int put_open(struct put *put, const struct outdir *dir, const char *name, struct err *err)
{
	*put = (struct put){ .dir = dir, .parent = -1, .fd = -1 };
	put->path = xasprintf("%s/%s", dir->path, name);
	if (outdir_parent(dir, name, true, &put->parent, &put->base, err))
		return -1;
	put->partial = outdir_partial_name(put->base);
	if (dir->io->unlinkat(dir->io, put->parent, put->partial, 0) && errno != ENOENT)
		return err_errno(err, "cannot remove the unfinished file of '%s'", put->path);
	put->fd = io_openat(dir->io, put->parent, put->partial,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (put->fd < 0)
		return err_errno(err, "cannot create '%s'", put->path);
	return 0;
}

static int put_commit(struct put *put, struct err *err)
{
	const struct io *io = put->dir->io;
	int fd = put->fd;

	if (io->fsync(io, fd))
		return err_errno(err, "cannot write '%s'", put->path);
	put->fd = -1;
	if (io->close(io, fd) ||
	    io->renameat(io, put->parent, put->partial, put->parent, put->base) ||
	    io->fsync(io, put->parent))
		return err_errno(err, "cannot write '%s'", put->path);
	return 0;
}

/* Removes the partial file, which no longer exists after a commit. */
static void put_release(struct put *put)
{
	if (put->fd >= 0)
		put->dir->io->close(put->dir->io, put->fd);
	if (put->parent >= 0 && put->partial)
		put->dir->io->unlinkat(put->dir->io, put->parent, put->partial, 0);
	if (put->parent >= 0)
		put->dir->io->close(put->dir->io, put->parent);
	free(put->partial);
	free(put->path);
}

int outdir_put(const struct outdir *dir, const char *name, const void *data, size_t n,
	       struct err *err)
{
	struct put put = { 0 };
	int rc = -1;

	if (put_open(&put, dir, name, err) ||
	    io_write_full(&(struct file){ dir->io, put.fd, put.path }, data, n, err) ||
	    put_commit(&put, err))
		goto out;
	rc = 0;
out:
	put_release(&put);
	return rc;
}

int outdir_put_pieces(const struct outdir *dir, const char *name, outdir_piece_fn *next,
		      void *context, struct err *err)
{
	struct put put = { 0 };
	struct buf piece = { 0 };
	int rc = -1;

	if (put_open(&put, dir, name, err))
		goto out;
	for (next(context, &piece); piece.len; next(context, &piece)) {
		if (io_write_full(&(struct file){ dir->io, put.fd, put.path }, piece.data,
				  piece.len, err))
			goto out;
		piece.len = 0;
	}
	rc = put_commit(&put, err);
out:
	put_release(&put);
	buf_release(&piece);
	return rc;
}

int outdir_put_text(const struct outdir *dir, const char *name, const struct buf *text,
		    struct err *err)
{
	return text->len ? outdir_put(dir, name, text->data, text->len, err) : 0;
}

static int copy_bytes(const struct file *from, const struct file *to, const atomic_int *stop,
		      struct err *err)
{
	void *chunk = xmalloc(COPY_CHUNK);
	size_t got = COPY_CHUNK;
	int rc = 0;

	while (!rc && got == COPY_CHUNK) {
		rc = progress_stopped(stop, err);
		if (!rc)
			rc = io_read_full(from, chunk, COPY_CHUNK, &got, err);
		if (!rc)
			rc = io_write_full(to, chunk, got, err);
	}
	free(chunk);
	return rc;
}

int outdir_copy(const struct outdir *dir, const char *from_dir, const char *name,
		const atomic_int *stop, struct err *err)
{
	char *from = xasprintf("%s/%s", from_dir, name);
	struct file_identity identity;
	struct put put = { .parent = -1, .fd = -1 };
	int fd = -1;
	int rc = -1;

	if (io_open_regular(dir->io, AT_FDCWD, from, &fd, &identity, err) ||
	    put_open(&put, dir, name, err) ||
	    copy_bytes(&(struct file){ dir->io, fd, from },
		       &(struct file){ dir->io, put.fd, put.path }, stop, err) ||
	    io_check_unchanged(&(struct file){ dir->io, fd, from }, &identity, err) ||
	    put_commit(&put, err))
		goto out;
	rc = 0;
out:
	if (put.dir)
		put_release(&put);
	if (fd >= 0)
		dir->io->close(dir->io, fd);
	free(from);
	return rc;
}

int outdir_remove(const struct outdir *dir, const char *name, struct err *err)
{
	if (dir->io->unlinkat(dir->io, dir->fd, name, 0) && errno != ENOENT)
		return err_errno(err, "cannot remove '%s/%s'", dir->path, name);
	return 0;
}

bool outdir_has(const struct outdir *dir, const char *name)
{
	return !faccessat(dir->fd, name, F_OK, AT_SYMLINK_NOFOLLOW);
}

int outdir_sync(const struct outdir *dir, struct err *err)
{
	if (dir->io->fsync(dir->io, dir->fd))
		return err_errno(err, "cannot write directory '%s'", dir->path);
	return 0;
}

int outdir_check_space(const struct outdir *dir, uint64_t bytes, struct err *err)
{
	struct statvfs fs;
	const char *name;
	double unit;
	int digits;
	uint64_t free_bytes;

	if (fstatvfs(dir->fd, &fs))
		return err_errno(err, "cannot read the free space of '%s'", dir->path);
	unit = bytes >= 1000000000 ? 1e9 : bytes >= 1000000 ? 1e6 : 1;
	digits = unit > 1 ? 2 : 0;
	name = unit > 1e6 ? "GB" : unit > 1 ? "MB" : "bytes";
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (bytes > free_bytes)
		return err_set(err, ERR_SYSTEM,
			       "not enough space in '%s': %.*f %s needed, %.*f %s free, %.*f %s "
			       "missing",
			       dir->path, digits, (double)bytes / unit, name, digits,
			       (double)free_bytes / unit, name, digits,
			       (double)(bytes - free_bytes) / unit, name);
	return 0;
}

int outdir_guard(const struct outdir *dir, int *guard, struct err *err)
{
	if (lock_take(dir, GUARD, LOCK_EX, guard, err))
		return -1;
	return 0;
}

/* Unlinks the file while its lock is held: waiting processes notice that and open a new one. */
void outdir_unguard(const struct outdir *dir, int guard)
{
	dir->io->unlinkat(dir->io, dir->fd, GUARD, 0);
	dir->io->close(dir->io, guard);
}

bool outdir_is_lock(const char *name)
{
	return !strcmp(name, OUTDIR_LOCK) || !strcmp(name, GUARD) ||
	       !fnmatch(".fp8conv.part-*-of-*.lock", name, 0);
}

void outdir_close(struct outdir *dir)
{
	if (!dir->path)
		return;
	/* A shared lock may have other holders, who would not notice a new process if the file were
	 * removed. */
	if (dir->lock_fd >= 0) {
		if (!flock(dir->lock_fd, LOCK_EX | LOCK_NB))
			dir->io->unlinkat(dir->io, dir->fd, dir->lock_name, 0);
		dir->io->close(dir->io, dir->lock_fd);
	}
	if (dir->fd >= 0)
		dir->io->close(dir->io, dir->fd);
	if (dir->created)
		dir->io->unlinkat(dir->io, AT_FDCWD, dir->path, AT_REMOVEDIR);
	free(dir->lock_name);
	free(dir->path);
	*dir = (struct outdir){ 0 };
}

int outfile_open(struct outfile *file, const struct io *io, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *directory, *lock;
	int rc;

	*file = (struct outfile){ .name = name };
	if (!*name)
		return err_set(err, ERR_USAGE, "'%s' is not the name of a file", path);
	directory =
		slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
	lock = outdir_own_name(name, "lock");
	rc = outdir_open(&file->dir, io, directory, lock, false, err);
	if (file->dir.held) /* the lock is for the file, not for the directory */
		rc = err_set(err, ERR_SYSTEM,
			     "'%s' is in use by another fp8conv: try again after it ends", path);
	free(lock);
	free(directory);
	return rc;
}

void outfile_close(struct outfile *file)
{
	outdir_close(&file->dir);
}
