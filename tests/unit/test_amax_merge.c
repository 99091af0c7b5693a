/* SPDX-License-Identifier: Apache-2.0
 *
 * amax/merge.h: what files hardly reach; tests/cli/merge has the rest.
 * An amax history under failing I/O: each call of reading and of writing over an older file fails
 * once, in each way.  Whatever happens, the file is the old one or the new one, whole; a later run
 * writes the new one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "amax/amax.h"
#include "amax/merge.h"
#include "base/mem.h"
#include "support/folders.h"
#include "tests/fault/faulty_io.h"

static void table(struct amax_stats *stats, const char *backend, int64_t n_tokens, uint64_t count)
{
	struct amax_site *site;

	amax_stats_init(stats, "m", "bf16", backend, 4);
	site = amax_stats_site(stats, "s", AMAX_GEMM);
	amax_site_append(site, (const float[]){ 1, 2, 3 }, n_tokens);
	amax_site_histogram(site)[7][1] = count;
	stats->n_passes = 1;
}

static int merged(struct amax_stats *one, struct amax_stats *other, enum amax_merge how,
		  struct err *err)
{
	int rc = amax_stats_merge(one, other, how, "b", err);

	amax_stats_release(other);
	return rc;
}

static void backends_are_united(void **state)
{
	static const char *const rows[][3] = {
		{ "cpu", "cpu", "cpu" },       { "cuda", "cpu", "cpu+cuda" },
		{ "cpu", "cuda", "cpu+cuda" }, { "cpu", "cpu+cuda", "cpu+cuda" },
		{ "a+c", "b+c+d", "a+b+c+d" }, { "cpu", "cp", "cp+cpu" },
		{ "b", "a+c", "a+b+c" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct amax_stats one, other;
		struct err err = { 0 };

		table(&one, rows[i][0], 1, 1);
		table(&other, rows[i][1], 1, 1);
		assert_int_equal(merged(&one, &other, AMAX_RANKS, &err), 0);
		assert_string_equal(one.backend, rows[i][2]);
		amax_stats_release(&one);
	}
}

static void sums_do_not_wrap(void **state)
{
	static const struct {
		uint64_t passes, tokens, count;
		int64_t pass_tokens;
		enum amax_merge how;
		const char *message; /* NULL: it fits */
	} rows[] = {
		{ 1, 1, 1, 1, AMAX_RANKS, NULL },
		{ 1, INT64_MAX - 1, 1, 1, AMAX_RANKS, NULL },
		{ 1, INT64_MAX, 1, 1, AMAX_RANKS,
		  "with 'b', the tokens add up to more than 2^63 - 1" },
		{ INT64_MAX, 1, 1, 1, AMAX_APPEND,
		  "with 'b', the passes add up to more than 2^63 - 1" },
		{ 1, 1, 1, INT64_MAX - 1, AMAX_RANKS, NULL },
		{ 1, 1, 1, INT64_MAX, AMAX_RANKS,
		  "with 'b', the tokens of module 's' add up to more than 2^63 - 1" },
		{ 1, 1, 1, INT64_MAX, AMAX_APPEND, NULL },
		{ 1, 1, UINT64_MAX - 1, 1, AMAX_APPEND, NULL },
		{ 1, 1, UINT64_MAX, 1, AMAX_APPEND,
		  "with 'b', the histogram of module 's' adds up to more than 2^64 - 1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct amax_stats one, other;
		struct err err = { 0 };

		table(&one, "cpu", rows[i].pass_tokens, rows[i].count);
		table(&other, "cpu", 1, 1);
		one.n_tokens = rows[i].tokens;
		one.n_passes = rows[i].passes;
		other.n_tokens = 1;
		assert_int_equal(merged(&one, &other, rows[i].how, &err), rows[i].message ? -1 : 0);
		if (rows[i].message) {
			assert_int_equal(err.kind, ERR_INPUT);
			assert_string_equal(err.message, rows[i].message);
		}
		amax_stats_release(&one);
	}
}

