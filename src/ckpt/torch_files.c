/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/torch_files.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/gathered.h"
#include "ckpt/index.h"
#include "ckpt/mistaken.h"
#include "torch/archive.h"
#include "torch/distcp.h"

#define DISTCP_NAME ".metadata"
#define DISTCP_END  ".distcp"
#define INDEX_LIMIT (512u << 20) /* bytes */

bool torch_files_is_name(const char *path)
{
	static const char *const ends[] = { ".bin", DISTCP_END,	     ".pt",
					    ".pth", TORCH_INDEX_END, ("/" DISTCP_NAME) };

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (text_ends(path, ends[i]))
			return true;
	return !strcmp(path, DISTCP_NAME);
}

/* Returns the name of the output: "pytorch_model-00001-of-00002.bin" has the number of its set. */
static char *output_name(const char *path)
{
	const char *name = text_after(path, '/');

	if (fnmatch("pytorch_model-[0-9]*-of-[0-9]*.bin", name, 0))
		return xstrdup(MODEL_NAME);
	name += strlen("pytorch_");
	return xasprintf("%.*s.safetensors", (int)(strlen(name) - strlen(".bin")), name);
}

/* Reads the table of tensors of an open file. */
static int read_table(struct archive *archive, const struct file *file,
		      const struct file_identity *identity, struct err *err)
{
	const struct archive_place place = { file, 0, identity->size };
	unsigned char start[4] = { 0 };

	if (identity->size < sizeof start)
		return err_set(err, ERR_INPUT,
			       "'%s' has %" PRIu64 " bytes, too few for a file of torch.save(): "
			       "copy or download it again",
			       file->name, (uint64_t)identity->size);
	if (io_pread_full(file, start, sizeof start, 0, err))
		return -1;
	if (memcmp(start, "PK\3\4", 4) != 0)
		return err_set(err, ERR_INPUT,
			       "'%s' is not a zip archive, as torch.save() writes since 1.6: load "
			       "it with torch and save it again",
			       file->name);
	if (archive_read(archive, &place, err))
		return -1;
	if (!archive->n)
		return err_set(err, ERR_INPUT, "'%s' has None in the place of tensors", file->name);
	return io_check_unchanged(file, identity, err);
}

/* Adds the states that lie in the pickle. */
static void add_states(struct checkpoint *checkpoint, struct archive *archive)
{
	for (size_t i = 0; i < archive->n_states; i++) {
		const struct archive_state *state = &archive->states[i];
		const uint64_t n = state->n;
		struct st_tensor *tensor = arena_alloc(&archive->texts, sizeof *tensor);

		*tensor = (struct st_tensor){ .name = state->name,
					      .dtype = DT_U8,
					      .n_dims = 1,
					      .shape = st_shape_copy(&archive->texts, &n, 1),
					      .end = n };
		checkpoint_add_state(checkpoint,
				     &(struct extra_state){ .ref = { tensor, checkpoint->n_shards },
							    .bytes = state->bytes });
	}
}

/* Makes records of the tensors, whose arrays move from the archive to the shard. */
static int add_shard(struct checkpoint *checkpoint, const char *path, struct archive *archive,
		     struct err *err)
{
	struct slice_record *records = xcalloc(archive->n + 1, sizeof *records);
	static const uint64_t zeros[TORCH_MAX_DIMS];
	char *name = output_name(path);
	int rc;

	for (size_t i = 0; i < archive->n; i++) {
		const struct torch_tensor *tensor = &archive->tensors[i];

		records[i] = (struct slice_record){
			.name = tensor->name,
			.dtype = tensor->dtype,
			.n_dims = tensor->n_dims,
			.shape = tensor->shape,
			.piece = { checkpoint->n_parts - 1, tensor->at, zeros, tensor->shape,
				   tensor->strides },
		};
	}
	add_states(checkpoint, archive);
	rc = gathered_add(checkpoint, name, records, archive->n, &archive->texts, err);
	free(records);
	free(name);
	return rc;
}

