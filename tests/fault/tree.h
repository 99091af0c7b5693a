/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of small files, for tests: made, copied, removed and compared.  What fails here ends the
 * program.
 */
#ifndef FP8CONV_TESTS_TREE_H
#define FP8CONV_TESTS_TREE_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

#define TREE_FILE_LIMIT (64 << 20) /* bytes */
#define TREE_PIECE	(64 << 10) /* bytes that are compared at once */

static inline void tree_die(const char *what, const char *path)
{
	fprintf(stderr, "%s '%s': ", what, path);
	perror(NULL);
	exit(2);
}

static inline bool tree_read(const char *path, struct buf *data)
{
	struct err err;

	*data = (struct buf){ 0 };
	return !io_read_file(&io_system, AT_FDCWD, path, TREE_FILE_LIMIT, data, &err);
}

static inline void tree_write(const char *path, const void *data, size_t n)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(data, 1, n, file) != n || fclose(file))
		tree_die("cannot write", path);
}

static inline int tree_remove_one(const char *path, const struct stat *st, int type,
				  struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static inline void tree_remove(const char *path)
{
	struct stat st;

	if (!lstat(path, &st) && nftw(path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS))
		tree_die("cannot remove", path);
}

typedef void tree_fn(const char *root, const char *name, void *context);

/* Calls fn for each regular file, named from root on; folders end in a slash and come before what
 * is in them. */
static inline void tree_walk(const char *root, const char *below, tree_fn *fn, void *context)
{
	char *path = xasprintf("%s/%s", root, below);
	DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		bool folder = entry->d_type == DT_DIR;
		char *name = xasprintf("%s%s%s", below, entry->d_name, folder ? "/" : "");

		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
			fn(root, name, context);
			if (folder)
				tree_walk(root, name, fn, context);
		}
		free(name);
	}
	if (dir)
		closedir(dir);
	free(path);
}

static inline void tree_copy_one(const char *root, const char *name, void *context)
{
	char *from = xasprintf("%s/%s", root, name);
	char *to = xasprintf("%s/%s", (const char *)context, name);
	struct buf data = { 0 };

	if (name[strlen(name) - 1] == '/') {
		if (mkdir(to, 0777))
			tree_die("cannot make", to);
	} else {
		if (!tree_read(from, &data))
			tree_die("cannot read", from);
		tree_write(to, data.data, data.len);
	}
	buf_release(&data);
	free(from);
	free(to);
}

static inline void tree_copy(const char *from, const char *to)
{
	if (mkdir(to, 0777))
		tree_die("cannot make", to);
	tree_walk(from, "", tree_copy_one, (void *)to);
}

/* A regular file in a folder, or NULL. */
static inline FILE *tree_open(const char *folder, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);
	struct stat st;
	FILE *file = !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;

	free(path);
	return file;
}

/* Whether a/name and b/name are files of the same bytes. */
static inline bool tree_same_file(const char *a, const char *b, const char *name)
{
	static char x[TREE_PIECE], y[TREE_PIECE];
	FILE *one = tree_open(a, name), *other = tree_open(b, name);
	bool same = one && other;
	size_t n = TREE_PIECE;

	while (same && n == TREE_PIECE) {
		n = fread(x, 1, TREE_PIECE, one);
		same = fread(y, 1, TREE_PIECE, other) == n && !memcmp(x, y, n) && !ferror(one) &&
		       !ferror(other);
	}
	if (one)
		fclose(one);
	if (other)
		fclose(other);
	return same;
}

static inline void tree_move(const char *from, const char *to)
{
	tree_remove(to);
	if (rename(from, to) && errno != ENOENT)
		tree_die("cannot move", from);
}

/* The last byte of the file becomes another. */
static inline void tree_flip_last(const char *path)
{
	struct buf data;

	if (!tree_read(path, &data))
		tree_die("cannot read", path);
	data.data[data.len - 1] ^= 1;
	tree_write(path, data.data, data.len);
	buf_release(&data);
}

static inline int tree_count_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

#endif