static void kinds_must_agree(void **state)
{
	struct amax_stats one, other;
	struct err err = { 0 };

	(void)state;
	table(&one, "cpu", 1, 1);
	amax_stats_init(&other, "m", "bf16", "cpu", 4);
	amax_stats_site(&other, "s", AMAX_ATTENTION);
	assert_int_equal(merged(&one, &other, AMAX_APPEND, &err), -1);
	assert_string_equal(err.message,
			    "only one of 'b' and the earlier files has q, k, v for module 's'");
	amax_stats_release(&one);
}

#define MOST_CALLS 100

static char *folder, *path;

static void make_stats(struct amax_stats *stats, int n_passes)
{
	struct amax_site *site;

	amax_stats_init(stats, "m", "bf16", "cpu", 8);
	site = amax_stats_site(stats, "s", AMAX_GEMM);
	for (int i = 0; i < n_passes; i++)
		amax_site_append(site, (const float[]){ (float)i, 2, 3 }, i);
	stats->n_passes = (uint64_t)n_passes;
}

static void write_stats(const struct io *io, int n_passes, int *rc, struct err *err)
{
	struct amax_stats stats;

	make_stats(&stats, n_passes);
	*rc = amax_stats_write(&stats, io, path, err);
	amax_stats_release(&stats);
}

/* Passes of the file that is there, which must be good. */
static uint64_t passes_found(void)
{
	struct amax_stats stats;
	struct err err = { 0 };
	uint64_t n;

	if (amax_stats_read(&stats, &io_system, path, &err))
		fail_msg("%s", err.message);
	n = stats.n_passes;
	assert_int_equal(stats.sites[0]->n_passes, n);
	amax_stats_release(&stats);
	return n;
}

/* False: there are fewer calls. */
static bool disturb_write(enum io_fault fault, long at)
{
	struct err err = { 0 };
	uint64_t found;
	bool hit;
	int rc;

	assert_in_range(at, 1, MOST_CALLS);
	write_stats(&io_system, 3, &rc, &err);
	assert_int_equal(rc, 0);
	faulty_arm(fault, N_OPS, at);
	write_stats(&io_faulty, 5, &rc, &err);
	hit = faulty.hit;
	found = passes_found();
	if (faulty.disorder[0])
		fail_msg("call %ld: %s", at, faulty.disorder);
	if (rc ? found != 3 && found != 5 : found != 5)
		fail_msg("%s as call %ld: result %d, and %d passes", op_names[faulty.op], at, rc,
			 (int)found);
	if (rc)
		assert_true(err.message[0] && err.kind >= ERR_USAGE);
	write_stats(&io_system, 5, &rc, &err);
	assert_int_equal(rc, 0);
	assert_int_equal(passes_found(), 5);
	return hit;
}

static void writing_is_all_or_nothing(void **state)
{
	static const enum io_fault faults[] = { FAULT_NONE,  FAULT_EIO,	 FAULT_ENOSPC, FAULT_EINTR,
						FAULT_SHORT, FAULT_FULL, FAULT_DEAD };

	(void)state;
	for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
		for (long at = 1; disturb_write(faults[i], at);)
			at++;
}

static void reading_fails_or_is_right(void **state)
{
	int rc;
	struct err err = { 0 };

	(void)state;
	write_stats(&io_system, 3, &rc, &err);
	assert_int_equal(rc, 0);
	for (long at = 1; at < MOST_CALLS; at++) {
		struct amax_stats stats;

		faulty_arm(FAULT_EIO, N_OPS, at);
		rc = amax_stats_read(&stats, &io_faulty, path, &err);
		if (!rc)
			assert_int_equal(stats.n_passes, 3);
		amax_stats_release(&stats);
		if (!faulty.hit)
			return;
		assert_true(rc == -1 || faulty.op == CLOSE);
	}
	fail();
}

static int setup(void **state)
{
	(void)state;
	folder = scratch_new();
	if (!folder)
		return -1;
	path = xasprintf("%s/s.amax", folder);
	return 0;
}

/* Nothing but the file is left: no lock, nothing unfinished. */
static int teardown(void **state)
{
	int rc;

	(void)state;
	unlink(path);
	rc = rmdir(folder);
	free(path);
	free(folder);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backends_are_united),
		cmocka_unit_test(sums_do_not_wrap),
		cmocka_unit_test(kinds_must_agree),
		cmocka_unit_test(writing_is_all_or_nothing),
		cmocka_unit_test(reading_fails_or_is_right),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
