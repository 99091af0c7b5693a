/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a checkpoint's directory beside the model's weights: tokenizer, templates, code,
 * license, and weights of other parts in directories of their own.  The walk keeps a list of
 * directories to read; it follows no links to directories, so it ends.
 */
#include "ckpt/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/listing.h"
#include "ckpt/manifest.h"
#include "ckpt/mistaken.h"
#include "ckpt/signature.h"

#define ADAPTER_CONFIG	"adapter_config.json"
#define ADAPTER_WEIGHTS "adapter_model.safetensors"

#define MAX_DEPTH 16 /* of the directories of a model; releases have two or three */

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool matches(const char *name, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!fnmatch(patterns[i], name, FNM_CASEFOLD))
			return true;
	return false;
}

/* Is it a file at the top that this program writes, or that is only right for the source? */
static bool is_written(const char *name)
{
	static const char *const ours[] = { CONFIG_NAME, HF_QUANT_CONFIG_NAME, INDEX_NAME,
					    SIGNATURE_NAME, "fp8conv*" };

	return matches(name, ours, COUNT(ours));
}

/* Weights in containers that this program does not write, and pickles, which run code when they are
 * loaded and are never passed on. */
static bool is_foreign(const char *name)
{
	static const char *const weights[] = {
		"*.bin",    "*.pth",	"*.pt",	   "*.ckpt",	"*.gguf",
		"*.h5",	    "*.ot",	"*.onnx*", "*.msgpack", "*.pkl",
		"*.pickle", "*.joblib", "*.dill",  "*.distcp",	"*.bin.index.json",
	};

	return matches(name, weights, COUNT(weights));
}

/* Weights of safetensors, and their indexes. */
static bool is_weights(const char *name)
{
	static const char *const weights[] = { "*.safetensors", "*.index.json" };

	return matches(name, weights, COUNT(weights));
}

/* Is it the name of a file that loaders read?  No directory has such a name. */
static bool is_companion_name(const char *name)
{
	static const char *const files[] = { "*.json",	"*.jinja",   "*.model",	  "*.tiktoken",
					     "*.jsonl", "vocab.txt", "merges.txt" };

	return matches(name, files, COUNT(files));
}

/* Directories that hold the model's weights once more, in the layout of another program:
 * Meta's and OpenAI's releases, and conversions of them. */
static bool is_other_layout(const char *directory)
{
	static const char *const names[] = { "original", "metal", "onnx", "openvino", "mlx" };

	return matches(directory, names, COUNT(names));
}

/* The walk over the model's directory; paths are from it on. */
struct auxiliary_walk {
	const struct checkpoint *checkpoint;
	struct listing files, left, directories;
};

/* One directory while it is read. */
struct visited_directory {
	struct auxiliary_walk *walk;
	const char *below; /* "" is the top */
	const char *full;  /* with the model's directory */
	struct listing names;
	bool copies_weights;
};

static bool has_name(const struct listing *names, const char *name)
{
	for (size_t i = 0; i < names->n; i++)
		if (!strcmp(names->items[i], name))
			return true;
	return false;
}

/* Does the configuration of an adapter lie there without the adapter's weights, as merging leaves
 * it?  Loaders take its directory for an adapter. */
static bool is_lone_adapter(const struct visited_directory *place, const char *name)
{
	if (strcmp(name, ADAPTER_CONFIG) != 0)
		return false;
	return *place->below ? !place->copies_weights || !has_name(&place->names, ADAPTER_WEIGHTS)
			     : !checkpoint_has_shard(place->walk->checkpoint, ADAPTER_WEIGHTS);
}

/* Is it the page at the top that `report` writes about an output of this program? */
static bool is_report(const struct visited_directory *place, const char *name)
{
	return !strcmp(name, REPORT_PAGE_NAME) && has_name(&place->names, MANIFEST_NAME);
}

static bool is_left_out(const struct visited_directory *place, const char *name)
{
	return is_foreign(name) || (is_weights(name) && !place->copies_weights) ||
	       is_lone_adapter(place, name);
}

