/* SPDX-License-Identifier: Apache-2.0
 *
 * A measurement by several ranks, here threads, writes the table of one process, also where another
 * run began it; a rank that fails, or measures something else, ends all of them with one message.
 * tests/engines has it by processes of MPI.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <unistd.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "sensitivity/sensitivity.h"
#include "tests/unit/support/rank_job.h"

#define MODEL	    "sample_checkpoints/tiny-moe/per-expert"
#define N_SEQUENCES 3 /* fewer than ranks */

/* One rank of a measurement, and what came of it. */
struct run {
	struct sensitivity_params params;
	uint64_t done, total; /* tokens of its progress */
	size_t n_rounds;
	char *text; /* of its table, after success */
	struct err err;
	int rc;
};

static const char *const names[] = { "blockwise", "mxfp8" };

static struct sensitivity_params params_of(const char *const *data, const char *output)
{
	struct err err;
	const struct backend *backend = backend_select_forward("cpu", 1, &err, &err);

	return (struct sensitivity_params){
		.quantize = { .convert = { .io = &io_system,
					   .input = MODEL,
					   .backend = backend,
					   .n_threads = 1 },
			      .select.ragged = true },
		.recipes = names,
		.n_recipes = 2,
		.data = data,
		.n_data = 1,
		.output = output,
		.backend = backend,
		.n_threads = 1,
	};
}

static void *rank_run(void *context)
{
	const struct rank_job *rank = context;
	struct run *run = rank->job;
	struct sensitivity_progress progress = { 0 };
	struct sensitivity_plan plan;
	struct buf text = { 0 };

	run->params.group = rank->group;
	run->rc = sensitivity_plan_make(&plan, &run->params, &run->err);
	run->rc = group_settle(run->params.group, run->rc, &run->err);
	if (!run->rc)
		run->rc = sensitivity_run(&plan, &run->params, &progress, &run->err);
	if (!run->rc) {
		kld_table_text(&plan.table, &text);
		buf_putc(&text, 0);
		run->text = text.data;
	}
	run->done = atomic_load(&progress.sweep.done);
	run->total = atomic_load(&progress.sweep.total);
	run->n_rounds = atomic_load(&progress.n_rounds);
	sensitivity_plan_release(&plan);
	return NULL;
}

/* Returns the least memory that one process can make a plan with. */
static uint64_t least_memory(struct sensitivity_params params)
{
	uint64_t low = 1, high = 1 << 30;

	while (low < high) {
		struct sensitivity_plan plan;
		struct err err;

		params.max_memory = (low + high) / 2;
		if (sensitivity_plan_make(&plan, &params, &err))
			low = params.max_memory + 1;
		else
			high = params.max_memory;
		sensitivity_plan_release(&plan);
	}
	return low;
}

static void check_ranks(struct run *runs, int n, const struct run *one)
{
	for (int i = 0; i < n; i++) {
		assert_int_equal(runs[i].rc, 0);
		assert_string_equal(runs[i].text, one->text);
		assert_int_equal(runs[i].done, runs[i].total);
		free(runs[i].text);
	}
}

/* Of the ranks one has memory for few groups: all take as many rounds as that one. */
static void ranks_write_the_bytes_of_one_process(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data };
	struct run one = { .params = params_of(data, files.one) };

	(void)state;
	rank_run(&(struct rank_job){ NULL, &one });
	assert_int_equal(one.rc, 0);
	assert_int_equal(one.done, one.total);
	for (int n = 1; n <= MOST_RANKS; n++) {
		struct run runs[MOST_RANKS] = { { .rc = 0 } };

		for (int i = 0; i < n; i++) {
			runs[i].params = params_of(data, files.many);
			runs[i].params.n_threads = 1 + i % 2;
			if (i == 1)
				runs[i].params.max_memory = least_memory(runs[i].params);
		}
		rank_threads_run(runs, sizeof *runs, n, rank_run);
		assert_true(n == 1 || runs[0].n_rounds > 1);
		for (int i = 1; i < n; i++)
			assert_int_equal(runs[i].n_rounds, runs[0].n_rounds);
		check_ranks(runs, n, &one);
		assert_same_file(files.one, files.many);
		unlink(files.many);
	}
	free(one.text);
	rank_files_free(&files);
}

/* Time passes from the first look of a pair to the second: while variants run. */
static double slow_clock(void)
{
	static int n_looks;

	return 100.0 * (n_looks++ / 2);
}

/* Where a round takes long the groups are measured, and saved, in more of them. */
static void slow_rounds_have_fewer_groups(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data };
	struct run one = { .params = params_of(data, files.one) };
	struct run slow = { .params = params_of(data, files.many) };

	(void)state;
	slow.params.now = slow_clock;
	rank_run(&(struct rank_job){ NULL, &one });
	rank_run(&(struct rank_job){ NULL, &slow });
	assert_int_equal(one.n_rounds, 1);
	assert_true(slow.n_rounds > 2);
	check_ranks(&slow, 1, &one);
	assert_same_file(files.one, files.many);
	free(one.text);
	rank_files_free(&files);
}

