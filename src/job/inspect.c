/* SPDX-License-Identifier: Apache-2.0 */
#include "job/inspect.h"

#include <string.h>

#include "job/fp8_source.h"
#include "job/stream.h"

static int open_stream(struct checkpoint *checkpoint, const struct io *io, const char *temp_dir, struct err *err)
{
	int fd;
	int rc;

	if (stream_spool(io, temp_dir, NULL, &fd, err))
		return -1;
	rc = checkpoint_open_fd(checkpoint, io, fd, "-", err);
	io->close(fd);
	return rc;
}

static int open_path(struct checkpoint *checkpoint, const struct io *io, const char *path, const char *temp_dir,
		     struct err *err)
{
	if (!strcmp(path, "-"))
		return open_stream(checkpoint, io, temp_dir, err);
	return checkpoint_open(checkpoint, io, path, 1, err);
}

int inspect_make(struct inspection *inspection, const struct io *io, const char *path, const char *temp_dir,
		 struct err *err)
{
	if (open_path(&inspection->checkpoint, io, path, temp_dir, err))
		return -1;
	return fp8_source_recognise(&inspection->recognition, &inspection->checkpoint, io, err);
}

void inspect_release(struct inspection *inspection)
{
	recognition_release(&inspection->recognition);
	checkpoint_release(&inspection->checkpoint);
}