static int open_file(struct checkpoint *checkpoint, const char *path, struct err *err)
{
	struct file file = { .io = checkpoint->io, .name = path };
	struct st_file part = { 0 };
	struct archive archive = { 0 };
	int rc;

	if (io_open_regular(checkpoint->io, AT_FDCWD, path, &file.fd, &part.identity, err))
		return -1;
	rc = read_table(&archive, &file, &part.identity, err);
	checkpoint->io->close(checkpoint->io, file.fd);
	if (!rc) {
		part.path = xstrdup(path);
		gathered_add_part(checkpoint, &part);
		rc = add_shard(checkpoint, path, &archive, err);
	}
	archive_release(&archive);
	return rc;
}

static int open_index(struct checkpoint *checkpoint, const char *path, struct err *err)
{
	struct weight_index index = { 0 };
	struct buf text = { 0 };
	int rc = io_read_file(checkpoint->io, AT_FDCWD, path, INDEX_LIMIT, &text, err);

	if (!rc)
		rc = index_read(&index, (struct json_text){ text.data, text.len }, path, err);
	for (size_t i = 0; i < index.n && !rc; i += index_run(&index, i)) {
		char *file = xasprintf("%.*s%s", (int)(text_after(path, '/') - path), path,
				       index.entries[i].shard);

		rc = open_file(checkpoint, file, err);
		if (!rc)
			rc = index_compare(&index, i,
					   &checkpoint->shards[checkpoint->n_shards - 1].file, path,
					   NULL, err);
		free(file);
	}
	index_release(&index);
	buf_release(&text);
	return rc;
}

/* --- torch.distributed.checkpoint --- */

/* Opens a file and adds it as a part; *file is open then. */
static int open_part(struct checkpoint *checkpoint, char *path, struct file *file, struct err *err)
{
	struct st_file part = { .path = path };

	*file = (struct file){ checkpoint->io, -1, path };
	if (io_open_regular(checkpoint->io, AT_FDCWD, path, &file->fd, &part.identity, err)) {
		free(path);
		return -1;
	}
	gathered_add_part(checkpoint, &part);
	return 0;
}

/* Makes the record of a slice, whose archive lies in the last part. */
static int add_slice(const struct checkpoint *checkpoint, const struct distcp_slice *slice,
		     const struct file *file, struct archive *archive, struct slice_record *record,
		     struct err *err)
{
	const struct shard *part = &checkpoint->parts[checkpoint->n_parts - 1];
	const struct torch_tensor *tensor;

	if (slice->begin > part->file.identity.size ||
	    slice->length > part->file.identity.size - slice->begin)
		return err_set(err, ERR_INPUT,
			       "slice of tensor '%s' ends after the end of '%s': copy or download "
			       "the file again",
			       slice->name, file->name);
	if (archive_read_tensor(archive,
				&(struct archive_place){ file, slice->begin, slice->length },
				slice->name, err))
		return -1;
	tensor = &archive->tensors[archive->n - 1];
	if (tensor->dtype != slice->dtype || tensor->n_dims != slice->n_dims ||
	    memcmp(tensor->shape, slice->sizes, (size_t)slice->n_dims * sizeof *slice->sizes) != 0)
		return err_set(err, ERR_INPUT,
			       "slice of tensor '%s' in '%s' has another type or shape than "
			       ".metadata states",
			       slice->name, file->name);
	*record = (struct slice_record){
		.name = slice->name,
		.dtype = slice->dtype,
		.n_dims = slice->n_dims,
		.shape = slice->shape,
		.piece = { checkpoint->n_parts - 1, tensor->at, slice->offsets, slice->sizes,
			   tensor->strides },
	};
	return 0;
}

/* Opens the slices of one file, from `first` on.  Returns the index after the last one, or 0. */
static size_t open_slices(struct checkpoint *checkpoint, const struct distcp *distcp, size_t first,
			  struct archive *archive, struct slice_record *records, struct err *err)
{
	const char *name = distcp->slices[first].file;
	size_t i = first;
	struct file file;
	int rc = 0;

	if (open_part(checkpoint,
		      xasprintf("%.*s%s",
				(int)(text_after(checkpoint->path, '/') - checkpoint->path),
				checkpoint->path, name),
		      &file, err))
		return 0;
	for (; !rc && i < distcp->n && !strcmp(distcp->slices[i].file, name); i++)
		rc = add_slice(checkpoint, &distcp->slices[i], &file, archive, &records[i], err);
	checkpoint->io->close(checkpoint->io, file.fd);
	return rc ? 0 : i;
}