/* A table that has the divergences of its first groups: all others' are measured. */
static void ranks_go_on_from_an_unfinished_table(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data };
	struct run one = { .params = params_of(data, files.one) };
	struct run runs[3] = { { .rc = 0 } };
	char *unfinished = xasprintf("%s/.many.unfinished", files.folder);
	struct kld_table table;
	struct buf text = { 0 };
	struct err err;
	FILE *file = fopen(unfinished, "w");

	(void)state;
	rank_run(&(struct rank_job){ NULL, &one });
	assert_int_equal(one.rc, 0);
	assert_int_equal(kld_table_read(&table, &io_system, AT_FDCWD, files.one, false, &err), 0);
	for (size_t i = 2; i < table.n_groups; i++)
		table.groups[i].measured = false;
	kld_table_text(&table, &text);
	assert_non_null(file);
	fwrite(text.data, 1, text.len, file);
	fclose(file);
	for (int i = 0; i < 3; i++)
		runs[i].params = params_of(data, files.many);
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	for (int i = 0; i < 3; i++)
		assert_true(runs[i].total < one.total);
	check_ranks(runs, 3, &one);
	assert_same_file(files.one, files.many);
	assert_int_equal(access(unfinished, F_OK), -1);

	/* A finished one stays: nothing is measured. */
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	for (int i = 0; i < 3; i++)
		assert_int_equal(runs[i].total, 0);
	check_ranks(runs, 3, &one);
	kld_table_release(&table);
	buf_release(&text);
	free(unfinished);
	free(one.text);
	rank_files_free(&files);
}

static uint64_t planned_memory(struct sensitivity_params params, size_t n_recipes)
{
	struct sensitivity_plan plan;
	uint64_t bytes;
	struct err err;

	params.n_recipes = n_recipes;
	assert_int_equal(sensitivity_plan_make(&plan, &params, &err), 0);
	assert_int_equal(plan.n_at_once, plan.table.n_groups);
	bytes = plan.memory_bytes;
	sensitivity_plan_release(&plan);
	return bytes;
}

/* What the groups of one more recipe need is the streams of a rank's own sequences. */
static void a_rank_holds_its_own_sequences(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data };
	const struct group first_of_three = { .kind = &group_self, .n_ranks = 3 };
	struct sensitivity_params params = params_of(data, NULL);
	uint64_t one = planned_memory(params, 2) - planned_memory(params, 1), three;

	(void)state;
	params.group = &first_of_three;
	three = planned_memory(params, 2) - planned_memory(params, 1);
	assert_true(three < one);
	rank_files_free(&files);
}

static void assert_all_fail(const struct run *runs, enum err_kind kind, const char *message)
{
	for (int i = 0; i < 3; i++) {
		assert_int_equal(runs[i].rc, -1);
		assert_int_equal(runs[i].err.kind, kind);
		assert_true(runs[i].err.shared);
		assert_string_equal(runs[i].err.message, message);
	}
}

static void the_failure_of_a_rank_is_that_of_all(void **state)
{
	struct rank_files files = rank_files_new(N_SEQUENCES);
	const char *const data[] = { files.data }, *const missing[] = { "missing" };
	struct run runs[3] = { { .rc = 0 } };

	(void)state;
	for (int i = 0; i < 3; i++) /* rank 1 finds no data */
		runs[i].params = params_of(i == 1 ? missing : data, files.many);
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	assert_all_fail(runs, ERR_INPUT,
			"rank 1 of 3: cannot open 'missing': No such file or directory");
	for (int i = 0; i < 3; i++) /* the leading rank cannot write */
		runs[i] = (struct run){ .params = params_of(data, "/") };
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	assert_all_fail(runs, ERR_USAGE, "rank 0 of 3: '/' is not the name of a file");
	for (int i = 0; i < 3; i++) { /* rank 2 takes other sequences */
		runs[i] = (struct run){ .params = params_of(data, files.many) };
		runs[i].params.passes = i == 2 ? 2 : 3;
	}
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	assert_all_fail(runs, ERR_USAGE,
			"the ranks have different models, data, options or backends: start all of "
			"them with the same command, on machines of one kind");
	assert_int_equal(access(files.many, F_OK), -1);
	rank_files_free(&files);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_write_the_bytes_of_one_process),
		cmocka_unit_test(slow_rounds_have_fewer_groups),
		cmocka_unit_test(ranks_go_on_from_an_unfinished_table),
		cmocka_unit_test(a_rank_holds_its_own_sequences),
		cmocka_unit_test(the_failure_of_a_rank_is_that_of_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
