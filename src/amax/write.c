/* SPDX-License-Identifier: Apache-2.0 */
#include "amax/amax.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/writer.h"

/* The file to write: its tensors, and the memory of each. */
struct tensor_list {
	size_t n;
	struct st_tensor *tensors;
	const void **data;
	uint64_t (*shapes)[2];
};

static void list_part(struct tensor_list *listing, const struct amax_site *site,
		      enum amax_part part)
{
	const struct amax_tensor *row = &amax_tensors[part];
	size_t i = listing->n++;

	listing->shapes[i][0] = row->shape[0] ? row->shape[0] : site->n_passes;
	listing->shapes[i][1] = row->shape[1];
	listing->data[i] = amax_site_part(site, part);
	listing->tensors[i] = (struct st_tensor){
		.name = xasprintf("%s%s", site->name, row->suffix),
		.dtype = row->dtype,
		.n_dims = row->n_dims,
		.shape = listing->shapes[i],
	};
}

static void listing_make(struct tensor_list *listing, const struct amax_stats *stats)
{
	size_t max = 3 * stats->n_sites;

	listing->tensors = xreallocarray(NULL, max, sizeof *listing->tensors);
	listing->data = xreallocarray(NULL, max, sizeof *listing->data);
	listing->shapes = xreallocarray(NULL, max, sizeof *listing->shapes);
	for (size_t i = 0; i < stats->n_sites; i++) {
		const struct amax_site *site = stats->sites[i];

		list_part(listing, site,
			  site->kind == AMAX_GEMM ? AMAX_PART_HISTORY : AMAX_PART_QKV);
		list_part(listing, site, AMAX_PART_TOKENS);
		if (site->histogram)
			list_part(listing, site, AMAX_PART_HISTOGRAM);
	}
}

static void listing_release(struct tensor_list *listing)
{
	for (size_t i = 0; i < listing->n; i++)
		free(listing->tensors[i].name);
	free(listing->tensors);
	free(listing->data);
	free(listing->shapes);
}

#define MAX_METADATA 16

static void metadata_add(struct st_metadata *metadata, size_t *n, const char *key, char *value)
{
	/* NOLINTNEXTLINE(performance-no-int-to-ptr): removes const; it is only read */
	metadata[(*n)++] = (struct st_metadata){ .key = (char *)(uintptr_t)key, .value = value };
}

static size_t metadata_make(struct st_metadata *metadata, const struct amax_stats *stats)
{
	const char *base = (const char *)stats;
	size_t n = 0;

	metadata_add(metadata, &n, "format", xstrdup("pt"));
	metadata_add(metadata, &n, AMAX_VERSION_KEY, xstrdup(AMAX_VERSION));
	metadata_add(metadata, &n, "tool", xstrdup("fp8conv " FP8CONV_VERSION));
	metadata_add(metadata, &n, "data",
		     xasprintf("%016" PRIx64 "%016" PRIx64, stats->data[0], stats->data[1]));
	for (const struct amax_count *count = amax_counts; count->key; count++)
		metadata_add(metadata, &n, count->key,
			     xasprintf("%" PRIu64, *(const uint64_t *)(base + count->offset)));
	if (stats->n_planned > stats->n_passes)
		metadata_add(metadata, &n, amax_planned.key,
			     xasprintf("%" PRIu64, stats->n_planned));
	if (stats->rank.n) {
		metadata_add(metadata, &n, AMAX_RANK_KEY,
			     xasprintf("%" PRIu64 "/%" PRIu64, stats->rank.index, stats->rank.n));
		metadata_add(metadata, &n, AMAX_JOB_KEY, xstrdup(stats->rank.job));
	}
	for (const struct amax_text *text = amax_texts; text->key; text++)
		metadata_add(metadata, &n, text->key,
			     xstrdup(*(char *const *)(base + text->offset)));
	return n;
}

static int write_tensors(struct writer *writer, const struct tensor_list *listing, uint64_t start,
			 struct err *err)
{
	for (size_t i = 0; i < listing->n; i++) {
		const struct st_tensor *tensor = &listing->tensors[i];

		if (writer_pwrite(writer, listing->data[i], (size_t)st_tensor_size(tensor),
				  start + tensor->begin, err))
			return -1;
	}
	return 0;
}

int amax_stats_put(const struct amax_stats *stats, const struct outfile *place, struct err *err)
{
	struct st_metadata metadata[MAX_METADATA];
	size_t n_metadata = metadata_make(metadata, stats);
	struct tensor_list listing = { 0 };
	struct writer writer = { 0 };
	struct buf header = { 0 };
	uint64_t header_size, data_size;
	uint32_t crc;
	int rc = -1;

	listing_make(&listing, stats);
	st_layout(listing.tensors, listing.n, metadata, n_metadata, &header_size, &data_size);
	st_header(listing.tensors, listing.n, metadata, n_metadata, &header);
	if (writer_open(&writer, &place->dir, place->name, &header, header_size + data_size, err) ||
	    write_tensors(&writer, &listing, header_size, err) || writer_commit(&writer, &crc, err))
		goto out;
	rc = 0;
out:
	writer_release(&writer);
	buf_release(&header);
	listing_release(&listing);
	for (size_t i = 0; i < n_metadata; i++)
		free(metadata[i].value);
	return rc;
}

int amax_outfile_check(const struct outfile *place, const char *path, struct err *err)
{
	const struct io *io = place->dir.io;
	struct st_file file = { 0 };
	struct file_identity identity;
	bool is_one;
	int fd, rc;

	if (!outdir_has(&place->dir, place->name))
		return 0;
	if (io_open_regular(io, place->dir.fd, place->name, &fd, &identity, err))
		return err_wrap(err, "cannot replace '%s'", path);
	rc = st_open_fd(&file, io, fd, path, err);
	is_one = !rc && amax_is_file(&file);
	st_release(&file);
	/* Clang-tidy believes that err_set() may return 0. */
	/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	io->close(io, fd);
	if (is_one || (rc && err->kind == ERR_SYSTEM))
		return rc;
	return err_set(err, ERR_USAGE,
		       "'%s' exists and is not an amax file: choose another output or remove it",
		       path);
}

int amax_stats_write(const struct amax_stats *stats, const struct io *io, const char *path,
		     struct err *err)
{
	struct outfile place = { 0 };
	int rc = outfile_open(&place, io, path, err) || amax_outfile_check(&place, path, err) ||
				 amax_stats_put(stats, &place, err)
			 ? -1
			 : 0;

	outfile_close(&place);
	return rc;
}
