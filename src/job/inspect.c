/* SPDX-License-Identifier: Apache-2.0 */
#include "job/inspect.h"

#include <string.h>

#include "job/fp8_source.h"
#include "job/stream.h"

static int open_path(struct inspection *inspection, const struct io *io, const char *path, const char *temp_dir,
		     struct err *err)
{
	if (strcmp(path, "-") != 0)
		return checkpoint_open(&inspection->checkpoint, io, path, 1, err);
	if (stream_spool(io, temp_dir, NULL, &inspection->stream_fd, err))
		return -1;
	inspection->spooled = true;
	return checkpoint_open_fd(&inspection->checkpoint, io, inspection->stream_fd, "-", err);
}

int inspect_make(struct inspection *inspection, const struct io *io, const char *path, const char *temp_dir,
		 struct err *err)
{
	*inspection = (struct inspection){ .io = io, .stream_fd = -1 };
	if (open_path(inspection, io, path, temp_dir, err))
		return -1;
	return fp8_source_recognise(&inspection->recognition, &inspection->checkpoint, io, err);
}

void inspect_release(struct inspection *inspection)
{
	recognition_release(&inspection->recognition);
	if (inspection->spooled)
		inspection->io->close(inspection->stream_fd);
	checkpoint_release(&inspection->checkpoint);
}
