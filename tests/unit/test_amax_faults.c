/* SPDX-License-Identifier: Apache-2.0
 *
 * An amax history under failing I/O: each call of reading and of writing over an older file fails
 * once, in each way.  Whatever happens, the file is the old one or the new one, whole; a later run
 * writes the new one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "amax/amax.h"
#include "tests/fault/faulty_io.h"
#include "support/scratch.h"

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
		cmocka_unit_test(writing_is_all_or_nothing),
		cmocka_unit_test(reading_fails_or_is_right),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
