/* SPDX-License-Identifier: Apache-2.0
 *
 * A calibration on a GPU that fails: whatever call it is, the error names the device, nothing is
 * written, and nothing is left on it.  And one whose device has less memory than it says, or takes
 * few rows of a product at once: the history is the same.
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
#include "tests/simt/device.h"
#include "tests/unit/support/folders.h"

static const char *const models[] = { "sample_checkpoints/tiny-llama",
				      "sample_checkpoints/tiny-moe/per-expert" };

/* What differs between calibrations; values are kept beside their codes for histograms. */
struct job {
	const struct backend *backend;
	bool fp8, histogram;
};

static int job_run(const struct job *job, const char *model, const char *data, const char *output,
		   struct err *err)
{
	const struct calibrate_params params = { .io = &io_system,
						 .input = model,
						 .data = &data,
						 .n_data = 1,
						 .output = output,
						 .backend = job->backend,
						 .n_threads = 1,
						 .histogram = job->histogram,
						 .fp8 = { .forward = job->fp8,
							  .recipe = job->fp8 ? "current" : NULL } };
	struct sweep_progress progress = { 0 };
	struct calibrate_result result = { 0 };
	struct calibrate_plan plan;
	struct amax_stats stats = { 0 };
	int rc;

	assert_int_equal(calibrate_plan_make(&plan, &params, err), 0);
	rc = calibrate_run(&plan, &params, &progress, &result, &stats, err);
	free(result.nll);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	return rc;
}

/* Two short passes; with fp8, what is multiplied goes by way of the host. */
static int calibrate(const char *model, bool fp8, const char *data, const char *output,
		     struct err *err)
{
	const struct job job = { backend_select("cuda", err), fp8, true };

	return job_run(&job, model, data, output, err);
}

/* Each call of the beginning fails in turn; then they get rarer. */
static void all_fail(const char *model, bool fp8, const char *data, const char *output)
{
	struct err err = { 0 };
	long n = 0, n_failures = 0;
	int rc;

	do {
		simt_calls_left = n;
		rc = calibrate(model, fp8, data, output, &err);
		simt_calls_left = -1;
		assert_int_equal(simt_held, 0);
		assert_int_equal(access(output, F_OK), rc ? -1 : 0);
		if (rc) {
			assert_int_equal(err.kind, ERR_SYSTEM);
			assert_non_null(strstr(err.message, " GPU 0: "));
			n_failures++;
		}
		n += 1 + n / 12;
	} while (rc);
	assert_true(n_failures > 50);
	unlink(output);
}

static void a_failed_call_ends_the_calibration(void **state)
{
	char *folder = scratch_new();
	char *data, *output;
	FILE *file;

	(void)state;
	assert_non_null(folder);
	data = xasprintf("%s/ids.jsonl", folder);
	output = xasprintf("%s/out.amax", folder);
	file = fopen(data, "w");
	assert_non_null(file);
	fputs("{\"input_ids\": [1, 2, 3, 5, 8, 13, 21]}\n{\"input_ids\": [34, 55]}\n", file);
	fclose(file);
	for (size_t i = 0; i < sizeof models / sizeof *models; i++)
		for (int fp8 = 0; fp8 < 2; fp8++)
			all_fail(models[i], fp8, data, output);
	unlink(data);
	rmdir(folder);
	free(data);
	free(output);
	free(folder);
}

/* Writes sequences, of which only the first differ in length. */
static void data_write(const char *path)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (int i = 0; i < 12; i++)
		fprintf(file, "{\"input_ids\": [%d, 2, 3%s]}\n", i, i < 3 ? ", 5, 8, 13" : "");
	fclose(file);
}

static char *file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	char *bytes = xcalloc(1, 1 << 24);

	assert_non_null(file);
	*size = fread(bytes, 1, 1 << 24, file);
	fclose(file);
	return bytes;
}

/* Calibrates with so much memory on the device; returns whether that was enough, and then the
 * result is the expected one. */
