/* SPDX-License-Identifier: Apache-2.0
 *
 * A file to write into a directory that is shared with other files.
 */
#ifndef FP8CONV_CKPT_OUTFILE_H
#define FP8CONV_CKPT_OUTFILE_H

#include "ckpt/outdir.h"

/* The file's directory, created if needed, and locked against other processes of fp8conv that write
 * this file while it is open.  A zeroed struct is safe to close. */
struct outfile {
	struct outdir dir;
	const char *name; /* in dir; points into the caller's path */
};

/* Opens the directory of path, which must outlive the struct.  ERR_SYSTEM where another process
 * writes this file. */
int outfile_open(struct outfile *file, const struct io *io, const char *path, struct err *err);
void outfile_close(struct outfile *file);

#endif
