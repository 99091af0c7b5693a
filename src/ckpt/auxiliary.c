/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a checkpoint's directory that are neither weights nor written by this program:
 * tokenizer, templates, code, license.  The walk keeps a list of directories to read; it follows no
 * links to directories, so it ends.
 */
#include "ckpt/checkpoint.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "ckpt/listing.h"
#include "ckpt/manifest.h"

static bool matches(const char *name, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!fnmatch(patterns[i], name, FNM_CASEFOLD))
			return true;
	return false;
}

/* Files that this program writes are at the top.  Weights may be anywhere, and so may pickles,
 * which run code when they are loaded and are never passed on. */
static bool is_left_out(const char *name, bool at_top)
{
	static const char *const ours[] = { CONFIG_NAME, HF_QUANT_CONFIG_NAME, "fp8conv*" };
	static const char *const weights[] = {
		"*.safetensors", "*.index.json", "*.bin",    "*.pth",	 "*.pt",
		"*.ckpt",	 "*.gguf",	 "*.h5",     "*.ot",	 "*.msgpack",
		"*.onnx*",	 "*.pkl",	 "*.pickle", "*.joblib", "*.dill",
	};

	return (at_top && matches(name, ours, sizeof ours / sizeof *ours)) ||
	       matches(name, weights, sizeof weights / sizeof *weights);
}

/* Is it an output of this program inside the model's directory? */
static bool is_output(const struct io *io, const char *full)
{
	char *record = xasprintf("%s/" MANIFEST_NAME, full);
	bool found = io_exists(io, record);

	free(record);
	return found;
}

/* The walk over the model's directory; paths are from it on. */
struct walk {
	const struct checkpoint *checkpoint;
	struct listing files, directories;
};

/* Takes what lies at a path.  full: with the model's directory. */
static int take(struct walk *walk, const char *path, const char *full, struct err *err)
{
	const struct io *io = walk->checkpoint->io;
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (io->fstatat(io, AT_FDCWD, full, &st, AT_SYMLINK_NOFOLLOW))
		return io_failed(io, err, "cannot read the state of '%s'", path);
	if (S_ISDIR(st.st_mode)) {
		if (!is_output(io, full))
			listing_add(&walk->directories, xstrdup(path));
		return 0;
	}
	if (S_ISLNK(st.st_mode) && io->fstatat(io, AT_FDCWD, full, &st, 0))
		st.st_mode = 0; /* a broken link: not a file */
	if (S_ISREG(st.st_mode) && !is_left_out(slash ? slash + 1 : path, !slash))
		listing_add(&walk->files, xstrdup(path));
	return 0;
}

static bool is_visible(const void *context, const char *name)
{
	(void)context;
	return name[0] != '.';
}

/* Reads one directory; "" is the top. */
static int read_directory(struct walk *walk, const char *below, struct err *err)
{
	const char *top = walk->checkpoint->directory;
	char *full = *below ? xasprintf("%s/%s", top, below) : xstrdup(top);
	struct listing names = { 0 };
	int rc = listing_names(&names,
			       &(struct directory){ walk->checkpoint->io, AT_FDCWD, full, full },
			       is_visible, NULL, err);

	for (size_t i = 0; i < names.n && !rc; i++) {
		char *path = xasprintf("%s%s%s", below, *below ? "/" : "", names.items[i]);
		char *name = xasprintf("%s/%s", full, names.items[i]);

		rc = take(walk, path, name, err);
		free(path);
		free(name);
	}
	listing_release(&names);
	free(full);
	return rc;
}

int checkpoint_auxiliary(const struct checkpoint *checkpoint, char ***paths, size_t *n,
			 struct err *err)
{
	struct walk walk = { .checkpoint = checkpoint };
	int rc = 0;

	if (checkpoint->directory)
		listing_add(&walk.directories, xstrdup(""));
	while (walk.directories.n && !rc) {
		char *below = walk.directories.items[--walk.directories.n];

		rc = read_directory(&walk, below, err);
		free(below);
	}
	listing_release(&walk.directories);
	if (rc) {
		listing_release(&walk.files);
		walk.files = (struct listing){ 0 };
	}
	listing_sort(&walk.files);
	*paths = walk.files.items;
	*n = walk.files.n;
	return rc;
}
