/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/outfile.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int outfile_open(struct outfile *file, const struct io *io, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char *directory, *lock;
	int rc;

	*file = (struct outfile){ .name = name };
	if (!*name)
		return err_set(err, ERR_USAGE, "'%s' is not the name of a file", path);
	directory =
		slash ? xstrndup(path, slash == path ? 1 : (size_t)(slash - path)) : xstrdup(".");
	lock = outdir_own_name(name, "lock");
	rc = outdir_open(&file->dir, io, directory, lock, false, err);
	if (file->dir.held) /* the lock is for the file, not for the directory */
		rc = err_set(err, ERR_SYSTEM,
			     "'%s' is in use by another fp8conv: try again after it ends", path);
	free(lock);
	free(directory);
	return rc;
}

void outfile_close(struct outfile *file)
{
	outdir_close(&file->dir);
}
