/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc64.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "remote/address.h"
#include "remote/blocks.h"
#include "remote/files.h"

#define NO_DEVICE ((dev_t)-1) /* a disk has another number */
#define PAST	  946684800   /* seconds: the year 2000; times that are made lie after it */
#define PAST_SPAN (1u << 29)  /* seconds: seventeen years */

/* An open file or directory of the server; its number belongs to /dev/null. */
struct opened {
	int fd;
	struct remote_file *file; /* NULL: a directory */
	char *directory;	  /* "" or "original/" */
	bool in_order;		  /* its reader wants blocks */
	uint64_t position;	  /* bytes, of reads without an offset */
};

struct remote {
	struct io io; /* must be first: the functions get it */
	const struct io *below;
	struct client client;
	struct blocks *blocks;
	struct remote_files files;
	uint64_t now;
	pthread_key_t reason; /* a thread's struct err: why its last call failed */
	pthread_mutex_t lock; /* of opened */
	struct opened **opened;
	size_t n_opened;
};

static struct remote *remote_of(const struct io *io)
{
	return (struct remote *)io;
}

/* Returns the thread's reason. */
static struct err *reason_of(const struct remote *remote)
{
	struct err *reason = pthread_getspecific(remote->reason);

	if (!reason) {
		reason = xcalloc(1, sizeof *reason);
		pthread_setspecific(remote->reason, reason);
	}
	return reason;
}

static int failed(void)
{
	errno = EREMOTEIO; /* the table below never sets this errno */
	return -1;
}

static bool remote_explain(const struct io *io, struct err *err)
{
	const struct err *reason = reason_of(remote_of(io));
	const struct io *below = remote_of(io)->below;

	if (errno != EREMOTEIO)
		return false;
	if (!reason->kind) /* a remote below may know why */
		return below->explain && below->explain(below, err);
	err_set(err, reason->kind, "%s", reason->message);
	return true;
}

/* Returns the path from the address on, without slashes around it; NULL: not on the server. */
static const char *path_below(const struct remote *remote, const char *path)
{
	size_t n = strlen(remote->files.root);

	if (strncmp(path, remote->files.root, n) != 0 || (path[n] && path[n] != '/'))
		return NULL;
	return path + n + strspn(path + n, "/");
}

/* Is it the address, or a directory that a file lies in?  name has no slash at its end. */
static bool is_directory(const struct remote *remote, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < remote->files.n && n; i++)
		if (!strncmp(remote->files.list[i].name, name, n) &&
		    remote->files.list[i].name[n] == '/')
			return true;
	return !n;
}

static struct opened *find_opened(const struct remote *remote, int fd)
{
	struct remote *r = (struct remote *)remote;
	struct opened *found = NULL;

	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->n_opened && !found; i++)
		if (r->opened[i]->fd == fd)
			found = r->opened[i];
	pthread_mutex_unlock(&r->lock);
	return found;
}

static int add_opened(struct remote *remote, struct remote_file *file, const char *name, int flags)
{
	const struct io *below = remote->below;
	struct opened *opened;
	int fd = below->openat(below, AT_FDCWD, "/dev/null", O_RDONLY | (flags & O_CLOEXEC), 0);

	if (fd < 0)
		return -1;
	opened = xcalloc(1, sizeof *opened);
	opened->fd = fd;
	opened->file = file;
	opened->directory = *name && !file ? xasprintf("%s/", name) : xstrdup("");
	pthread_mutex_lock(&remote->lock);
	remote->opened =
		xreallocarray(remote->opened, remote->n_opened + 1, sizeof(struct opened *));
	remote->opened[remote->n_opened++] = opened;
	pthread_mutex_unlock(&remote->lock);
	return fd;
}

static int remote_openat(const struct io *io, int dirfd, const char *path, int flags, mode_t mode)
{
	struct remote *remote = remote_of(io);
	const char *name = path_below(remote, path);
	struct remote_file *file = name ? remote_files_find(&remote->files, name) : NULL;

	if (!name)
		return remote->below->openat(remote->below, dirfd, path, flags, mode);
	if ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT)
		errno = EROFS;
	else if (file ? flags & O_DIRECTORY : !is_directory(remote, name))
		errno = file ? ENOTDIR : ENOENT;
	else
		return add_opened(remote, file, name, flags);
	return -1;
}

static int remote_close_fd(const struct io *io, int fd)
{
	struct remote *remote = remote_of(io);

	pthread_mutex_lock(&remote->lock);
	for (size_t i = 0; i < remote->n_opened; i++) {
		struct opened *opened = remote->opened[i];

		if (opened->fd != fd)
			continue;
		remote->opened[i] = remote->opened[--remote->n_opened];
		free(opened->directory);
		free(opened);
		break;
	}
	pthread_mutex_unlock(&remote->lock);
	return remote->below->close(remote->below, fd);
}

