/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts in FP8 on a GPU: the tokens of all sequences of a group at once give the history that the
 * sequences give one after the other.
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
#include "calibrate/calibrate.h"
#include "tests/simt/counts.h"
#include "tests/simt/device.h"
#include "tests/simt/history_files.h"

#define N_SEQUENCES 7

/* What differs between calibrations. */
struct job {
	const char *model, *recipe, *scale_fmt;
	int batch;
	const char *kept; /* a regular expression of tensors that are not quantized; NULL: none */
};

struct outcome {
	char *bytes; /* of the history */
	size_t size;
	uint64_t n_launches;
};

static int setup(void **state)
{
	(void)state;
	if (files_begin())
		return -1;
	data_write(N_SEQUENCES, 8);
	return 0;
}

static struct outcome job_run(const struct job *job, const struct backend *backend)
{
	struct outcome outcome = { 0 };
	const char *path = data, *kept = job->kept;
	const struct calibrate_params params = {
		.io = &io_system,
		.input = job->model,
		.data = &path,
		.n_data = 1,
		.output = output,
		.backend = backend,
		.batch = job->batch,
		.n_threads = 1,
		.histogram = true,
		.fp8 = { .forward = true,
			 .recipe = job->recipe,
			 .scale_fmt = job->scale_fmt,
			 .select = { .ragged = !strcmp(job->recipe, "blockwise"),
				     .exclude = { &kept, kept ? 1 : 0 } } }
	};
	struct sweep_progress progress = { 0 };
	struct calibrate_result result = { 0 };
	struct calibrate_plan plan;
	struct amax_stats stats = { 0 };
	struct err err = { 0 };

	memset(&simt_counts, 0, sizeof simt_counts);
	if (calibrate_plan_make(&plan, &params, &err) ||
	    calibrate_run(&plan, &params, &progress, &result, &stats, &err))
		fail_msg("%s", err.message);
	outcome.n_launches = simt_counts.n_launches;
	free(result.nll);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	assert_int_equal(simt_held, 0);
	outcome.bytes = history_take(&outcome.size);
	return outcome;
}

/* A GPU's executor that does not multiply the rows of several sequences together. */
static struct executor_ops alone_ops;

static int alone_open(struct executor **result, int device, struct err *err)
{
	if (backend_select("cuda", err)->executor->open(result, device, err))
		return -1;
	(*result)->ops = &alone_ops;
	return 0;
}

static struct backend alone_backend(void)
{
	struct err err = { 0 };
	struct backend backend = *backend_select("cuda", &err);

	alone_ops = *backend.executor;
	alone_ops.open = alone_open;
	alone_ops.load.grouped = false;
	backend.executor = &alone_ops;
	return backend;
}

static void compare(const struct job *job)
{
	const struct backend alone = alone_backend();
	struct err err = { 0 };
	struct outcome expected = job_run(job, &alone);
	struct outcome got = job_run(job, backend_select("cuda", &err));

	print_message("%s of %s, batches of %d: %llu launches, alone %llu\n", job->recipe,
		      job->model, job->batch, (unsigned long long)got.n_launches,
		      (unsigned long long)expected.n_launches);
	assert_int_equal(got.size, expected.size);
	assert_memory_equal(got.bytes, expected.bytes, got.size);
	assert_true(got.n_launches < expected.n_launches);
	free(expected.bytes);
	free(got.bytes);
}

static void sequences_together_give_the_same_history(void **state)
{
	static const char each[] = "sample_checkpoints/tiny-moe/per-expert",
			  fused[] = "sample_checkpoints/tiny-moe/fused",
			  pairs[] = "sample_checkpoints/tiny-moe/fused-transposed";
	static const struct job jobs[] = {
		{ each, "blockwise", NULL, 1, NULL },
		{ each, "blockwise", "float", 1, NULL },
		{ each, "channelwise", NULL, 1, NULL },
		{ each, "mxfp8", NULL, 1, NULL },
		{ each, "current", NULL, 1, NULL },
		{ each, "delayed", NULL, 4, NULL },
		/* what is kept is rounded to bf16 instead */
		{ each, "current", NULL, 1, ".*experts.*" },
		{ fused, "current", NULL, 1, NULL },
		{ fused, "mxfp8", NULL, 1, NULL },
		{ fused, "delayed", NULL, 3, NULL },
		{ pairs, "current", NULL, 1, NULL },
		{ pairs, "blockwise", NULL, 1, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
		compare(&jobs[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequences_together_give_the_same_history),
	};

	return cmocka_run_group_tests(tests, setup, files_end);
}
