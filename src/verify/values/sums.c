/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/values/sums.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"
#include "ckpt/checksum.h"
#include "ckpt/manifest.h"
#include "verify/steps.h"

#define CHUNK (256 << 10) /* bytes that are read for the sum alone */
#define LEAST 8192	  /* bytes of a piece: joining two takes as long as reading so many */

void sums_init(struct sums *sums, const struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	pthread_mutex_init(&sums->lock, NULL);
	sums->files = xcalloc(checkpoint->n_shards, sizeof *sums->files);
	for (size_t i = 0; verify->opened.manifest && i < checkpoint->n_shards; i++)
		sums->files[i].recorded =
			!checkpoint->shards[i].gathered &&
			manifest_has_shard(verify->opened.manifest, checkpoint->shards[i].name);
}

void sums_add(struct sums *sums, const struct verify *verify, const struct tensor_ref *ref,
	      uint64_t offset, const void *data, uint64_t n)
{
	struct file_sum *file = &sums->files[ref->shard];
	uint64_t begin = verify->opened.checkpoint->shards[ref->shard].file.data_start +
			 ref->tensor->begin + offset;
	struct sum_piece piece = { begin, begin + n, 0 };

	if (!file->recorded || n < LEAST)
		return;
	piece.crc = checksum_crc32_add(0, data, n);
	pthread_mutex_lock(&sums->lock);
	ARRAY_GROW(file->pieces, file->n);
	file->pieces[file->n++] = piece;
	pthread_mutex_unlock(&sums->lock);
}

/* A file and what is read of it. */
struct summing {
	struct source *source;
	const struct progress *progress;
	size_t shard;
	char *chunk;
	uint64_t at; /* all bytes before it are in crc */
	uint32_t crc;
};

static int sum_until(struct summing *summing, uint64_t end, struct err *err)
{
	while (summing->at < end) {
		uint64_t left = end - summing->at;
		size_t n = left < CHUNK ? (size_t)left : CHUNK;

		if (progress_stopped(summing->progress->stop, err) ||
		    source_read_file(summing->source, summing->shard, summing->at, n,
				     summing->chunk, err))
			return -1;
		summing->crc = checksum_crc32_add(summing->crc, summing->chunk, n);
		summing->at += n;
	}
	return 0;
}

/* Pieces that overlap, because tensors share bytes, are read again. */
static int sum_file(struct file_sum *file, struct summing *summing, uint64_t size, struct err *err)
{
	if (file->n)
		qsort(file->pieces, file->n, sizeof *file->pieces, compare_u64);
	for (size_t i = 0; i < file->n; i++) {
		const struct sum_piece *piece = &file->pieces[i];

		if (piece->begin < summing->at)
			continue;
		if (sum_until(summing, piece->begin, err))
			return -1;
		summing->crc = (uint32_t)crc32_combine(summing->crc, piece->crc,
						       (z_off_t)(piece->end - piece->begin));
		summing->at = piece->end;
	}
	if (sum_until(summing, size, err))
		return -1;
	file->crc = summing->crc;
	return 0;
}

static int sum_shard(void *context, int worker, size_t item, struct err *err)
{
	struct verify *verify = context;
	struct file_sum *file = &verify->run.sums.files[item];
	struct summing summing = { .source = &verify->run.files,
				   .progress = verify->progress,
				   .shard = item };
	int rc;

	(void)worker;
	if (!file->recorded)
		return 0;
	summing.chunk = xmalloc(CHUNK);
	rc = sum_file(file, &summing, verify->opened.checkpoint->shards[item].file.identity.size,
		      err);
	free(summing.chunk);
	return rc;
}

int sums_finish(struct sums *sums, struct verify *verify, struct err *err)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	if (pool_run(verify->params->n_threads, checkpoint->n_shards, sum_shard, verify,
		     verify->progress->stop, err))
		return -1;
	for (size_t i = 0; i < checkpoint->n_shards; i++)
		sums->files[i].right =
			sums->files[i].recorded &&
			manifest_same_crc(verify->opened.manifest, checkpoint->shards[i].name,
					  MANIFEST_CRC, sums->files[i].crc);
	return 0;
}

void sums_report(const struct sums *sums, struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	for (size_t i = 0; i < checkpoint->n_shards; i++) {
		const struct file_sum *file = &sums->files[i];
		const char *name = checkpoint->shards[i].name;

		if (file->recorded && !file->right)
			problem_add(&verify->result->problems, PROBLEM_FILE_CHANGED, NULL, name,
				    "'%s/%s' has CRC-32 %08" PRIx32
				    ", which is not that in the manifest",
				    checkpoint->directory, name, file->crc);
	}
}

bool sums_are_right(const struct sums *sums, size_t shard)
{
	return sums->files[shard].right;
}

void sums_release(struct sums *sums, const struct verify *verify)
{
	if (!sums->files)
		return;
	for (size_t i = 0; i < verify->opened.checkpoint->n_shards; i++)
		free(sums->files[i].pieces);
	free(sums->files);
	pthread_mutex_destroy(&sums->lock);
	*sums = (struct sums){ 0 };
}
