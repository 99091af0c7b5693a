/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands of the program in this process: what they print, their progress, and their end by the
 * caller.  Amax files of the caller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fp8conv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/folders.h"

#define MODEL "sample_checkpoints/tiny-llama"

/* What the functions of the caller were told. */
struct told {
	size_t n_progress, n_lines;
	double done;
	char last[1000];
};

static void on_progress(void *user, const struct fp8conv_progress *progress)
{
	struct told *told = user;

	assert_int_equal(progress->size, sizeof *progress);
	told->n_progress++;
	told->done = progress->done;
}

static void on_line(void *user, const char *line)
{
	struct told *told = user;

	told->n_lines++;
	snprintf(told->last, sizeof told->last, "%s", line);
}

static void results_and_errors_come_by_memory(void **state)
{
	static const char *const recipes[] = { "fp8conv", "recipes", "--json" },
				 *const wrong[] = { "fp8conv", "quantise" },
				 *const missing[] = { "fp8conv", "inspect", "/nowhere" },
				 *const hole[] = { "fp8conv", NULL };
	struct fp8conv_run run = { .size = sizeof run };
	struct fp8conv_error error;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fp8conv_run(3, recipes, &run, &error), 0);
		assert_int_equal(run.status, 0);
		assert_int_equal(strlen(run.output), run.output_size);
		assert_non_null(strstr(run.output, "\"blockwise\""));
		fp8conv_free(run.output);
	}
	assert_int_equal(fp8conv_run(2, wrong, &run, &error), FP8CONV_USAGE);
	assert_string_equal(error.message, "unknown command 'quantise' (did you mean 'quantize'?)");
	assert_null(run.output);
	assert_int_equal(fp8conv_run(3, missing, &run, &error), FP8CONV_INPUT);
	assert_int_equal(strncmp(error.message, "inspect: ", 9), 0);
	assert_int_equal(fp8conv_run(2, hole, &run, &error), FP8CONV_USAGE);
	assert_int_equal(fp8conv_run(0, NULL, &run, &error), FP8CONV_USAGE);
	assert_int_equal(fp8conv_run(2, wrong, NULL, &error), FP8CONV_USAGE);
}

static void remove_tree(const char *path)
{
	char command[700];

	snprintf(command, sizeof command, "rm -rf '%s'", path);
	assert_int_equal(system(command), 0);
}

/* A job that was cancelled leaves no finished output, and the next run makes it.  No handler of
 * this process was changed. */
static void a_job_ends_by_its_caller(void **state)
{
	int cancel = SIGTERM;
	struct told told = { 0 };
	struct fp8conv_run run = { .size = sizeof run,
				   .cancel = &cancel,
				   .progress = on_progress,
				   .log = on_line,
				   .user = &told };
	char output[600], config[700], *scratch = scratch_new();
	const char *argv[] = { "fp8conv", "quantize", MODEL, "-o", output, "--json", "-v" };
	struct sigaction before[3], after;
	static const int signals[] = { SIGINT, SIGTERM, SIGPIPE };
	struct fp8conv_error error;
	sigset_t mask;

	(void)state;
	assert_non_null(scratch);
	snprintf(output, sizeof output, "%s/out", scratch);
	snprintf(config, sizeof config, "%s/config.json", output);
	for (int i = 0; i < 3; i++)
		sigaction(signals[i], NULL, &before[i]);
	assert_int_equal(fp8conv_run(7, argv, &run, &error), FP8CONV_INTERRUPTED);
	assert_non_null(strstr(error.message, "interrupted by signal 15"));
	assert_int_not_equal(access(config, F_OK), 0);

	cancel = 0;
	if (fp8conv_run(7, argv, &run, &error))
		fail_msg("%s", error.message);
	assert_int_equal(access(config, F_OK), 0);
	assert_true(told.n_progress >= 1 && told.done > 0);
	assert_true(told.n_lines > 3);
	assert_non_null(strstr(run.output, "\"output\""));
	fp8conv_free(run.output);
	for (int i = 0; i < 3; i++) {
		sigaction(signals[i], NULL, &after);
		assert_ptr_equal(after.sa_handler, before[i].sa_handler);
	}
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	assert_false(sigismember(&mask, SIGTERM));
	remove_tree(scratch);
	free(scratch);
}

static void run_again(void *user, const struct fp8conv_progress *progress)
{
	static const char *const argv[] = { "fp8conv", "recipes" };
	struct fp8conv_run run = { .size = sizeof run };
	struct fp8conv_error error;
	int *n = user;

	(void)progress;
	*n += 1;
	assert_int_equal(fp8conv_run(2, argv, &run, &error), FP8CONV_USAGE);
	assert_string_equal(error.message, "another run is in progress in this process");
}

