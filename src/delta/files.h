/* SPDX-License-Identifier: Apache-2.0
 *
 * What a delta has besides changes: the headers of the result's weight files, its other files where
 * they changed, and what describes both.
 *
 * Order: delta_files_write(); delta_about_write(); delta_files_release(), also after a failure.
 */
#ifndef FP8CONV_DELTA_FILES_H
#define FP8CONV_DELTA_FILES_H

#include <jansson.h>

#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "ckpt/listing.h"
#include "source/source.h"

/* A weight file of the result: its layout with the size of the file, and its first bytes; header
 * NULL: they are read from the file. */
struct result_shard {
	const char *name;
	const struct st_file *file;
	const struct buf *header;
};

/* Another file; text NULL: the file of that name in result.dirfd has its contents. */
struct result_file {
	const char *name;
	const struct buf *text;
};

/* The result besides the bytes of its tensors.  Both lists are sorted by name. */
struct delta_result {
	size_t n_shards;
	struct result_shard *shards;
	size_t n_files;
	struct result_file *files;
	int dirfd;
};

/* Set io, append and context, and zero the rest. */
struct delta_files {
	const struct io *io;
	int (*append)(void *context, const void *data, size_t n, struct err *err);
	void *context;
	json_t *about;
	size_t n_carried; /* other files that are in the delta */
};

/* Appends a frame for each header, and for each other file that the base has not, or has with other
 * bytes. */
int delta_files_write(struct delta_files *files, const struct checkpoint *base,
		      const struct delta_result *result, struct progress *progress,
		      struct err *err);

/* Appends the frame that describes them. */
int delta_about_write(struct delta_files *files, struct err *err);
void delta_files_release(struct delta_files *files);

/* Is it a path that a delta leaves out: hidden, or no file?  Hidden files are of this program, of
 * git or of downloads.  A listing_skips_fn. */
bool delta_leaves_out(const char *path, mode_t type);

/* Returns what keeps the path of a file out of a delta, such as "is not UTF-8", or NULL. */
const char *delta_name_problem(const char *path);

/* Lists the files of the open directory dirfd that are not weights of the checkpoint. */
int delta_files_list(const struct checkpoint *checkpoint, int dirfd, struct listing *files,
		     struct err *err);

/* An open checkpoint, and all tensors of its files in their order: states of modules too, which
 * checkpoint.tensors does not have.  Begins zeroed. */
struct delta_checkpoint {
	struct checkpoint checkpoint;
	struct source source;
	size_t n_tensors;
	struct tensor_ref *tensors; /* (n_tensors) */
};

/* ERR_INPUT; ERR_USAGE unless it is a directory of safetensors files.  The caller calls
 * delta_checkpoint_release(), also on failure. */
int delta_checkpoint_open(struct delta_checkpoint *open, const struct io *io, const char *path,
			  int n_threads, struct err *err);
void delta_checkpoint_release(struct delta_checkpoint *open);

/* Opens the checkpoint's directory.  Returns the descriptor, or -1. */
int delta_directory(const struct checkpoint *checkpoint, struct err *err);

#endif