/* Derives st_mtim from the version (ETag, commit).  Without one, tv_nsec is 0: a later run must not
 * trust it. */
static void set_times(const struct remote *remote, const struct remote_file *file, struct stat *st)
{
	const char *version = remote->files.commit ? remote->files.commit : file->version;
	char *text = xasprintf("%s %s %llu", version ? version : "", file->name,
			       (unsigned long long)file->size);
	size_t n = strlen(text);
	uint64_t hash = crc64_ecma_refl(0, (const unsigned char *)text, n);

	free(text);
	st->st_mtim.tv_sec = PAST + (time_t)(hash % PAST_SPAN);
	st->st_ctim = st->st_mtim;
	if (version && *version)
		st->st_mtim.tv_nsec = 1 + (long)(hash / PAST_SPAN % 999999999);
	else
		st->st_ctim.tv_sec = (time_t)remote->now;
}

static int state_of(const struct remote *remote, struct remote_file *file, struct stat *st)
{
	*st = (struct stat){ .st_dev = NO_DEVICE, .st_nlink = 1, .st_mode = S_IFDIR | 0555 };
	if (!file)
		return 0;
	st->st_ino = (ino_t)(file - remote->files.list) + 1;
	st->st_mode = S_IFREG | 0444;
	st->st_size = (off_t)file->size;
	set_times(remote, file, st);
	return 0;
}

static int remote_fstat(const struct io *io, int fd, struct stat *st)
{
	const struct remote *remote = remote_of(io);
	const struct opened *opened = find_opened(remote, fd);

	if (!opened)
		return remote->below->fstat(remote->below, fd, st);
	return state_of(remote, opened->file, st);
}

static int remote_fstatat(const struct io *io, int dirfd, const char *path, struct stat *st,
			  int flags)
{
	const struct remote *remote = remote_of(io);
	const char *name = path_below(remote, path);
	struct remote_file *file = name ? remote_files_find(&remote->files, name) : NULL;

	if (!name)
		return remote->below->fstatat(remote->below, dirfd, path, st, flags);
	if (!file && !is_directory(remote, name)) {
		errno = ENOENT;
		return -1;
	}
	return state_of(remote, file, st);
}

/* Reads from one place: the head of the file, a block, or the server. */
static ssize_t read_some(struct remote *remote, const struct opened *opened, char *data, size_t n,
			 uint64_t at)
{
	struct remote_file *file = opened->file;
	struct err *reason = reason_of(remote);
	size_t got = n;

	if (at >= file->size || !n)
		return 0;
	if (n > file->size - at)
		n = got = (size_t)(file->size - at);
	if (at < file->n_head) {
		got = n < file->n_head - at ? n : (size_t)(file->n_head - at);
		memcpy(data, file->head + at, got);
		return (ssize_t)got;
	}
	*reason = (struct err){ 0 };
	if (opened->in_order ? blocks_read(remote->blocks, file, at, data, &got, reason)
			     : range_read(&remote->client, file, at, n, data, reason))
		return failed();
	return (ssize_t)got;
}

/* The head of a file of the Hub's list is not there yet. */
static int have_head(struct remote *remote, struct remote_file *file)
{
	struct err *reason = reason_of(remote);
	int rc;

	*reason = (struct err){ 0 };
	pthread_mutex_lock(&remote->lock);
	rc = range_head(&remote->client, file, reason);
	if (!rc && !file->is_there)
		rc = err_set(reason, ERR_INPUT, "the server lists '%s' but has no such file",
			     file->url);
	pthread_mutex_unlock(&remote->lock);
	return rc ? failed() : 0;
}

static ssize_t remote_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	struct remote *remote = remote_of(io);
	const struct opened *opened = find_opened(remote, fd);

	if (!opened)
		return remote->below->pread(remote->below, fd, data, n, offset);
	if (!opened->file) {
		errno = EISDIR;
		return -1;
	}
	if (have_head(remote, opened->file))
		return -1;
	return read_some(remote, opened, data, n, (uint64_t)offset);
}

static ssize_t remote_read(const struct io *io, int fd, void *data, size_t n)
{
	struct remote *remote = remote_of(io);
	struct opened *opened = find_opened(remote, fd);
	ssize_t got;

	if (!opened)
		return remote->below->read(remote->below, fd, data, n);
	opened->in_order = true;
	got = remote_pread(io, fd, data, n, (off_t)opened->position);
	if (got > 0)
		opened->position += (uint64_t)got;
	return got;
}

