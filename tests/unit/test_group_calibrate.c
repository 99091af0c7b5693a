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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_write_the_bytes_of_one_process),
		cmocka_unit_test(the_failure_of_a_rank_is_that_of_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
