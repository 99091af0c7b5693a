/* SPDX-License-Identifier: Apache-2.0 */
#include "amax/amax.h"

#include <endian.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

const struct amax_tensor amax_tensors[N_AMAX_PARTS] = {
	[AMAX_PART_HISTORY] = { ".amax_history", DT_F32, 2, { 0, 3 }, "F32 [passes, 3]" },
	[AMAX_PART_QKV] = { ".amax_history_qkv", DT_F32, 2, { 0, 3 }, "F32 [passes, 3]" },
	[AMAX_PART_TOKENS] = { ".tokens", DT_I64, 1, { 0 }, "I64 [passes]" },
	[AMAX_PART_HISTOGRAM] = { ".histogram", DT_U64, 2, { AMAX_BINS, 2 }, "U64 [2048, 2]" },
};

void *amax_site_part(const struct amax_site *site, enum amax_part part)
{
	switch (part) {
	case AMAX_PART_HISTORY:
		return site->kind == AMAX_GEMM ? site->history : NULL;
	case AMAX_PART_QKV:
		return site->kind == AMAX_ATTENTION ? site->history : NULL;
	case AMAX_PART_TOKENS:
		return site->tokens;
	default:
		return site->histogram;
	}
}

const struct amax_count amax_planned = { "passes_planned", offsetof(struct amax_stats, n_planned),
					 1, INT64_MAX };

const struct amax_count amax_counts[] = {
	{ "amax_history_len", offsetof(struct amax_stats, history_len), 1, AMAX_HISTORY_LEN_MAX },
	{ "passes", offsetof(struct amax_stats, n_passes), 0, INT64_MAX },
	{ "tokens", offsetof(struct amax_stats, n_tokens), 0, INT64_MAX },
	{ "seq_len", offsetof(struct amax_stats, seq_len), 0, INT64_MAX },
	{ 0 },
};

const struct amax_text amax_texts[] = {
	{ "model", offsetof(struct amax_stats, model) },
	{ "precision", offsetof(struct amax_stats, precision) },
	{ "backend", offsetof(struct amax_stats, backend) },
	{ 0 },
};

void amax_stats_init(struct amax_stats *stats, const char *model, const char *precision,
		     const char *backend, uint64_t history_len)
{
	*stats = (struct amax_stats){
		.history_len = history_len,
		.model = xstrdup(model),
		.precision = xstrdup(precision),
		.backend = xstrdup(backend),
	};
}

static void site_free(struct amax_site *site)
{
	free(site->name);
	free(site->history);
	free(site->tokens);
	free(site->histogram);
	free(site);
}

void amax_stats_release(struct amax_stats *stats)
{
	for (size_t i = 0; i < stats->n_sites; i++)
		site_free(stats->sites[i]);
	free(stats->sites);
	free(stats->model);
	free(stats->precision);
	free(stats->backend);
	*stats = (struct amax_stats){ 0 };
}

/* Returns the position of the site of that name, or where to insert it.  Names mostly come in
 * order, so the end is tried first. */
static size_t position(const struct amax_stats *stats, const char *name, bool *found)
{
	size_t at = stats->n_sites;

	if (at && strcmp(stats->sites[at - 1]->name, name) >= 0)
		SEARCH(at, stats->n_sites, strcmp(stats->sites[at]->name, name) < 0);
	*found = at < stats->n_sites && !strcmp(stats->sites[at]->name, name);
	return at;
}

struct amax_site *amax_stats_site(struct amax_stats *stats, const char *name, enum amax_kind kind)
{
	struct amax_site *site;
	bool found;
	size_t at = position(stats, name, &found);

	if (found)
		return stats->sites[at]->kind == kind ? stats->sites[at] : NULL;
	site = xcalloc(1, sizeof *site);
	*site = (struct amax_site){ .name = xstrdup(name),
				    .kind = kind,
				    .limit = stats->history_len };
	ARRAY_GROW(stats->sites, stats->n_sites);
	memmove(stats->sites + at + 1, stats->sites + at,
		(stats->n_sites - at) * sizeof(struct amax_site *));
	stats->sites[at] = site;
	stats->n_sites++;
	return site;
}

struct amax_site *amax_stats_find(const struct amax_stats *stats, const char *name,
				  enum amax_kind kind)
{
	bool found;
	size_t at = position(stats, name, &found);

	return found && stats->sites[at]->kind == kind ? stats->sites[at] : NULL;
}

int amax_stats_check_whole(const struct amax_stats *stats, const char *path, struct err *err)
{
	const struct amax_rank *rank = &stats->rank;

	if (!rank->n)
		return 0;
	return err_set(err, ERR_INPUT,
		       "'%s' is of rank %" PRIu64 " of %" PRIu64
		       ": join the files of all ranks by 'fp8conv merge --ranks'",
		       path, rank->index, rank->n);
}

void amax_data_add(uint64_t sum[2], const uint64_t data[2])
{
	sum[0] += data[0] + __builtin_add_overflow(sum[1], data[1], &sum[1]);
}

void amax_stats_data(struct amax_stats *stats, const void *data, size_t size, uint64_t n_tokens)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	uint64_t number[2];

	SHA256(data, size, digest);
	memcpy(number, digest, sizeof number);
	number[0] = be64toh(number[0]);
	number[1] = be64toh(number[1]);
	amax_data_add(stats->data, number);
	stats->n_tokens += n_tokens;
	if (n_tokens > stats->seq_len)
		stats->seq_len = n_tokens;
}

void amax_site_append(struct amax_site *site, const float amax[3], int64_t n_tokens)
{
	if (site->n_passes == site->limit) {
		site->n_passes--;
		memmove(site->history, site->history + 1, site->n_passes * sizeof *site->history);
		memmove(site->tokens, site->tokens + 1, site->n_passes * sizeof *site->tokens);
	} else {
		ARRAY_GROW(site->history, site->n_passes);
		ARRAY_GROW(site->tokens, site->n_passes);
	}
	memcpy(site->history[site->n_passes], amax, sizeof *site->history);
	site->tokens[site->n_passes++] = n_tokens;
}

uint64_t (*amax_site_histogram(struct amax_site *site))[2]
{
	if (!site->histogram)
		site->histogram = xcalloc(AMAX_BINS, sizeof *site->histogram);
	return site->histogram;
}
