/* SPDX-License-Identifier: Apache-2.0 */
#include "delta/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/checksum.h"

#define LEVEL 3
#define PIECE ((size_t)1 << 20)

int delta_directory(const struct checkpoint *checkpoint, struct err *err)
{
	int fd = io_openat(checkpoint->io, AT_FDCWD, checkpoint->directory,
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		io_failed(checkpoint->io, err, "cannot open directory '%s'", checkpoint->directory);
	return fd;
}

int delta_check_layout(const struct checkpoint *checkpoint, struct err *err)
{
	if (!checkpoint->directory)
		return err_set(err, ERR_USAGE,
			       "'%s' is a single file: give the directory of a checkpoint",
			       checkpoint->path);
	if (strstr(checkpoint->directory, "://"))
		return err_set(err, ERR_USAGE,
			       "'%s' is an address, and a delta is of all files of a directory: "
			       "download the model and give its directory",
			       checkpoint->path);
	if (checkpoint->n_parts ||
	    (checkpoint->n_shards && !text_ends(checkpoint->shards[0].name, ".safetensors")))
		return err_set(err, ERR_USAGE,
			       "'%s' does not have its weights in whole safetensors files: convert "
			       "it first",
			       checkpoint->path);
	return 0;
}

/* Hidden files are of this program, of git or of downloads. */
static bool leaves_out(const char *path, mode_t type)
{
	const char *slash = strrchr(path, '/');

	return (slash ? slash[1] : *path) == '.' ||
	       !(type == S_IFREG || type == S_IFDIR || type == S_IFLNK);
}

int delta_files_list(const struct checkpoint *checkpoint, int dirfd, struct listing *files,
		     struct err *err)
{
	struct listing all = { 0 };
	struct stat st;
	int rc = listing_files(checkpoint->io, dirfd, checkpoint->directory, leaves_out, &all, err);

	for (size_t i = 0; i < all.n && !rc; i++) {
		if (checkpoint_has_shard(checkpoint, all.items[i]) ||
		    checkpoint->io->fstatat(checkpoint->io, dirfd, all.items[i], &st, 0) ||
		    !S_ISREG(st.st_mode))
			continue;
		listing_add(files, xstrdup(all.items[i]));
	}
	listing_release(&all);
	return rc;
}

/* --- frames --- */

/* A frame that is made from bytes as they come. */
struct packed_frame {
	struct delta_files *files;
	ZSTD_CCtx *compressor;
	void *memory;
	uint64_t size; /* bytes so far */
};

static int frame_begin(struct packed_frame *frame, struct delta_files *files, uint64_t size,
		       struct err *err)
{
	*frame = (struct packed_frame){ files, ZSTD_createCCtx(), malloc(PIECE), 0 };
	if (!frame->compressor || !frame->memory)
		return err_no_memory(err, "no memory to compress what changed");
	ZSTD_CCtx_setParameter(frame->compressor, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(frame->compressor, ZSTD_c_checksumFlag, 1);
	ZSTD_CCtx_setPledgedSrcSize(frame->compressor, size);
	return 0;
}

static int frame_add(struct packed_frame *frame, const void *data, size_t n, bool last,
		     struct err *err)
{
	ZSTD_inBuffer in = { data, n, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { frame->memory, PIECE, 0 };

		left = ZSTD_compressStream2(frame->compressor, &out, &in,
					    last ? ZSTD_e_end : ZSTD_e_continue);
		if (ZSTD_isError(left))
			return err_set(err, ERR_SYSTEM, "zstd: %s", ZSTD_getErrorName(left));
		frame->size += out.pos;
		if (frame->files->append(frame->files->context, frame->memory, out.pos, err))
			return -1;
	} while (last ? left != 0 : in.pos < in.size);
	return 0;
}

static void frame_release(struct packed_frame *frame)
{
	ZSTD_freeCCtx(frame->compressor);
	free(frame->memory);
}

/* Appends n bytes of an open file as a frame, whose size goes to *size. */
static int put_file(struct delta_files *files, const struct file *file, uint64_t n, uint64_t *size,
		    struct err *err)
{
	struct packed_frame frame;
	char *piece = xmalloc(PIECE);
	uint64_t at = 0;
	int rc = frame_begin(&frame, files, n, err);

	do {
		size_t part = n - at < PIECE ? (size_t)(n - at) : PIECE;

		rc = rc ? rc : io_pread_full(file, piece, part, at, err);
		at += part;
		rc = rc ? rc : frame_add(&frame, piece, part, at == n, err);
	} while (!rc && at < n);
	*size = frame.size;
	frame_release(&frame);
	free(piece);
	return rc;
}

/* --- weight files --- */

static int put_header(struct delta_files *files, const struct shard *shard, struct err *err)
{
	struct file_identity identity;
	struct file file = { files->io, -1, shard->file.path };
	uint64_t n = shard->file.data_start, size;
	json_t *list = json_object_get(files->about, "weights");
	int rc;

	if (io_open_regular(files->io, AT_FDCWD, file.name, &file.fd, &identity, err))
		return -1;
	rc = put_file(files, &file, n, &size, err);
	if (!rc)
		rc = io_check_unchanged(&file, &shard->file.identity, err);
	files->io->close(files->io, file.fd);
	if (!rc)
		json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", shard->name,
						      "size", (json_int_t)shard->file.identity.size,
						      "frame", (json_int_t)size));
	return rc;
}

