/* SPDX-License-Identifier: Apache-2.0
 *
 * Compensated rounding by several ranks, here threads, writes the files of one process, also where
 * an earlier run by another number of ranks began them; a rank that fails alone, in whatever call,
 * ends all of them with one message.  tests/engines has it by processes of MPI.
 */
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
#include "execute/execute.h"
#include "plan/quantize.h"
#include "tests/fault/faulty_io.h"
#include "tests/unit/support/rank_job.h"
#include "tests/unit/support/folders.h"

#define MOE   "sample_checkpoints/tiny-moe/per-expert"
#define DENSE "sample_checkpoints/tiny-llama"

/* One rank of a conversion, and what came of it. */
struct run {
	struct quantize_params params;
	struct convert_result result;
	struct err err;
	int rc;
};

/* The files of all tests. */
static struct {
	char *folder, *a, *b, *c, *one, *many;
} files;

/* Writes n sequences of token ids, of `least` tokens and up to `more`. */
static char *data_new(const char *name, int n, int least, int more)
{
	char *path = xasprintf("%s/%s", files.folder, name);
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (int i = 0; i < n; i++) {
		fputs("{\"input_ids\": [", file);
		for (int j = 0; j < least + i % (more + 1); j++)
			fprintf(file, "%s%d", j ? ", " : "", (i * 7 + j * j * 3 + j + least) % 199);
		fputs("]}\n", file);
	}
	fclose(file);
	return path;
}

/* Files that note the progress of rounding whenever one is closed. */
static struct {
	struct io io;
	const struct progress *progress;
	uint64_t done, total;
} watched;

static int watched_close(const struct io *io, int fd)
{
	(void)io;
	if (watched.progress && atomic_load(&watched.progress->phase) == PROGRESS_ROUND) {
		watched.done = atomic_load(&watched.progress->done);
		watched.total = atomic_load(&watched.progress->total);
	}
	return io_system.close(&io_system, fd);
}

static struct quantize_params params_of(const char *model, const char *const *data, size_t n_data)
{
	struct err err;

	return (struct quantize_params){
		.convert = { .io = &io_system,
			     .input = model,
			     .output = files.many,
			     .backend = backend_select("cpu", &err),
			     .n_threads = 1 },
		.select.ragged = true,
		.rounding = ROUNDING_COMPENSATED,
		.compensate = { .backend = backend_select_forward("cpu", 1, &err, &err),
				.data = data,
				.n_data = n_data,
				.shrink = -1 },
	};
}

static void *rank_run(void *context)
{
	const struct rank_job *rank = context;
	struct run *run = rank->job;
	struct progress progress = { .stop = run->params.compensate.stop };
	struct plan plan;
	int rc;

	if (run->params.convert.io == &watched.io)
		watched.progress = &progress;
	run->params.convert.group = rank->group;
	rc = quantize_plan_make(&plan, &run->params, &progress, &run->err);
	run->rc = group_settle(rank->group, rc, &run->err);
	if (!run->rc)
		run->rc = execute_plan(&plan, &run->params.convert, &progress, &run->result,
				       &run->err);
	plan_release(&plan);
	return NULL;
}

/* The job by one process. */
static struct run run_one(struct quantize_params params)
{
	struct run one = { .params = params };

	one.params.convert.output = files.one;
	rank_folder_remove(files.one);
	rank_run(&(struct rank_job){ NULL, &one });
	if (one.rc)
		fail_msg("%s", one.err.message);
	return one;
}

/* Returns the bytes for Hessians and inputs that this process, of n ranks, has besides all else;
 * 0: no plan can be made. */
static uint64_t room_of(struct quantize_params params, int n_ranks, uint64_t max_memory)
{
	const struct group first = { .kind = &group_self, .n_ranks = n_ranks };
	struct progress progress = { 0 };
	uint64_t room = 0;
	struct plan plan;
	struct err err;

	params.convert.group = &first;
	params.convert.n_threads = 2;
	params.convert.max_memory = max_memory;
	if (!quantize_plan_make(&plan, &params, &progress, &err))
		room = plan.rounding->plan.room;
	plan_release(&plan);
	return room;
}