/* Counts the tensors of a file that the model has too, by name and shape.  SIZE_MAX: the file is
 * one rank's. */
static size_t count_same(const struct checkpoint *checkpoint, const struct st_file *file)
{
	struct err ignored;
	size_t n = 0;

	if (mistaken_slice(file, checkpoint->io, &ignored))
		return SIZE_MAX;
	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct st_tensor *tensor = &file->tensors[i];
		const struct tensor_ref *ref = checkpoint_find(checkpoint, tensor->name);

		n += ref && ref->tensor->n_dims == tensor->n_dims &&
		     (!tensor->n_dims || !memcmp(ref->tensor->shape, tensor->shape,
						 (size_t)tensor->n_dims * sizeof *tensor->shape));
	}
	return n;
}

/* Adds the tensors that a file of the place shares with the model.  A file that is not safetensors
 * shares none. */
static int add_same(const struct visited_directory *place, const char *name, size_t *n_same,
		    struct err *err)
{
	const struct checkpoint *checkpoint = place->walk->checkpoint;
	char *path = xasprintf("%s/%s", place->full, name);
	struct st_file file = { 0 };
	int rc = 0;

	if (!st_open(&file, checkpoint->io, path, err)) {
		size_t n = count_same(checkpoint, &file);

		*n_same = n == SIZE_MAX ? n : *n_same + n;
	} else if (err->kind != ERR_INPUT) {
		rc = -1;
	}
	st_release(&file);
	free(path);
	return rc;
}

/* Finds whether the weights of a subdirectory are a part of the release: not where they are the
 * whole model once more, as another state of a training or in another layout. */
static int judge_weights(struct visited_directory *place, struct err *err)
{
	size_t n_same = 0;

	if (!*place->below || is_other_layout(text_after(place->below, '/')))
		return 0;
	for (size_t i = 0; i < place->names.n && n_same != SIZE_MAX; i++)
		if (!fnmatch("*.safetensors", place->names.items[i], FNM_CASEFOLD) &&
		    add_same(place, place->names.items[i], &n_same, err))
			return -1;
	place->copies_weights = n_same < place->walk->checkpoint->n_tensors;
	return 0;
}

/* Takes a file at the top or in a subdirectory, or what stands in the place of one. */
static int take_file(struct visited_directory *place, const char *name, const char *path,
		     const struct stat *st, struct err *err)
{
	struct auxiliary_walk *walk = place->walk;

	if (!*place->below && (is_written(name) || is_report(place, name) ||
			       checkpoint_has_shard(walk->checkpoint, name) ||
			       (walk->checkpoint->n_parts && text_ends(name, TORCH_INDEX_END))))
		return 0;
	if (is_left_out(place, name)) {
		listing_add(&walk->left, xstrdup(path));
		return 0;
	}
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_INPUT,
			       "'%s/%s' is not a file, so that no copy can be made: remove or "
			       "replace it",
			       place->full, name);
	if (!st->st_size && is_companion_name(name))
		return err_set(err, ERR_INPUT, "'%s/%s' is empty: copy or download it again",
			       place->full, name);
	listing_add(&walk->files, xstrdup(path));
	return 0;
}

/* Counts the directories on a path, itself one. */
static int depth_of(const char *path)
{
	int depth = 1;

	while ((path = strchr(path, '/')) && *path++)
		depth++;
	return depth;
}

static int take_directory(struct visited_directory *place, const char *name, const char *path,
			  bool is_link, struct err *err)
{
	struct auxiliary_walk *walk = place->walk;
	char *full = xasprintf("%s/%s", place->full, name);
	int rc = 0;

	if (is_companion_name(name))
		rc = err_set(
			err, ERR_INPUT,
			"'%s' is a directory, but has the name of a file: remove or replace it",
			full);
	else if (is_link)
		listing_add(&walk->left, xasprintf("%s/", path));
	else if (depth_of(path) > MAX_DEPTH)
		rc = err_set(
			err, ERR_INPUT,
			"directory '%s' is %d levels deep, more than the limit (%d): remove it",
			full, depth_of(path), MAX_DEPTH);
	else if (!io_exists_in(walk->checkpoint->io, full, MANIFEST_NAME)) /* no output of ours */
		listing_add(&walk->directories, xstrdup(path));
	free(full);
	return rc;
}

