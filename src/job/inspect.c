/* SPDX-License-Identifier: Apache-2.0 */
#include "job/inspect.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "job/stream.h"

#define HF_QUANT_CONFIG	    "hf_quant_config.json"
#define HF_QUANT_CONFIG_MAX ((size_t)16 << 20) /* bytes; lists of modules make it long */

/* ModelOpt's own configuration, which older checkpoints have alone; empty where there is none. */
static int read_hf_quant_config(const struct checkpoint *checkpoint, const struct io *io,
				struct buf *text, struct err *err)
{
	char *path;
	int rc = 0;

	if (!checkpoint->directory)
		return 0;
	path = xasprintf("%s/" HF_QUANT_CONFIG, checkpoint->directory);
	if (access(path, F_OK) == 0)
		rc = io_read_file(io, AT_FDCWD, path, HF_QUANT_CONFIG_MAX, text, err);
	free(path);
	return rc;
}

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
	return checkpoint_open(checkpoint, io, path, err);
}

int inspect_make(struct inspection *inspection, const struct io *io, const char *path, const char *temp_dir,
		 struct err *err)
{
	struct buf text = { 0 };
	int rc = -1;

	if (open_path(&inspection->checkpoint, io, path, temp_dir, err) ||
	    read_hf_quant_config(&inspection->checkpoint, io, &text, err) ||
	    recognition_make_with(&inspection->recognition, &inspection->checkpoint,
				  (struct json_text){ text.data, text.len }, err))
		goto out;
	rc = 0;
out:
	buf_release(&text);
	return rc;
}

void inspect_release(struct inspection *inspection)
{
	recognition_release(&inspection->recognition);
	checkpoint_release(&inspection->checkpoint);
}
