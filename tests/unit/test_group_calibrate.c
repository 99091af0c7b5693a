/* SPDX-License-Identifier: Apache-2.0
 *
 * A calibration by several ranks, here threads, writes the bytes of one process; a rank that fails
 * alone ends all of them with one message.  tests/engines has it by processes of MPI.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "calibrate/calibrate.h"
#include "tests/unit/support/scratch.h"

#define MOST_RANKS  5
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
					  .backend = backend_select_forward("cpu", &err, &err),
					  .restart = true,
					  .n_threads = 1 };
}

static void *rank_run(void *context)
{
	struct run *run = context;
	struct sweep_progress progress = { 0 };
	struct calibrate_plan plan;
	struct amax_stats stats = { 0 };
	const struct group *group = run->params.group;

	run->rc = calibrate_plan_make(&plan, &run->params, &run->err);
	run->rc = group_settle(group, run->rc, &run->err);
	if (!run->rc)
		run->rc = calibrate_run(&plan, &run->params, &progress, &run->result, &stats,
					&run->err);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	return NULL;
}

/* Runs all ranks; runs[0 .. n-1] have their parameters. */
static void ranks_run(struct run *runs, int n)
{
	struct group groups[MOST_RANKS];
	pthread_t threads[MOST_RANKS];

	group_threads_open(groups, n);
	for (int i = 0; i < n; i++) {
		runs[i].params.group = &groups[i];
		assert_int_equal(pthread_create(&threads[i], NULL, rank_run, &runs[i]), 0);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	group_threads_close(groups);
}

static char *file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *bytes = xcalloc(1, 1 << 22);

	assert_non_null(file);
	*size = fread(bytes, 1, 1 << 22, file);
	fclose(file);
	return bytes;
}

static void assert_same_file(const char *a, const char *b)
{
	size_t n_a, n_b;
	char *of_a = file_read(a, &n_a), *of_b = file_read(b, &n_b);

	assert_int_equal(n_a, n_b);
	assert_memory_equal(of_a, of_b, n_a);
	free(of_a);
	free(of_b);
}

/* The files of one test. */
struct files {
	char *folder, *data, *one, *many;
};

static struct files files_new(void)
{
	struct files files = { .folder = scratch_new() };
	FILE *file;

	assert_non_null(files.folder);
	files.data = xasprintf("%s/ids.jsonl", files.folder);
	files.one = xasprintf("%s/one.amax", files.folder);
	files.many = xasprintf("%s/many.amax", files.folder);
	file = fopen(files.data, "w");
	assert_non_null(file);
	for (int i = 0; i < N_SEQUENCES; i++)
		fprintf(file, "{\"input_ids\": [%d, 2, 3%s]}\n", i, i % 3 ? ", 5, 8, 13" : "");
	fclose(file);
	return files;
}

static void files_free(struct files *files)
{
	unlink(files->data);
	unlink(files->one);
	unlink(files->many);
	rmdir(files->folder);
	free(files->data);
	free(files->one);
	free(files->many);
	free(files->folder);
}

/* Compares runs with these parameters by 1 to MOST_RANKS ranks with that of one process. */
static void compare(const struct files *files, struct calibrate_params params)
{
	struct run one = { .params = params };

	one.params.output = files->one;
	rank_run(&one);
	assert_int_equal(one.rc, 0);
	for (int n = 1; n <= MOST_RANKS; n++) {
		struct run runs[MOST_RANKS] = { { .rc = 0 } };

		for (int i = 0; i < n; i++) {
			runs[i].params = params;
			runs[i].params.output = files->many;
			runs[i].params.n_threads = 1 + i % 2;
		}
		ranks_run(runs, n);
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
	struct files files = files_new();
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
	files_free(&files);
}

/* Rank 1 finds no data. */
static void the_failure_of_a_rank_is_that_of_all(void **state)
{
	struct files files = files_new();
	const char *const data[] = { files.data }, *const missing[] = { "missing" };
	struct run runs[3] = { { .rc = 0 } };

	(void)state;
	for (int i = 0; i < 3; i++)
		runs[i].params = params_of(i == 1 ? missing : data, files.many);
	ranks_run(runs, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(runs[i].rc, -1);
		assert_int_equal(runs[i].err.kind, ERR_INPUT);
		assert_true(runs[i].err.shared);
		assert_string_equal(
			runs[i].err.message,
			"rank 1 of 3: cannot open 'missing': No such file or directory");
	}
	assert_int_equal(access(files.many, F_OK), -1);
	files_free(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_write_the_bytes_of_one_process),
		cmocka_unit_test(the_failure_of_a_rank_is_that_of_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
