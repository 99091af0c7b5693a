/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibrations on one, two and three GPUs: the history has the same bytes, each weight is read once
 * and copied to each, and none uses the memory of another.
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
#include "calibrate/calibrate.h"
#include "tests/simt/counts.h"
#include "tests/simt/device.h"
#include "tests/simt/history_files.h"

#define MAX_DEVICES 3
#define N_SEQUENCES 13

/* What differs between calibrations. */
struct job {
	const char *model, *recipe; /* recipe NULL: in high precision */
	int n_devices, n_threads, batch;
	bool histogram;
	uint64_t max_memory; /* 0: what is free */
};

/* What they took. */
struct outcome {
	int rc;
	struct err err;
	char *bytes; /* of the history */
	size_t size;
	size_t max_sequences;
	uint64_t n_read; /* bytes of files */
	struct simt_counts counts;
};

static struct io counted;
static _Atomic uint64_t n_read;

static ssize_t count_pread(const struct io *io, int fd, void *bytes, size_t n, off_t at)
{
	ssize_t got = io_system.pread(io, fd, bytes, n, at);

	if (got > 0)
		n_read += (uint64_t)got;
	return got;
}

static int setup(void **state)
{
	(void)state;
	if (files_begin())
		return -1;
	data_write(N_SEQUENCES, 0);
	counted = io_system;
	counted.pread = count_pread;
	simt_devices = MAX_DEVICES;
	return 0;
}

static struct outcome job_run(const struct job *job)
{
	struct outcome outcome = { 0 };
	const char *path = data;
	const struct calibrate_params params = { .io = &counted,
						 .input = job->model,
						 .data = &path,
						 .n_data = 1,
						 .output = output,
						 .backend = backend_select("cuda", &outcome.err),
						 .batch = job->batch,
						 .n_devices = job->n_devices,
						 .n_threads = job->n_threads,
						 .max_memory = job->max_memory,
						 .histogram = job->histogram,
						 .fp8 = { .forward = job->recipe,
							  .recipe = job->recipe,
							  .select = { .ragged = job->recipe } } };
	struct sweep_progress progress = { 0 };
	struct calibrate_result result = { 0 };
	struct calibrate_plan plan;
	struct amax_stats stats = { 0 };

	n_read = 0;
	memset(&simt_counts, 0, sizeof simt_counts);
	if (calibrate_plan_make(&plan, &params, &outcome.err))
		fail_msg("%s", outcome.err.message);
	outcome.max_sequences = plan.sweep.max_sequences;
	outcome.rc = calibrate_run(&plan, &params, &progress, &result, &stats, &outcome.err);
	outcome.counts = simt_counts;
	outcome.n_read = n_read;
	free(result.nll);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	assert_int_equal(simt_held, 0);
	if (!outcome.rc)
		outcome.bytes = history_take(&outcome.size);
	return outcome;
}

/* The same job on one device, and on n_devices. */
static void compare(struct job job)
{
	struct job one = job;
	struct outcome expected, got;

	one.n_devices = 1;
	expected = job_run(&one);
	got = job_run(&job);
	if (expected.rc || got.rc)
		fail_msg("%s%s", expected.err.message, got.err.message);
	assert_int_equal(got.size, expected.size);
	assert_memory_equal(got.bytes, expected.bytes, got.size);
	assert_int_equal(got.counts.n_foreign, 0);
	free(expected.bytes);
	free(got.bytes);
}

static void several_devices_give_the_same_history(void **state)
{
	static const char dense[] = "sample_checkpoints/tiny-llama",
			  experts[] = "sample_checkpoints/tiny-moe/per-expert";

	(void)state;
	compare((struct job){ dense, NULL, 2, 2, 1, true, 0 });
	compare((struct job){ dense, NULL, 3, 5, 2, false, 0 });
	compare((struct job){ experts, NULL, 2, 5, 1, false, 0 });
	compare((struct job){ experts, NULL, 3, 3, 1, true, 0 });
	/* several sweeps, whose layers do not stay */
	compare((struct job){ dense, NULL, 3, 3, 1, false, 1 << 20 });
}

