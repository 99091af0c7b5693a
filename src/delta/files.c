/* SPDX-License-Identifier: Apache-2.0 */
#include "delta/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "ckpt/checksum.h"
#include "ckpt/index.h"
#include "ckpt/mistaken.h"
#include "delta/tensors.h"

#define LEVEL	   3
#define PIECE	   ((size_t)1 << 20)
#define PATH_LIMIT 4095 /* bytes */

int delta_directory(const struct checkpoint *checkpoint, struct err *err)
{
	int fd = io_openat(checkpoint->io, AT_FDCWD, checkpoint->directory,
			   O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		io_failed(checkpoint->io, err, "cannot open directory '%s'", checkpoint->directory);
	return fd;
}

static int check_layout(const struct checkpoint *checkpoint, struct err *err)
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

int delta_checkpoint_open(struct delta_checkpoint *open, const struct io *io, const char *path,
			  int n_threads, struct err *err)
{
	const struct checkpoint *checkpoint = &open->checkpoint;
	struct tensor_ref *ref;

	if (mistaken_torch(io, path, "a delta is of .safetensors files, so save it as such first",
			   err) ||
	    checkpoint_open(&open->checkpoint, io, path, n_threads, err))
		return -1;
	source_init(&open->source, io, checkpoint, NULL, -1);
	if (check_layout(checkpoint, err))
		return -1;
	for (size_t i = 0; i < checkpoint->n_shards; i++)
		open->n_tensors += checkpoint->shards[i].file.n_tensors;
	open->tensors = ref = xcalloc(open->n_tensors + 1, sizeof *ref);
	for (size_t i = 0; i < checkpoint->n_shards; i++)
		for (size_t t = 0; t < checkpoint->shards[i].file.n_tensors; t++)
			*ref++ = (struct tensor_ref){ &checkpoint->shards[i].file.tensors[t], i };
	return 0;
}

void delta_checkpoint_release(struct delta_checkpoint *open)
{
	if (open->source.checkpoint)
		source_release(&open->source);
	free(open->tensors);
	checkpoint_release(&open->checkpoint);
	*open = (struct delta_checkpoint){ 0 };
}

bool delta_leaves_out(const char *path, mode_t type)
{
	const char *slash = strrchr(path, '/');

	return (slash ? slash[1] : *path) == '.' ||
	       !(type == S_IFREG || type == S_IFDIR || type == S_IFLNK);
}

const char *delta_name_problem(const char *path)
{
	const struct json_text text = { path, strlen(path) };

	if (!text.len || text.len > PATH_LIMIT || *path == '/' || path[text.len - 1] == '/' ||
	    strstr(path, "//"))
		return "is not a path below a directory";
	if (*path == '.' || strstr(path, "/."))
		return "begins with a dot";
	if (st_has_control(path))
		return "contains a control character";
	return json_utf8_prefix(text) < text.len ? "is not UTF-8" : NULL;
}

/* ERR_INPUT where delta_open() would refuse the name of a file. */
static int check_name(const char *name, bool is_weights, struct err *err)
{
	const char *problem = is_weights ? shard_name_problem(name, false) : NULL;

	problem = problem ? problem : delta_name_problem(name);
	return problem ? err_set(err, ERR_INPUT, "the name of '%s' %s: rename it", name, problem)
		       : 0;
}

int delta_files_list(const struct checkpoint *checkpoint, int dirfd, struct listing *files,
		     struct err *err)
{
	struct listing all = { 0 };
	struct stat st;
	int rc = listing_files(checkpoint->io, dirfd, checkpoint->directory, delta_leaves_out, &all,
			       err);

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

/* What a frame is made of: a text, or the beginning of an open file. */
struct content {
	const struct buf *text; /* NULL: the file */
	struct file file;
	struct file_identity identity; /* that the file must have at the end */
	uint64_t n;		       /* bytes */
};

/* Opens the first n bytes (UINT64_MAX: all) of a file. */
static int content_open(struct content *content, const struct io *io, int dirfd, const char *name,
			uint64_t n, struct err *err)
{
	*content = (struct content){ .file = { io, -1, name } };
	if (io_open_regular(io, dirfd, name, &content->file.fd, &content->identity, err))
		return -1;
	content->n = n == UINT64_MAX ? content->identity.size : n;
	return 0;
}

static int content_read(const struct content *content, void *data, size_t n, uint64_t at,
			struct err *err)
{
	if (!content->text)
		return io_pread_full(&content->file, data, n, at, err);
	memcpy(data, content->text->data + at, n);
	return 0;
}

/* Appends the content as a frame, whose size goes to *size, and closes it.  Frames do not depend on
 * where the bytes come from: zstd gets the same pieces. */
static int put_content(struct delta_files *files, struct content *content, uint64_t *size,
		       struct err *err)
{
	const struct file *file = &content->file;
	struct packed_frame frame;
	char *piece = xmalloc(PIECE);
	uint64_t at = 0, n = content->n;
	int rc = frame_begin(&frame, files, n, err);

	do {
		size_t part = n - at < PIECE ? (size_t)(n - at) : PIECE;

		rc = rc ? rc : content_read(content, piece, part, at, err);
		at += part;
		rc = rc ? rc : frame_add(&frame, piece, part, at == n, err);
	} while (!rc && at < n);
	if (!content->text) {
		rc = rc ? rc : io_check_unchanged(file, &content->identity, err);
		file->io->close(file->io, file->fd);
	}
	*size = frame.size;
	frame_release(&frame);
	free(piece);
	return rc;
}

/* --- weight files --- */

static int put_header(struct delta_files *files, const struct result_shard *shard, struct err *err)
{
	const struct st_file *file = shard->file;
	struct content content = { .text = shard->header, .n = file->data_start };
	json_t *list = json_object_get(files->about, "weights");
	uint64_t size;

	if (check_name(shard->name, true, err) ||
	    (!shard->header &&
	     content_open(&content, files->io, AT_FDCWD, file->path, file->data_start, err)))
		return -1;
	content.identity = file->identity;
	if (put_content(files, &content, &size, err))
		return -1;
	json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "name", shard->name, "size",
					      (json_int_t)file->identity.size, "frame",
					      (json_int_t)size));
	return 0;
}

