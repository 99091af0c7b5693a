/* SPDX-License-Identifier: Apache-2.0
 *
 * eval_plan_make() and eval_run() on a checkpoint, by itself or against another: the input is
 * config.json, the tensors, what their data are, and the tensors of the source, with NUL bytes
 * between; then a byte of options, one that names the data's kind, and the data.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "eval/eval.h"
#include "tests/fuzz/fuzz.h"

static const char *const kinds[] = { "jsonl", "json", "npy", "npy.zst", "jsonl.gz" };

static char *data_write(const char *folder, uint8_t kind, const uint8_t *data, size_t size)
{
	char *inner = xasprintf("%s/data", folder);
	char *path = xasprintf("%s/ids.%s", inner, kinds[kind % (sizeof kinds / sizeof *kinds)]);
	int fd = mkdir(inner, 0777) ? -1 : open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	close(fd);
	free(inner);
	return path;
}

static void look(const struct eval_result *result, bool by_layer)
{
	const struct quality *quality = &result->quality;

	FUZZ_CHECK(quality->n_targets > 0 && quality->n_positions >= quality->n_targets);
	FUZZ_CHECK(quality->of[QUALITY_PERPLEXITY].value >= 1);
	FUZZ_CHECK(!quality->has_source || isfinite(quality->of[QUALITY_KLD].value));
	FUZZ_CHECK(!by_layer || result->n_layers > 0);
}

static void run(const struct eval_params *params)
{
	struct sweep_progress progress = { 0 };
	struct eval_result result;
	struct eval_plan plan;
	struct err err = { 0 };

	if (eval_plan_make(&plan, params, &err)) {
		fuzz_check_error(&err);
		return;
	}
	if (eval_run(&plan, params, &progress, &result, &err)) {
		fuzz_check_error(&err);
	} else {
		look(&result, params->by_layer);
		eval_result_release(&result);
	}
	eval_plan_release(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *folder = fuzz_folder();
	struct fuzz_checkpoint checkpoint = { 0 }, source = { 0 };
	struct eval_params params = { .io = fuzz_io(),
				      .input = folder,
				      .seq_len = 8,
				      .passes = 4,
				      .n_data = 1,
				      .backend = backends[0],
				      .n_threads = 1,
				      .max_memory = 64 << 20 };
	char *source_folder = NULL, *path;
	uint8_t options;

	checkpoint.config = source.config = fuzz_part(&data, &size);
	checkpoint.tensors = fuzz_part(&data, &size);
	checkpoint.pattern = source.pattern = fuzz_part(&data, &size);
	source.tensors = fuzz_part(&data, &size);
	if (size < 2)
		return 0;
	options = data[0];
	fuzz_checkpoint_write(folder, &checkpoint);
	if (source.tensors.len) {
		source_folder = xasprintf("%s/source", folder);
		FUZZ_CHECK(!mkdir(source_folder, 0777));
		fuzz_checkpoint_write(source_folder, &source);
		params.source = source_folder;
	}
	path = data_write(folder, data[1], data + 2, size - 2);
	params.data = (const char *const *)&path;
	params.activations = options & 1 ? "bf16" : NULL;
	params.precision = options & 2 ? "f32" : NULL;
	params.kv_cache = options & 4;
	params.by_layer = options & 8 && params.source;
	params.stride = options & 16 ? 3 : 0;
	run(&params);
	free(path);
	free(source_folder);
	return 0;
}
