/* SPDX-License-Identifier: Apache-2.0 */
#include "delta/held.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/mem.h"

int held_init(struct held_chunks *held, const struct outdir *dir, const char *name, size_t n,
	      struct err *err)
{
	*held = (struct held_chunks){ .dir = dir, .file = { dir->io, -1, NULL } };
	held->name = outdir_own_name(name, "held");
	held->path = xasprintf("%s/%s", dir->path, held->name);
	held->file.name = held->path;
	held->list = xcalloc(n + 1, sizeof *held->list);
	held->frame = malloc(CHUNK_FRAME_MAX);
	return held->frame ? 0 : err_no_memory(err, "no memory for what changed");
}

/* The file loses its name at once, and its space when this process ends. */
static int open_file(struct held_chunks *held, struct err *err)
{
	const struct outdir *dir = held->dir;

	held->file.fd = io_openat(dir->io, dir->fd, held->name,
				  O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (held->file.fd < 0)
		return err_errno(err, "cannot create '%s'", held->path);
	return outdir_remove(dir, held->name, err);
}

int held_put(struct held_chunks *held, size_t i, const struct chunk_row *row, const void *frame,
	     struct err *err)
{
	held->list[i] = (struct held_chunk){ true, *row, held->size };
	if (!row->count)
		return 0;
	if (held->file.fd < 0 && open_file(held, err))
		return -1;
	if (io_pwrite_full(&held->file, frame, row->size, held->size, err))
		return -1;
	held->size += row->size;
	return 0;
}

int held_get(struct held_chunks *held, size_t i, struct err *err)
{
	const struct held_chunk *chunk = &held->list[i];

	return chunk->row.count ? io_pread_full(&held->file, held->frame, chunk->row.size,
						chunk->offset, err)
				: 0;
}

void held_release(struct held_chunks *held)
{
	if (held->list && held->file.fd >= 0)
		held->file.io->close(held->file.io, held->file.fd);
	free(held->name);
	free(held->path);
	free(held->list);
	free(held->frame);
}
