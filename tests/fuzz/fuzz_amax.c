/* SPDX-License-Identifier: Apache-2.0
 *
 * amax_stats_read(): the input is the header, a NUL byte, the data.  What is read is written, read
 * again and merged.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "amax/merge.h"
#include "tests/fuzz/fuzz.h"

static void write_input(const char *path, struct json_text header, const uint8_t *data, size_t size)
{
	uint64_t n = htole64(header.len);
	FILE *file = fopen(path, "w");

	FUZZ_CHECK(file);
	fwrite(&n, 1, sizeof n, file);
	fwrite(header.data, 1, header.len, file);
	fwrite(data, 1, size, file);
	FUZZ_CHECK(!fclose(file));
}

static void check_sites(const struct amax_stats *stats)
{
	for (size_t i = 0; i < stats->n_sites; i++) {
		const struct amax_site *site = stats->sites[i];

		FUZZ_CHECK(*site->name && site->tokens && site->history &&
			   site->n_passes <= stats->history_len);
		FUZZ_CHECK(!i || strcmp(stats->sites[i - 1]->name, site->name) < 0);
		FUZZ_CHECK(amax_stats_find(stats, site->name, site->kind) == site);
		for (size_t pass = 0; pass < site->n_passes; pass++)
			FUZZ_CHECK(site->tokens[pass] >= 0 && site->history[pass][0] >= 0 &&
				   site->history[pass][2] >= 0);
	}
}

static void check_same(const struct amax_stats *a, const struct amax_stats *b)
{
	FUZZ_CHECK(a->n_sites == b->n_sites && a->n_passes == b->n_passes &&
		   a->data[0] == b->data[0]);
	for (size_t i = 0; i < a->n_sites; i++) {
		const struct amax_site *x = a->sites[i], *y = b->sites[i];

		FUZZ_CHECK(!strcmp(x->name, y->name) && x->n_passes == y->n_passes &&
			   x->kind == y->kind);
		FUZZ_CHECK(!memcmp(x->history, y->history, x->n_passes * sizeof *x->history));
	}
}

/* A maximum with itself changes nothing, and counts may be too many. */
static void look(struct amax_stats *stats, const char *path)
{
	struct amax_stats again;
	struct err err = { 0 };

	check_sites(stats);
	FUZZ_CHECK(!amax_stats_write(stats, fuzz_io(), path, &err));
	FUZZ_CHECK(!amax_stats_read(&again, fuzz_io(), path, &err));
	check_same(stats, &again);
	if (amax_stats_merge(&again, stats, AMAX_RANKS, path, &err))
		fuzz_check_error(&err);
	else if (amax_stats_merge(stats, &again, AMAX_APPEND, path, &err))
		fuzz_check_error(&err);
	else
		check_sites(stats);
	amax_stats_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *path = xasprintf("%s/s.amax", fuzz_folder());
	struct json_text header = fuzz_part(&data, &size);
	struct amax_stats stats;
	struct err err = { 0 };

	write_input(path, header, data, size);
	if (amax_stats_read(&stats, fuzz_io(), path, &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT && !stats.n_sites);
	} else {
		look(&stats, path);
	}
	amax_stats_release(&stats);
	free(path);
	return 0;
}
