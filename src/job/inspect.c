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
	inspection->is_amax = strcmp(path, "-") != 0 && inspection->checkpoint.n_shards == 1 &&
			      amax_is_file(&inspection->checkpoint.shards[0].file);
	if (inspection->is_amax && amax_stats_read(&inspection->amax, io, inspection->checkpoint.shards[0].file.path, err))
		return -1;
	return fp8_source_recognise(&inspection->recognition, &inspection->checkpoint, io, err);
}

void inspect_release(struct inspection *inspection)
{
	amax_stats_release(&inspection->amax);
	recognition_release(&inspection->recognition);
	checkpoint_release(&inspection->checkpoint);
}
