/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs `delta` and `apply`: what changed between two checkpoints, byte by byte, in one file;
 * and the new checkpoint from the old one and that file.  fp8conv-formats(7) describes the file to
 * the byte.
 *
 * Both read each checkpoint once, in chunks, on all threads.  A base is known by the SHA-256 of its
 * tensors (tensors.h), however files hold them.
 */
#ifndef FP8CONV_DELTA_DELTA_H
#define FP8CONV_DELTA_DELTA_H

#include <jansson.h>
#include <stdbool.h>

#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "ckpt/checksum.h"
#include "delta/chunk.h"

#define DELTA_FORMAT "fp8conv-delta-1"

struct delta_params {
	const struct io *io;
	const char *base;   /* a directory */
	const char *result; /* of delta_make(): a directory */
	const char *delta;  /* the file: written by delta_make(), read by the others */
	const char *output; /* of delta_apply(): a directory; NULL: the base itself */
	int n_threads;	    /* >= 1 */
};

/* What was done. */
struct delta_counts {
	bool already;	       /* the result was there before */
	size_t n_tensors;      /* of the result */
	size_t n_changed;      /* of them, in any bit */
	uint64_t n_elements;   /* that are in the delta */
	size_t n_files;	       /* other files that are in it */
	size_t n_removed;      /* files that the result has not */
	uint64_t result_bytes; /* of the result's weight files */
	uint64_t delta_bytes;
	char base[SHA256_HEX], result[SHA256_HEX];
};

/* Writes what changed from the base to the result.  ERR_INPUT for what is no checkpoint or changes
 * meanwhile; ERR_USAGE where the output is another file; ERR_INTERRUPTED after a signal. */
int delta_make(const struct delta_params *params, struct delta_counts *counts,
	       struct progress *progress, struct err *err);

/* A weight file of the result. */
struct delta_shard {
	const char *name;    /* in `about` */
	struct buf header;   /* the first bytes of the file */
	struct st_file file; /* what they say */
};

/* Another file of the result. */
struct delta_entry {
	const char *name, *sha256; /* in `about` */
	uint64_t size;
	uint64_t offset, n_frame; /* of its frame in the file; n_frame 0: as in the base */
};

/* An open file. */
struct delta_file {
	struct file file;
	struct st_file st;
	char base[SHA256_HEX], result[SHA256_HEX];
	json_t *about;
	size_t n_shards;
	struct delta_shard *shards; /* by name */
	size_t n_files;
	struct delta_entry *files; /* by name */
	size_t n_removed;
	const char **removed; /* files that the base has, and the result has not */
	size_t n_tensors;
	struct tensor_ref *tensors; /* of the result, in the order of its files */
	size_t n_rows;
	struct chunk_row *rows; /* by tensor and chunk */
	uint64_t *offsets;	/* of their frames in the file */
};

/* Puts the damaged part of a delta in front of an ERR_INPUT, and what to do after it.  Returns
 * -1. */
int delta_wrap(const struct delta_file *delta, const char *part, const char *name, struct err *err);

/* Is the file at path one, by its header? */
bool delta_is_file(const struct io *io, const char *path);

/* Opens and checks one: all but the frames of changes and of files.  ERR_INPUT. */
int delta_open(struct delta_file *delta, const struct io *io, const char *path, struct err *err);
void delta_release(struct delta_file *delta);

/* Writes the result to params->output, or changes the base to it.  ERR_INPUT with both digests
 * where the base is another one: nothing is changed then. */
int delta_apply(const struct delta_params *params, struct delta_counts *counts,
		struct progress *progress, struct err *err);

/* Checks all that delta_apply() checks, and writes nothing. */
int delta_verify(const struct delta_params *params, struct delta_counts *counts,
		 struct progress *progress, struct err *err);

#endif