static void one_run_at_a_time(void **state)
{
	static const char *const argv[] = { "fp8conv", "inspect", MODEL, "--stats" };
	int n = 0;
	struct fp8conv_run run = { .size = sizeof run, .progress = run_again, .user = &n };

	(void)state;
	assert_int_equal(fp8conv_run(4, argv, &run, NULL), 0);
	fp8conv_free(run.output);
	assert_true(n > 0);
}

#define HISTORY "sample_checkpoints/amax/tiny-llama-1.amax"

/* A file of the samples, which amax.py wrote, becomes arrays and a file again; the fingerprint is
 * computed from the model. */
static void an_amax_file_comes_and_goes(void **state)
{
	struct fp8conv_amax_file *file, *again = NULL;
	char path[600], model[40], *scratch = scratch_new();
	struct fp8conv_error error;

	(void)state;
	assert_non_null(scratch);
	snprintf(path, sizeof path, "%s/stats.amax", scratch);
	if (fp8conv_amax_load(HISTORY, &file, &error))
		fail_msg("%s", error.message);
	assert_true(file->n_modules > 14);
	assert_int_equal(file->data[0], 0x6b86b273ff34fce1);
	snprintf(model, sizeof model, "%s", file->model);
	file->model = NULL;
	file->checkpoint = MODEL;
	if (fp8conv_amax_save(path, file, &error) || fp8conv_amax_load(path, &again, &error))
		fail_msg("%s", error.message);
	assert_string_equal(again->model, model);
	assert_string_equal(again->backend, "cpu");
	assert_memory_equal(again->data, file->data, sizeof file->data);
	assert_int_equal(again->passes, 4);
	assert_int_equal(again->tokens, 64);
	assert_int_equal(again->n_modules, file->n_modules);
	for (size_t i = 0; i < file->n_modules; i++) {
		const struct fp8conv_amax_module *a = &again->modules[i], *b = &file->modules[i];

		assert_string_equal(a->name, b->name);
		assert_int_equal(a->attention, b->attention);
		assert_int_equal(a->n_passes, 4);
		assert_memory_equal(a->amax, b->amax, sizeof(float[4][3]));
		assert_memory_equal(a->tokens, b->tokens, sizeof(int64_t[4]));
	}
	fp8conv_free(again);
	fp8conv_free(file);
	remove_tree(scratch);
	free(scratch);
}

/* The history of a state: row 0 is not of a pass, and a pass without an x has no tokens. */
static void an_amax_file_takes_the_array_of_a_history(void **state)
{
	float amax[4][6] = { { 9, 9, 9, 9, 9, 9 },
			     { 0, 2, 0, 9, 9, 9 },
			     { 1, 2, 3, 9, 9, 9 },
			     { 4, 2, 6, 9, 9, 9 } };
	struct fp8conv_amax_module module = { sizeof module, "m", 0, 3, 6, amax[1], NULL };
	struct fp8conv_amax_file file = { .size = sizeof file,
					  .model = "f",
					  .precision = "f32",
					  .n_modules = 1,
					  .modules = &module };
	struct fp8conv_amax_file *again;
	struct fp8conv_error error;
	char path[600], *scratch = scratch_new();

	(void)state;
	assert_non_null(scratch);
	snprintf(path, sizeof path, "%s/stats.amax", scratch);
	assert_int_equal(fp8conv_amax_save(path, &file, &error), 0);
	assert_int_equal(fp8conv_amax_load(path, &again, &error), 0);
	for (int i = 0; i < 3; i++) {
		assert_memory_equal(again->modules[0].amax + i * 3, amax[i + 1], 12);
		assert_int_equal(again->modules[0].tokens[i], i > 0);
	}
	fp8conv_free(again);
	module.stride = 2;
	assert_int_equal(fp8conv_amax_save(path, &file, &error), FP8CONV_USAGE);
	assert_string_equal(error.message, "module 'm': stride is 2, less than 3");
	module.stride = 6;
	amax[2][1] = -1;
	assert_int_equal(fp8conv_amax_save(path, &file, &error), FP8CONV_USAGE);
	assert_string_equal(error.message, "module 'm': amax 1 of pass 1 is -1");
	file.checkpoint = "/nowhere";
	assert_int_equal(fp8conv_amax_save(path, &file, &error), FP8CONV_INPUT);
	assert_int_equal(fp8conv_amax_load("Makefile", &again, &error), FP8CONV_INPUT);
	assert_int_equal(fp8conv_amax_load(NULL, &again, &error), FP8CONV_USAGE);
	remove_tree(scratch);
	free(scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(results_and_errors_come_by_memory),
		cmocka_unit_test(a_job_ends_by_its_caller),
		cmocka_unit_test(one_run_at_a_time),
		cmocka_unit_test(an_amax_file_comes_and_goes),
		cmocka_unit_test(an_amax_file_takes_the_array_of_a_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
