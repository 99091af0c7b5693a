/* SPDX-License-Identifier: Apache-2.0
 *
 * verify_run() on a checkpoint, by itself or against another, and diff_run() of both: the input is
 * config.json, hf_quant_config.json, the tensors, what their data are, and the tensors of the
 * source, with NUL bytes between.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "diff/diff.h"
#include "verify/verify.h"
#include "tests/fuzz/fuzz.h"

static void look(const struct verification *verification)
{
	for (size_t i = 0; i < verification->problems.n; i++) {
		const struct problem *problem = &verification->problems.list[i];

		FUZZ_CHECK(problem_kind_name(problem->kind));
		FUZZ_CHECK(*problem->message && !strchr(problem->message, '\n'));
	}
}

/* What is found fits what there is; a checkpoint does not differ from itself. */
static void compare(const char *a, const char *b)
{
	const struct diff_params params = {
		.io = fuzz_io(), .paths = { a, b }, .backend = backends[0], .n_threads = 1
	};
	struct progress progress = { 0 };
	struct difference difference;
	struct err err = { 0 };

	if (diff_run(&difference, &params, &progress, &err))
		fuzz_check_error(&err);
	else
		FUZZ_CHECK(a != b || diff_is_none(&difference));
	for (size_t i = 0; i < difference.n_tensors && err.kind == ERR_NONE; i++) {
		const struct diff_tensor *tensor = &difference.tensors[i];

		FUZZ_CHECK(tensor->found.n_values <= tensor->n_elements);
		FUZZ_CHECK(tensor->found.n_codes <= tensor->n_elements);
		FUZZ_CHECK(tensor->scales_off <= tensor->n_scales);
		FUZZ_CHECK(!(tensor->found.noise < 0) && tensor->kind < N_DIFF_KINDS);
	}
	diff_release(&difference);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *folder = fuzz_folder();
	struct fuzz_checkpoint checkpoint = { 0 }, source = { 0 };
	struct verification verification;
	struct progress progress = { 0 };
	struct err err = { 0 };
	char *source_folder = NULL;
	struct verify_params params = {
		.io = fuzz_io(), .input = folder, .backend = backends[0], .n_threads = 1
	};

	checkpoint.config = fuzz_part(&data, &size);
	checkpoint.hf_quant_config = fuzz_part(&data, &size);
	checkpoint.tensors = fuzz_part(&data, &size);
	checkpoint.pattern = source.pattern = fuzz_part(&data, &size);
	source.tensors = fuzz_part(&data, &size);
	fuzz_checkpoint_write(folder, &checkpoint);
	if (source.tensors.len) {
		source_folder = xasprintf("%s/source", folder);
		FUZZ_CHECK(!mkdir(source_folder, 0777));
		fuzz_checkpoint_write(source_folder, &source);
		params.source = source_folder;
	}
	params.tp = size ? 2 : 0;
	if (verify_run(&verification, &params, &progress, &err))
		fuzz_check_error(&err);
	else
		look(&verification);
	verification_release(&verification);
	compare(folder, source_folder ? source_folder : folder);
	free(source_folder);
	return 0;
}