static bool fits(const char *model, const char *data, const char *output, uint64_t memory,
		 const char *expected, size_t expected_size)
{
	struct err err = { 0 };
	size_t size;
	char *bytes;
	int rc;

	simt_memory = memory;
	rc = calibrate(model, false, data, output, &err);
	simt_memory = UINT64_MAX;
	assert_int_equal(simt_held, 0);
	if (rc) {
		assert_true(err.no_memory);
		return false;
	}
	bytes = file_read(output, &size);
	assert_int_equal(size, expected_size);
	assert_memory_equal(bytes, expected, size);
	free(bytes);
	unlink(output);
	return true;
}

/* A device that reports more memory than it has, or loses some to others, at any allocation: the
 * calibration takes smaller steps, and its result is the same. */
static void less_memory_gives_the_same_history(void **state)
{
	char *folder = scratch_new(), *data = xasprintf("%s/ids.jsonl", folder);
	char *output = xasprintf("%s/out.amax", folder), *expected;
	const uint64_t most = (uint64_t)64 << 20;
	uint64_t memory = most, n_fit = 0;
	struct err err = { 0 };
	size_t size;

	(void)state;
	data_write(data);
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		assert_int_equal(calibrate(models[i], false, data, output, &err), 0);
		expected = file_read(output, &size);
		unlink(output);
		simt_reported = most * 16;
		for (memory = most; fits(models[i], data, output, memory, expected, size); n_fit++)
			memory -= memory / 16;
		simt_reported = UINT64_MAX;
		print_message("%s: %llu bytes are too few\n", models[i],
			      (unsigned long long)memory);
		for (long n = 0; n < 200; n += 1 + n / 4) {
			simt_allocations_left = n;
			assert_true(fits(models[i], data, output, UINT64_MAX, expected, size));
		}
		simt_allocations_left = -1;
		free(expected);
	}
	assert_true(n_fit > 4);
	unlink(data);
	rmdir(folder);
	free(data);
	free(output);
	free(folder);
}

/* An executor of the GPU that takes few rows at once, as the CPU's does to keep values in a cache:
 * fewer, the wider they are, and all where that would be too few. */
static struct executor_ops few_rows_ops;
static size_t near_values;

static size_t few_rows(enum executor_portion what, size_t n)
{
	size_t rows = near_values / n;

	if (what != PORTION_ROWS)
		return backend_select("cuda", &(struct err){ 0 })->executor->portion(what, n);
	return rows < 2 ? SIZE_MAX : rows;
}

static int few_rows_open(struct executor **result, int device, struct err *err)
{
	if (backend_select("cuda", err)->executor->open(result, device, err))
		return -1;
	(*result)->ops = &few_rows_ops;
	return 0;
}

/* Products take their rows in other numbers than the mlp around them.  A GPU's inputs are codes,
 * whose values are not kept. */
static void few_rows_give_the_same_history(void **state)
{
	char *folder = scratch_new(), *data = xasprintf("%s/ids.jsonl", folder);
	char *output = xasprintf("%s/out.amax", folder), *expected, *bytes;
	struct err err = { 0 };
	struct backend backend = *backend_select("cuda", &err);
	const struct job whole = { backend_select("cuda", &err), false, false },
			 few = { &backend, false, false };
	size_t size, expected_size;

	(void)state;
	few_rows_ops = *backend.executor;
	few_rows_ops.open = few_rows_open;
	few_rows_ops.portion = few_rows;
	backend.executor = &few_rows_ops;
	data_write(data);
	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		assert_int_equal(job_run(&whole, models[i], data, output, &err), 0);
		expected = file_read(output, &expected_size);
		unlink(output);
		for (near_values = 64; near_values < 8192; near_values += near_values / 2) {
			assert_int_equal(job_run(&few, models[i], data, output, &err), 0);
			bytes = file_read(output, &size);
			assert_int_equal(size, expected_size);
			assert_memory_equal(bytes, expected, size);
			free(bytes);
			unlink(output);
		}
		free(expected);
	}
	unlink(data);
	rmdir(folder);
	free(data);
	free(output);
	free(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failed_call_ends_the_calibration),
		cmocka_unit_test(less_memory_gives_the_same_history),
		cmocka_unit_test(few_rows_give_the_same_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
