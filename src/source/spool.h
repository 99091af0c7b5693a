/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard input and output as files.  A safetensors file has the scales (F32) before the codes, so
 * no output can be sent before all input is read.  Both sides of a pipe are spooled to unlinked
 * temporary files, and memory stays bounded.  ERR_INTERRUPTED after a signal.
 */
#ifndef FP8CONV_SOURCE_SPOOL_H
#define FP8CONV_SOURCE_SPOOL_H

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"

/* Sets *fd to standard input itself if it is a regular file at its beginning, else to an unlinked
 * copy of it in temp_dir (PROGRESS_SPOOL). */
int spool_read(const struct io *io, const char *temp_dir, struct progress *progress, int *fd,
	       struct err *err);

/* Copies size bytes of fd to standard output (PROGRESS_SEND). */
int spool_send(const struct io *io, int fd, uint64_t size, struct progress *progress,
	       struct err *err);

#endif