/* Delayed scaling takes a step for each pass, whose sequences the devices share. */
static void several_devices_quantize_alike(void **state)
{
	(void)state;
	compare((struct job){ "sample_checkpoints/tiny-llama", "current", 3, 3, 1, false, 0 });
	compare((struct job){ "sample_checkpoints/tiny-llama", "delayed", 2, 4, 4, false, 0 });
	compare((struct job){ "sample_checkpoints/tiny-llama", "delayed", 2, 3, 1, false, 0 });
}

/* Fewer sequences than devices: some have no work. */
static void devices_may_be_idle(void **state)
{
	FILE *file = fopen(data, "w");

	(void)state;
	assert_non_null(file);
	fputs("{\"input_ids\": [1, 2, 3]}\n", file);
	fclose(file);
	compare((struct job){ "sample_checkpoints/tiny-llama", NULL, 3, 3, 1, true, 0 });
	data_write(N_SEQUENCES, 0);
}

static void weights_are_read_once_and_copied_to_each(void **state)
{
	struct job job = { "sample_checkpoints/tiny-llama", NULL, 1, 3, 1, false, 0 };
	struct outcome one = job_run(&job), three;

	(void)state;
	job.n_devices = 3;
	three = job_run(&job);
	assert_int_equal(three.n_read, one.n_read);
	assert_true(three.counts.n_bytes_in > 2 * one.counts.n_bytes_in);
	free(one.bytes);
	free(three.bytes);
}

/* Memory is that of the device that has least; those with more do not help it. */
static void the_least_free_memory_counts(void **state)
{
	const uint64_t little = (uint64_t)52 << 20;
	struct job job = { "sample_checkpoints/tiny-llama", NULL, 2, 2, 1, false, 0 };
	size_t most[2][2];

	(void)state;
	for (int first = 0; first < 2; first++)
		for (int second = 0; second < 2; second++) {
			struct outcome outcome;

			simt_reported_of[0] = first ? little << 10 : little;
			simt_reported_of[1] = second ? little << 10 : little;
			outcome = job_run(&job);
			most[first][second] = outcome.max_sequences;
			free(outcome.bytes);
		}
	simt_reported_of[0] = simt_reported_of[1] = 0;
	assert_true(most[0][0] < most[1][1]);
	assert_int_equal(most[0][1], most[0][0]);
	assert_int_equal(most[1][0], most[0][0]);
}

/* Any call of any device may fail, in the order of that device alone, which no scheduler changes:
 * nothing is written, and nothing stays on one. */
static void a_failed_call_on_any_device_ends_it(void **state)
{
	const struct job job = { "sample_checkpoints/tiny-llama", NULL, 2, 2, 1, true, 0 };

	(void)state;
	for (int device = 0; device < 2; device++) {
		char *gpu = xasprintf(" GPU %d: ", device);
		struct outcome outcome;
		size_t n_named = 0;
		long n = 0;

		do {
			simt_calls_device = device;
			simt_calls_left = n;
			outcome = job_run(&job);
			simt_calls_left = simt_calls_device = -1;
			assert_int_equal(access(output, F_OK), -1);
			if (outcome.rc) {
				assert_int_equal(outcome.err.kind, ERR_SYSTEM);
				n_named += strstr(outcome.err.message, gpu) != NULL;
			}
			n += 1 + n / 3;
		} while (outcome.rc);
		free(outcome.bytes);
		free(gpu);
		assert_true(n_named > 3);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_devices_give_the_same_history),
		cmocka_unit_test(several_devices_quantize_alike),
		cmocka_unit_test(devices_may_be_idle),
		cmocka_unit_test(weights_are_read_once_and_copied_to_each),
		cmocka_unit_test(the_least_free_memory_counts),
		cmocka_unit_test(a_failed_call_on_any_device_ends_it),
	};

	return cmocka_run_group_tests(tests, setup, files_end);
}
