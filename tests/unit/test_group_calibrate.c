/* SPDX-License-Identifier: Apache-2.0
 *
 * A calibration by several ranks, here threads, writes the bytes of one process; a rank that fails
 * alone ends all of them with one message.  tests/engines has it by processes of MPI.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "calibrate/calibrate.h"
#include "calibrate/share.h"
#include "tests/unit/support/rank_job.h"

#define N_SEQUENCES 7

/* One rank of a calibration, and what came of it. */
struct run {
	struct calibrate_params params;
	struct calibrate_result result;
	struct err err;
	int rc;
};

static struct calibrate_params params_of(const char *const *data, const char *output)
{
	struct err err;

	return (struct calibrate_params){ .io = &io_system,
					  .input = "sample_checkpoints/tiny-moe/per-expert",
					  .data = data,
					  .n_data = 1,
					  .output = output,
					  .backend = backend_select_forward("cpu", 1, &err, &err),
					  .restart = true,
					  .n_threads = 1 };
}

static void *rank_run(void *context)
{
	const struct rank_job *rank = context;
	struct run *run = rank->job;
	struct sweep_progress progress = { 0 };
	struct calibrate_plan plan;
	struct amax_stats stats = { 0 };
	const struct group *group = rank->group;

	run->params.group = rank->group;
	run->rc = calibrate_plan_make(&plan, &run->params, &run->err);
	run->rc = group_settle(group, run->rc, &run->err);
	if (!run->rc)
		run->rc = calibrate_run(&plan, &run->params, &progress, &run->result, &stats,
					&run->err);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	return NULL;
}

/* Compares runs with these parameters by 1 to MOST_RANKS ranks with that of one process. */
static void compare(const struct rank_files *files, struct calibrate_params params)
{
	struct run one = { .params = params };

	one.params.output = files->one;
	rank_run(&(struct rank_job){ NULL, &one });
	assert_int_equal(one.rc, 0);
	for (int n = 1; n <= MOST_RANKS; n++) {
		struct run runs[MOST_RANKS] = { { .rc = 0 } };

		for (int i = 0; i < n; i++) {
			runs[i].params = params;
			runs[i].params.output = files->many;
			runs[i].params.n_threads = 1 + i % 2;
		}
		rank_threads_run(runs, sizeof *runs, n, rank_run);
		for (int i = 0; i < n; i++) {
			assert_int_equal(runs[i].rc, 0);
			assert_true(runs[i].result.perplexity == one.result.perplexity);
			assert_int_equal(runs[i].result.n_tokens, one.result.n_tokens);
			free(runs[i].result.nll);
		}
		assert_same_file(files->one, files->many);
	}
	free(one.result.nll);
}

static void ranks_write_the_bytes_of_one_process(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data };

	(void)state;
	for (int batch = 1; batch <= 3; batch++)
		for (int fp8 = 0; fp8 < 3; fp8++) {
			struct calibrate_params params = params_of(data, NULL);

			params.batch = batch;
			params.histogram = true;
			params.fp8.forward = fp8;
			params.fp8.select.ragged = fp8;
			params.fp8.recipe = fp8 == 0 ? NULL : fp8 == 1 ? "delayed" : "blockwise";
			compare(&files, params);
		}
	rank_files_free(&files);
}

/* Rank 1 finds no data. */
static void the_failure_of_a_rank_is_that_of_all(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data }, *const missing[] = { "missing" };
	struct run runs[3] = { { .rc = 0 } };

	(void)state;
	for (int i = 0; i < 3; i++)
		runs[i].params = params_of(i == 1 ? missing : data, files.many);
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(runs[i].rc, -1);
		assert_int_equal(runs[i].err.kind, ERR_INPUT);
		assert_true(runs[i].err.shared);
		assert_string_equal(
			runs[i].err.message,
			"rank 1 of 3: cannot open 'missing': No such file or directory");
	}
	assert_int_equal(access(files.many, F_OK), -1);
	rank_files_free(&files);
}

/* --- share --- */

/* The shares of ranks, against a walk over all sequences: each belongs to one rank, and a rank's
 * units end where passes of all ranks end. */

#define MOST 13

struct walk {
	size_t n, batch, n_ranks;
	bool taken[MOST];
};

/* No sequence of the rank from i on is in a pass before `pass`, and none before i is in it or after
 * it. */
static void check_boundary(const struct walk *walk, const struct share *share, size_t i)
{
	size_t passes = share_passes_done(share, i), before = 0;

	for (size_t s = share->rank.index; s < walk->n; s += walk->n_ranks)
		before += s < passes * walk->batch;
	assert_int_equal(before, i);
	assert_int_equal(share_sequences_of(share, passes), i);
}

static void check_rank(struct walk *walk, const struct dataset *data, size_t rank)
{
	struct share share;
	struct err err;
	size_t unit;

	assert_int_equal(
		share_open(&share, data, walk->batch, (struct rank){ rank, walk->n_ranks }, &err),
		0);
	unit = share_unit(&share);
	for (size_t i = 0; i < share.own.n; i++) {
		size_t s = share_sequence(&share, i);

		assert_true(s < walk->n && !walk->taken[s]);
		walk->taken[s] = true;
		assert_int_equal(share.own.sequences[i].begin, data->sequences[s].begin);
		assert_int_equal(share_pass(&share, i), s / walk->batch);
		if (i % unit == 0)
			check_boundary(walk, &share, i);
	}
	check_boundary(walk, &share, share.own.n);
	assert_int_equal(share_passes_done(&share, share.own.n),
			 (walk->n + walk->batch - 1) / walk->batch);
	share_release(&share);
}

static void every_sequence_is_of_one_rank(void **state)
{
	struct dataset_sequence sequences[MOST];

	(void)state;
	for (size_t i = 0; i < MOST; i++)
		sequences[i] = (struct dataset_sequence){ .begin = 10 * i, .len = 10 };
	for (size_t n = 1; n <= MOST; n++)
		for (size_t batch = 1; batch <= n; batch++)
			for (size_t n_ranks = 1; n_ranks <= n; n_ranks++) {
				const struct dataset data = { .sequences = sequences, .n = n };
				struct walk walk = { n, batch, n_ranks, { false } };

				for (size_t rank = 0; rank < n_ranks; rank++)
					check_rank(&walk, &data, rank);
				for (size_t i = 0; i < n; i++)
					assert_true(walk.taken[i]);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_write_the_bytes_of_one_process),
		cmocka_unit_test(the_failure_of_a_rank_is_that_of_all),
		cmocka_unit_test(every_sequence_is_of_one_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
