/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect/inspect.h"

#include <string.h>

#include "source/fp8_source.h"
#include "source/spool.h"

static int open_path(struct inspection *inspection, const struct io *io, const char *path,
		     const char *temp_dir, struct progress *progress, struct err *err)
{
	if (strcmp(path, "-") != 0)
		return checkpoint_open_part(&inspection->checkpoint, io, path, err);
	if (spool_read(io, temp_dir, progress, &inspection->stream_fd, err))
		return -1;
	inspection->spooled = true;
	return checkpoint_open_fd(&inspection->checkpoint, io, inspection->stream_fd, "-", err);
}

int inspect_make(struct inspection *inspection, const struct io *io, const char *path,
		 const char *temp_dir, struct progress *progress, struct err *err)
{
	struct err ignored; /* a description has no errors: such tensors are what they are */

	*inspection = (struct inspection){ .io = io, .stream_fd = -1 };
	if (open_path(inspection, io, path, temp_dir, progress, err))
		return -1;
	inspection->is_amax = strcmp(path, "-") != 0 && inspection->checkpoint.n_shards == 1 &&
			      amax_is_file(&inspection->checkpoint.shards[0].file);
	if (inspection->is_amax &&
	    amax_stats_read(&inspection->amax, io, inspection->checkpoint.shards[0].file.path, err))
		return -1;
	(void)low_bit_find(&inspection->low_bit, &inspection->checkpoint, &ignored);
	return fp8_source_detect(&inspection->detection, &inspection->checkpoint, io, err);
}

void inspect_release(struct inspection *inspection)
{
	amax_stats_release(&inspection->amax);
	detection_release(&inspection->detection);
	low_bit_release(&inspection->low_bit);
	if (inspection->spooled)
		inspection->io->close(inspection->io, inspection->stream_fd);
	checkpoint_release(&inspection->checkpoint);
}