/* --- other files --- */

static bool listed(const struct listing *listing, const char *name)
{
	return listing->n &&
	       bsearch(&name, listing->items, listing->n, sizeof *listing->items, text_compare);
}

static int compare_name(const void *key, const void *named)
{
	return strcmp(key, *(const char *const *)named);
}

/* Has the result a weight file or another file of that name? */
static bool result_has(const struct delta_result *result, const char *name)
{
	return (result->n_shards && bsearch(name, result->shards, result->n_shards,
					    sizeof *result->shards, compare_name)) ||
	       (result->n_files &&
		bsearch(name, result->files, result->n_files, sizeof *result->files, compare_name));
}

static int hash_file(const struct delta_files *files, const struct delta_result *result,
		     const struct result_file *other, struct progress *progress,
		     struct sha256 *sha256, struct err *err)
{
	struct chunk_hash hash;

	if (!other->text)
		return checksum_sha256(files->io, result->dirfd, other->name, progress, sha256,
				       err);
	chunk_hash_make(&hash, other->text->data, other->text->len);
	text_hex(sha256->hex, hash.bytes, sizeof hash.bytes);
	sha256->identity = (struct file_identity){ .size = other->text->len };
	return 0;
}

/* Appends a file of the result, unless the base's file with the SHA-256 `was` (NULL: none) is the
 * same. */
static int put_other(struct delta_files *files, const struct delta_result *result,
		     const struct result_file *other, const struct sha256 *was,
		     struct progress *progress, struct err *err)
{
	struct content content = { .text = other->text };
	struct sha256 is;
	json_t *record;
	uint64_t size;

	if (check_name(other->name, false, err) ||
	    hash_file(files, result, other, progress, &is, err))
		return -1;
	record = json_pack("{s:s, s:I, s:s}", "name", other->name, "size",
			   (json_int_t)is.identity.size, "sha256", is.hex);
	json_array_append_new(json_object_get(files->about, "files"), record);
	if (was && !strcmp(was->hex, is.hex))
		return 0;
	if (!other->text &&
	    content_open(&content, files->io, result->dirfd, other->name, UINT64_MAX, err))
		return -1;
	content.n = is.identity.size;
	content.identity = is.identity;
	if (put_content(files, &content, &size, err))
		return -1;
	json_object_set_new(record, "frame", json_integer((json_int_t)size));
	files->n_carried++;
	return 0;
}

/* Lists a file of the base as removed, unless the result has it. */
static int put_removed(struct delta_files *files, const struct delta_result *result,
		       const char *name, struct err *err)
{
	if (result_has(result, name))
		return 0;
	if (check_name(name, false, err))
		return -1;
	json_array_append_new(json_object_get(files->about, "removed"), json_string(name));
	return 0;
}

static int put_others(struct delta_files *files, const struct checkpoint *base, int dirfd,
		      const struct delta_result *result, struct progress *progress, struct err *err)
{
	struct listing others = { 0 };
	int rc = delta_files_list(base, dirfd, &others, err);

	for (size_t i = 0; i < result->n_files && !rc; i++) {
		const struct result_file *other = &result->files[i];
		bool in_base = listed(&others, other->name);
		struct sha256 was;

		if (in_base)
			rc = checksum_sha256(files->io, dirfd, other->name, progress, &was, err);
		rc = rc ? rc
			: put_other(files, result, other, in_base ? &was : NULL, progress, err);
	}
	for (size_t i = 0; i < others.n && !rc; i++)
		rc = put_removed(files, result, others.items[i], err);
	for (size_t i = 0; i < base->n_shards && !rc; i++)
		rc = put_removed(files, result, base->shards[i].name, err);
	listing_release(&others);
	return rc;
}

int delta_files_write(struct delta_files *files, const struct checkpoint *base,
		      const struct delta_result *result, struct progress *progress, struct err *err)
{
	struct progress unwatched = { .stop = progress->stop };
	int dirfd = delta_directory(base, err), rc = dirfd < 0 ? -1 : 0;

	files->about = json_pack("{s:[], s:[], s:[]}", "weights", "files", "removed");
	for (size_t i = 0; i < result->n_shards && !rc; i++)
		rc = put_header(files, &result->shards[i], err);
	if (!rc)
		rc = put_others(files, base, dirfd, result, &unwatched, err);
	if (dirfd >= 0)
		files->io->close(files->io, dirfd);
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