/* Returns the least memory that such a process can make a plan with. */
static uint64_t least_memory(struct quantize_params params, int n_ranks)
{
	uint64_t low = 1, high = (uint64_t)1 << 30;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (room_of(params, n_ranks, middle))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Compares the output of 1 to MOST_RANKS ranks with that of one process, and returns that run.
 * is_tight: rank 1 has the least memory. */
static struct run compare(struct quantize_params params, bool is_tight)
{
	const struct run one = run_one(params);

	assert_true(one.result.figures.n_moved > 0);
	for (int n = 1; n <= MOST_RANKS; n++) {
		struct run runs[MOST_RANKS];

		for (int i = 0; i < n; i++) {
			runs[i] = (struct run){ .params = params };
			runs[i].params.convert.n_threads = 1 + i % 2;
			if (i == 1 && is_tight)
				runs[i].params.convert.max_memory = least_memory(params, n);
		}
		rank_threads_run(runs, sizeof *runs, n, rank_run);
		for (int i = 0; i < n; i++)
			if (runs[i].rc)
				fail_msg("rank %d of %d: %s", i, n, runs[i].err.message);
		assert_int_equal(runs[0].result.figures.n_moved, one.result.figures.n_moved);
		assert_true(runs[0].result.complete);
		assert_same_folder(files.one, files.many);
		rank_folder_remove(files.many);
	}
	return one;
}

static void ranks_write_the_bytes_of_one_process(void **state)
{
	const char *const data[] = { files.a, files.b };

	(void)state;
	for (size_t n_data = 1; n_data <= 2; n_data++) {
		struct quantize_params params = params_of(MOE, data, n_data);

		compare(params, false);
		params.compensate.shrink = 0.5f;
		compare(params, false);
		params.compensate.shrink = 0;
		params.compensate.passes = 6; /* few tokens for an expert */
		assert_true(compare(params, false).result.rounding.counts.n_few > 0);
		params.compensate.passes = 0;
		params.convert.input = DENSE;
		params.recipe = n_data == 1 ? "current" : "mxfp8";
		compare(params, false);
	}
}

/* What runs is what was planned, in layers and at the head, with candidates and without. */
static void progress_ends_at_its_total(void **state)
{
	const char *const data[] = { files.a };
	const char *const models[] = { MOE, DENSE };

	(void)state;
	watched.io = io_system;
	watched.io.close = watched_close;
	for (int i = 0; i < 4; i++) {
		struct quantize_params params = params_of(models[i / 2], data, 1);

		params.convert.io = &watched.io;
		params.compensate.shrink = i % 2 ? 0.5f : -1;
		watched.total = 0;
		run_one(params);
		assert_true(watched.total > 0);
		assert_int_equal(watched.done, watched.total);
	}
	watched.progress = NULL;
}

/* A rank that has memory for one group at a time decides for all how many groups a turn has, and
 * how many sequences run at once. */
static void the_least_memory_decides(void **state)
{
	const char *const data[] = { files.c };

	(void)state;
	compare(params_of(DENSE, data, 1), true);
}

/* More sequences take memory on the ranks that have them. */
static void a_rank_holds_its_own_sequences(void **state)
{
	const char *const data[] = { files.c };
	struct quantize_params params = params_of(DENSE, data, 1);
	uint64_t one, three, memory = (uint64_t)1 << 30;

	(void)state;
	params.compensate.shrink = 0.5f; /* none is held out */
	params.compensate.passes = 10;
	one = room_of(params, 1, memory);
	three = room_of(params, 3, memory);
	params.compensate.passes = 30;
	one -= room_of(params, 1, memory);
	three -= room_of(params, 3, memory);
	assert_true(one > 0);
	assert_in_range(three, one / 4, one * 2 / 5);
}

static void assert_all_fail(const struct run *runs, int n, enum err_kind kind, const char *message)
{
	for (int i = 0; i < n; i++) {
		assert_int_equal(runs[i].rc, -1);
		assert_int_equal(runs[i].err.kind, kind);
		assert_true(runs[i].err.shared);
		assert_string_equal(runs[i].err.message, message);
	}
}

static void the_failure_of_a_rank_is_that_of_all(void **state)
{
	const char *const data[] = { files.a }, *const missing[] = { "missing" };
	const struct quantize_params params = params_of(MOE, data, 1);
	struct run runs[3];

	(void)state;
	for (int i = 0; i < 3; i++) { /* rank 1 finds no data */
		runs[i] = (struct run){ .params = params };
		runs[i].params.compensate.data = i == 1 ? missing : data;
	}
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	assert_all_fail(runs, 3, ERR_INPUT,
			"rank 1 of 3: cannot open 'missing': No such file or directory");
	for (int i = 0; i < 3; i++) { /* rank 2 takes other sequences */
		runs[i] = (struct run){ .params = params };
		runs[i].params.compensate.passes = i == 2 ? 20 : 21;
	}
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	assert_all_fail(runs, 3, ERR_USAGE,
			"the ranks have different models, data, options or backends: start all of "
			"them with the same command, on machines of one kind");
	for (int i = 0; i < 3; i++) { /* there is no sequence for rank 2: one is held out */
		runs[i] = (struct run){ .params = params };
		runs[i].params.compensate.passes = 3;
	}
	rank_threads_run(runs, sizeof *runs, 3, rank_run);
	assert_all_fail(runs, 3, ERR_USAGE,
			"option '--ranks': 3 ranks have 2 sequences: use at most 2 ranks, "
			"or more --passes");
	assert_int_equal(access(files.many, F_OK), -1);
}

/* Of the calls, so many are left out, for time; every kind of fault meets every number of ranks. */
#define STRIDE 7

static int no_fsync(const struct io *io, int fd)
{
	(void)io, (void)fd;
	return 0;
}

/* Fails call number `at` of one of two ranks.  All ranks must end so, with no finished output where
 * the leading one did not fail itself, and the next run, by another number of ranks, must make the
 * files of one process.  False: there are fewer calls. */
static bool disturb(const struct quantize_params *params, int rank, enum io_fault fault, long at)
{
	struct run runs[MOST_RANKS];
	struct io quick = io_system;
	int n = 1 + (int)(at % 3);
	bool hit;

	quick.fsync = no_fsync;
	for (int i = 0; i < 2; i++) {
		runs[i] = (struct run){ .params = *params };
		runs[i].params.convert.io = i == rank ? &io_faulty : &quick;
		if (i == rank)
			runs[i].params.compensate.stop = &faulty.stop;
	}
	faulty_arm(fault, N_OPS, at);
	rank_threads_run(runs, sizeof *runs, 2, rank_run);
	hit = faulty.hit;
	if (runs[0].rc != runs[1].rc)
		fail_msg("%s as call %ld of rank %d: results %d and %d", op_names[faulty.op], at,
			 rank, runs[0].rc, runs[1].rc);
	if (runs[0].rc) {
		assert_all_fail(runs, 2, runs[0].err.kind, runs[0].err.message);
		assert_true(rank == 0 || !runs[0].result.complete);
	}
	for (int i = 0; i < n; i++) {
		runs[i] = (struct run){ .params = *params };
		runs[i].params.convert.io = &quick;
	}
	rank_threads_run(runs, sizeof *runs, n, rank_run);
	if (runs[0].rc)
		fail_msg("after call %ld of rank %d: %s", at, rank, runs[0].err.message);
	assert_same_folder(files.one, files.many);
	rank_folder_remove(files.many);
	return hit;
}

static void any_call_of_a_rank_may_fail(void **state)
{
	const char *const data[] = { files.a };
	struct quantize_params params = params_of(MOE, data, 1);

	(void)state;
	params.compensate.passes = 10;
	run_one(params);
	for (int rank = 0; rank < 2; rank++)
		for (long at = 1; disturb(&params, rank, at % 2 ? FAULT_EIO : FAULT_STOP, at);)
			at += STRIDE;
}

static int setup(void **state)
{
	(void)state;
	files.folder = scratch_new();
	if (!files.folder)
		return -1;
	files.a = data_new("a.jsonl", 40, 5, 8);
	files.b = data_new("b.jsonl", 30, 7, 5);
	files.c = data_new("c.jsonl", 30, 240, 0);
	files.one = xasprintf("%s/one", files.folder);
	files.many = xasprintf("%s/many", files.folder);
	return 0;
}

/* Nothing but these is left. */
static int teardown(void **state)
{
	int rc;

	(void)state;
	rank_folder_remove(files.one);
	rank_folder_remove(files.many);
	unlink(files.a);
	unlink(files.b);
	unlink(files.c);
	rc = rmdir(files.folder);
	free(files.a);
	free(files.b);
	free(files.c);
	free(files.one);
	free(files.many);
	free(files.folder);
	return rc;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranks_write_the_bytes_of_one_process),
		cmocka_unit_test(progress_ends_at_its_total),
		cmocka_unit_test(the_least_memory_decides),
		cmocka_unit_test(a_rank_holds_its_own_sequences),
		cmocka_unit_test(the_failure_of_a_rank_is_that_of_all),
		cmocka_unit_test(any_call_of_a_rank_may_fail),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