/* Takes what lies at a path.  full: with the model's directory. */
static int take(struct visited_directory *place, const char *name, const char *path,
		const char *full, struct err *err)
{
	const struct io *io = place->walk->checkpoint->io;
	struct stat st;
	bool is_link;

	if (io->fstatat(io, AT_FDCWD, full, &st, AT_SYMLINK_NOFOLLOW))
		return io_failed(io, err, "cannot read the state of '%s'", path);
	is_link = S_ISLNK(st.st_mode);
	if (is_link && io->fstatat(io, AT_FDCWD, full, &st, 0)) {
		if (errno != ENOENT && errno != ELOOP && errno != ENOTDIR)
			return io_failed(io, err, "cannot read the state of '%s'", full);
		if (!is_left_out(place, name))
			return err_set(err, ERR_INPUT,
				       "'%s' is a link %s: copy or download the model again", full,
				       errno == ELOOP ? "in a loop of links"
						      : "to a file that does not exist");
		st.st_mode = S_IFREG;
	}
	if (S_ISDIR(st.st_mode))
		return take_directory(place, name, path, is_link, err);
	return take_file(place, name, path, &st, err);
}

static bool is_visible(const void *context, const char *name)
{
	(void)context;
	return name[0] != '.';
}

/* Reads one directory; "" is the top. */
static int read_directory(struct auxiliary_walk *walk, const char *below, struct err *err)
{
	const char *top = walk->checkpoint->directory;
	char *full = *below ? xasprintf("%s/%s", top, below) : xstrdup(top);
	struct visited_directory place = { .walk = walk, .below = below, .full = full };
	int rc = listing_names(&place.names,
			       &(struct directory){ walk->checkpoint->io, AT_FDCWD, full, full },
			       is_visible, NULL, err);

	if (!rc)
		rc = judge_weights(&place, err);
	for (size_t i = 0; i < place.names.n && !rc; i++) {
		const char *item = place.names.items[i];
		char *path = xasprintf("%s%s%s", below, *below ? "/" : "", item);
		char *name = xasprintf("%s/%s", full, item);

		rc = take(&place, item, path, name, err);
		free(path);
		free(name);
	}
	listing_release(&place.names);
	free(full);
	return rc;
}

static int walk_run(struct auxiliary_walk *walk, const struct checkpoint *checkpoint,
		    struct err *err)
{
	int rc = 0;

	*walk = (struct auxiliary_walk){ .checkpoint = checkpoint };
	if (checkpoint->directory)
		listing_add(&walk->directories, xstrdup(""));
	while (walk->directories.n && !rc) {
		char *below = walk->directories.items[--walk->directories.n];

		rc = read_directory(walk, below, err);
		free(below);
	}
	listing_release(&walk->directories);
	return rc;
}

/* Hands over one listing of the walk and releases the other; an empty one after a failure. */
static int hand_over(struct listing *wanted, struct listing *other, int rc, struct listing *files)
{
	listing_release(other);
	if (rc) {
		listing_release(wanted);
		*wanted = (struct listing){ 0 };
	}
	*files = *wanted;
	listing_sort(files);
	return rc;
}

int checkpoint_auxiliary(const struct checkpoint *checkpoint, struct listing *files,
			 struct err *err)
{
	struct auxiliary_walk walk;
	int rc = walk_run(&walk, checkpoint, err);

	return hand_over(&walk.files, &walk.left, rc, files);
}

int checkpoint_left_out(const struct checkpoint *checkpoint, struct listing *files, struct err *err)
{
	struct auxiliary_walk walk;
	int rc = walk_run(&walk, checkpoint, err);

	return hand_over(&walk.left, &walk.files, rc, files);
}