/* --- other files --- */

static bool listed(const struct listing *listing, const char *name)
{
	return listing->n &&
	       bsearch(&name, listing->items, listing->n, sizeof *listing->items, text_compare);
}

/* Appends a file of the result, unless the base has the same. */
static int put_other(struct delta_files *files, const int dirs[2], const char *name, bool in_base,
		     struct progress *progress, struct err *err)
{
	struct sha256 was, is;
	struct file file = { files->io, -1, name };
	struct file_identity identity;
	json_t *record;
	uint64_t size;
	int rc;

	if (checksum_sha256(files->io, dirs[1], name, progress, &is, err) ||
	    (in_base && checksum_sha256(files->io, dirs[0], name, progress, &was, err)))
		return -1;
	record = json_pack("{s:s, s:I, s:s}", "name", name, "size", (json_int_t)is.identity.size,
			   "sha256", is.hex);
	if (!record)
		return err_set(err, ERR_INPUT, "the name of '%s' is not UTF-8: rename it", name);
	json_array_append_new(json_object_get(files->about, "files"), record);
	if (in_base && !strcmp(was.hex, is.hex))
		return 0;
	if (io_open_regular(files->io, dirs[1], name, &file.fd, &identity, err))
		return -1;
	rc = put_file(files, &file, is.identity.size, &size, err);
	if (!rc)
		rc = io_check_unchanged(&file, &is.identity, err);
	files->io->close(files->io, file.fd);
	json_object_set_new(record, "frame", json_integer((json_int_t)size));
	files->n_carried++;
	return rc;
}

static int put_others(struct delta_files *files, const struct checkpoint sides[2],
		      const int dirs[2], struct progress *progress, struct err *err)
{
	struct listing lists[2] = { { 0 } };
	json_t *removed = json_object_get(files->about, "removed");
	int rc = 0;

	for (int s = 0; s < 2 && !rc; s++)
		rc = delta_files_list(&sides[s], dirs[s], &lists[s], err);
	for (size_t i = 0; i < lists[1].n && !rc; i++)
		rc = put_other(files, dirs, lists[1].items[i], listed(&lists[0], lists[1].items[i]),
			       progress, err);
	for (size_t i = 0; i < lists[0].n && !rc; i++)
		if (!listed(&lists[1], lists[0].items[i]) &&
		    !checkpoint_has_shard(&sides[1], lists[0].items[i]))
			json_array_append_new(removed, json_string(lists[0].items[i]));
	for (size_t i = 0; i < sides[0].n_shards && !rc; i++)
		if (!checkpoint_has_shard(&sides[1], sides[0].shards[i].name))
			json_array_append_new(removed, json_string(sides[0].shards[i].name));
	listing_release(&lists[0]);
	listing_release(&lists[1]);
	return rc;
}

int delta_files_write(struct delta_files *files, const struct checkpoint sides[2],
		      struct progress *progress, struct err *err)
{
	struct progress unwatched = { .stop = progress->stop };
	int dirs[2] = { -1, -1 }, rc = 0;

	files->about = json_pack("{s:[], s:[], s:[]}", "weights", "files", "removed");
	for (size_t i = 0; i < sides[1].n_shards && !rc; i++)
		rc = put_header(files, &sides[1].shards[i], err);
	for (int s = 0; s < 2 && !rc; s++) {
		dirs[s] = delta_directory(&sides[s], err);
		rc = dirs[s] < 0 ? -1 : 0;
	}
	if (!rc)
		rc = put_others(files, sides, dirs, &unwatched, err);
	for (int s = 0; s < 2; s++)
		if (dirs[s] >= 0)
			files->io->close(files->io, dirs[s]);
	return rc;
}

int delta_about_write(struct delta_files *files, struct err *err)
{
	char *text = json_dumps(files->about, JSON_COMPACT);
	struct packed_frame frame;
	int rc = frame_begin(&frame, files, strlen(text), err);

	if (!rc)
		rc = frame_add(&frame, text, strlen(text), true, err);
	frame_release(&frame);
	free(text);
	return rc;
}

void delta_files_release(struct delta_files *files)
{
	json_decref(files->about);
	files->about = NULL;
}