static int open_distcp(struct checkpoint *checkpoint, const char *path, struct err *err)
{
	struct distcp distcp = { 0 };
	struct archive archive = { 0 };
	struct slice_record *records = NULL;
	struct buf text = { 0 };
	size_t first = 0;
	int rc = io_read_file(checkpoint->io, AT_FDCWD, path, PICKLE_LIMIT, &text, err);

	if (!rc)
		rc = distcp_read(
			&distcp,
			&(struct pickle_text){ path, (unsigned char *)text.data, text.len }, err);
	buf_release(&text);
	records = xcalloc(distcp.n + 1, sizeof *records);
	while (!rc && first < distcp.n) {
		first = open_slices(checkpoint, &distcp, first, &archive, records, err);
		rc = first ? 0 : -1;
	}
	checkpoint->extra = archive.texts;
	archive.texts = (struct arena){ 0 };
	if (!rc)
		rc = gathered_add(checkpoint, MODEL_NAME, records, distcp.n, &distcp.texts, err);
	free(records);
	archive_release(&archive);
	distcp_release(&distcp);
	return rc;
}

int torch_files_open(struct checkpoint *checkpoint, const char *path, struct err *err)
{
	if (text_ends(path, DISTCP_NAME))
		return open_distcp(checkpoint, path, err);
	if (text_ends(path, DISTCP_END)) {
		char *metadata =
			xasprintf("%.*s" DISTCP_NAME, (int)(text_after(path, '/') - path), path);
		int rc = open_distcp(checkpoint, metadata, err);

		free(metadata);
		return rc;
	}
	return text_ends(path, TORCH_INDEX_END) ? open_index(checkpoint, path, err)
						: open_file(checkpoint, path, err);
}

int torch_files_check(const struct checkpoint *checkpoint, const atomic_int *stop, struct err *err)
{
	for (size_t i = 0; i < checkpoint->n_parts; i++) {
		const struct st_file *part = &checkpoint->parts[i].file;
		struct file file = { .io = checkpoint->io, .name = part->path };
		const struct archive_place place = { &file, 0, part->identity.size };
		struct file_identity identity;
		int rc;

		/* a .distcp is many archives, one behind the other */
		if (!torch_files_is_name(part->path) || text_ends(part->path, DISTCP_END))
			continue;
		if (io_open_regular(checkpoint->io, AT_FDCWD, part->path, &file.fd, &identity, err))
			return -1;
		rc = io_check_unchanged(&file, &part->identity, err);
		rc = rc ? rc : archive_check(&place, stop, err);
		checkpoint->io->close(checkpoint->io, file.fd);
		if (rc)
			return -1;
	}
	return 0;
}

static bool is_wanted(const void *context, const char *name)
{
	(void)context;
	return name[0] != '.' && torch_files_is_name(name) && !text_ends(name, TORCH_INDEX_END) &&
	       !text_ends(name, DISTCP_END);
}

char *torch_files_find(const struct io *io, const char *directory, struct err *err)
{
	static const char *const names[] = { ("pytorch_model" TORCH_INDEX_END), "pytorch_model.bin",
					     DISTCP_NAME };
	struct listing found = { 0 };
	char *path = NULL;

	if (mistaken_trainer(io, directory, err))
		return NULL;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (io_exists_in(io, directory, names[i]))
			return xasprintf("%s/%s", directory, names[i]);
	if (listing_names(&found, &(struct directory){ io, AT_FDCWD, directory, directory },
			  is_wanted, NULL, err))
		return NULL;
	if (found.n == 1)
		path = xasprintf("%s/%s", directory, found.items[0]);
	else if (found.n)
		err_set(err, ERR_INPUT,
			"'%s' has %zu files of torch.save() without an index ('%s', '%s'%s): give "
			"one of them",
			directory, found.n, found.items[0], found.items[1],
			found.n > 2 ? ", ..." : "");
	else
		err_set(err, ERR_INPUT,
			"found no file of torch.save() and no " DISTCP_NAME
			" of torch.distributed in '%s'",
			directory);
	listing_release(&found);
	return path;
}