static void remote_fadvise(const struct io *io, int fd, off_t offset, off_t n, int advice)
{
	struct remote *remote = remote_of(io);
	struct opened *opened = find_opened(remote, fd);

	if (!opened)
		remote->below->fadvise(remote->below, fd, offset, n, advice);
	else if (advice == POSIX_FADV_SEQUENTIAL)
		opened->in_order = true;
	else if (advice == POSIX_FADV_WILLNEED && opened->file)
		blocks_want(remote->blocks, opened->file, (uint64_t)offset, (uint64_t)n);
}

/* Calls take() with the names directly in a directory, each once: names are sorted, so that those
 * with the same beginning follow each other. */
static void take_names(const struct remote *remote, const char *directory,
		       int (*take)(void *context, const char *name), void *context)
{
	size_t n = strlen(directory);
	char *last = NULL;

	for (size_t i = 0; i < remote->files.n; i++) {
		const char *name = remote->files.list[i].name;
		char *entry;
		int rc = 0;

		if (strncmp(name, directory, n) != 0)
			continue;
		entry = xstrndup(name + n, strcspn(name + n, "/"));
		if (!last || strcmp(last, entry) != 0)
			rc = take(context, entry);
		free(last);
		last = entry;
		if (rc)
			break;
	}
	free(last);
}

static int remote_list(const struct io *io, int fd, int (*take)(void *context, const char *name),
		       void *context)
{
	struct remote *remote = remote_of(io);
	const struct opened *opened = find_opened(remote, fd);

	if (!opened)
		return remote->below->list(remote->below, fd, take, context);
	take_names(remote, opened->directory, take, context);
	return remote_close_fd(io, fd);
}

/* What writes is of the table below. */
#define BELOW(type, name, parameters, arguments)               \
	static type below_##name parameters                    \
	{                                                      \
		const struct io *below = remote_of(io)->below; \
		return below->name(below, BARE arguments);     \
	}
#define BARE(...) __VA_ARGS__
IO_WRITES(BELOW)

static int below_fallocate(const struct io *io, int fd, off_t offset, off_t n)
{
	const struct io *below = remote_of(io)->below;

	return below->fallocate(below, fd, offset, n);
}

/* clang-format off */
#define ENTRY(type, name, parameters, arguments) .name = below_##name,
static const struct io table = {
	IO_WRITES(ENTRY)
	.openat = remote_openat,
	.close = remote_close_fd,
	.read = remote_read,
	.pread = remote_pread,
	.fallocate = below_fallocate,
	.fstat = remote_fstat,
	.fstatat = remote_fstatat,
	.fadvise = remote_fadvise,
	.list = remote_list,
	.explain = remote_explain,
};
/* clang-format on */

bool remote_is_address(const char *path)
{
	return address_is_remote(path);
}

bool remote_split_hub(const char *address, char **repo, char **revision)
{
	struct err ignored;

	return !address_split_hub(address, repo, revision, &ignored);
}

char *remote_hub_page(const char *address, const char *endpoint)
{
	return address_of_page(address, endpoint);
}

static uint64_t largest(const struct remote_files *files)
{
	uint64_t size = 0;

	for (size_t i = 0; i < files->n; i++)
		size = files->list[i].size > size ? files->list[i].size : size;
	return size;
}

int remote_open(struct remote **out, const struct io *below, const struct remote_params *params,
		struct err *err)
{
	struct remote *remote = xcalloc(1, sizeof *remote);

	*out = remote;
	remote->io = table;
	remote->below = below;
	remote->now = params->now;
	pthread_mutex_init(&remote->lock, NULL);
	pthread_key_create(&remote->reason, free);
	remote->client = (struct client){
		.endpoint = params->endpoint,
		.token = params->token && *params->token ? params->token : NULL,
		.token_name = params->token_name,
		.ca_file = params->ca_file,
		.stop = params->stop,
		.retry_time = params->retry_time,
		.tell = params->tell,
	};
	if (client_open(&remote->client, err) ||
	    remote_files_list(&remote->files, &remote->client, params->address, err))
		return -1;
	remote->blocks = blocks_new(&remote->client, params->memory, largest(&remote->files));
	return 0;
}

const struct io *remote_io(const struct remote *remote)
{
	return &remote->io;
}

uint64_t remote_bytes(const struct remote *remote)
{
	return atomic_load(&remote->client.n_bytes);
}

const char *remote_unversioned(const struct remote *remote)
{
	return remote_files_unversioned(&remote->files);
}

void remote_close(struct remote *remote)
{
	if (!remote)
		return;
	blocks_free(remote->blocks);
	remote_files_release(&remote->files);
	client_close(&remote->client);
	free(pthread_getspecific(remote->reason));
	pthread_key_delete(remote->reason);
	pthread_mutex_destroy(&remote->lock);
	free(remote->opened);
	free(remote);
}
