/* SPDX-License-Identifier: Apache-2.0
 *
 * The readers of fp8conv-manifest.json, which is the input: verify_run() of a good checkpoint
 * beside it, against its source and with the hashes of files, and report_open().
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/manifest.h"
#include "inspect/inspect.h"
#include "report/report.h"
#include "verify/verify.h"
#include "tests/fuzz/fuzz.h"

#define TEXT(text)                     \
	{                              \
		text, sizeof(text) - 1 \
	}

static const struct fuzz_checkpoint output = {
	.config = TEXT("{\"model_type\":\"llama\",\"quantization_config\":{\"quant_method\":"
		       "\"fp8\",\"fmt\":\"e4m3\",\"activation_scheme\":\"dynamic\","
		       "\"weight_block_size\":[128,128]}}"),
	.tensors = TEXT("model.layers.0.mlp.down_proj.weight F8_E4M3 128 128\n"
			"model.layers.0.mlp.down_proj.weight_scale_inv F32 1 1\n"),
	.pattern = TEXT("\x00\x3c\x80\x3f"),
};
static const struct fuzz_checkpoint source = {
	.config = TEXT("{\"model_type\":\"llama\"}"),
	.tensors = TEXT("model.layers.0.mlp.down_proj.weight BF16 128 128\n"),
	.pattern = TEXT("\x00\x3c\x80\x3f"),
};

static void verify(const char *folder, const char *source_folder, bool hashes)
{
	struct verify_params params = { .io = fuzz_io(),
					.input = folder,
					.source = source_folder,
					.hashes = hashes,
					.backend = backends[0],
					.n_threads = 1 };
	struct verification verification;
	struct progress progress = { 0 };
	struct err err = { 0 };

	if (verify_run(&verification, &params, &progress, &err))
		fuzz_check_error(&err);
	verification_release(&verification);
}

static void report(const char *folder)
{
	const struct report_params params = { .io = fuzz_io(), .n_threads = 1 };
	struct inspection inspection = { 0 };
	struct progress progress = { 0 };
	struct report report = { 0 };
	struct err err = { 0 };

	if (inspect_make(&inspection, &(struct inspect_params){ fuzz_io(), folder, folder, { 0 } },
			 &progress, &err))
		fuzz_check_error(&err); /* it says that the job is not finished */
	else if (report_open(&report, &params, &inspection.checkpoint, &inspection.detection, &err))
		fuzz_check_error(&err);
	report_release(&report);
	inspect_release(&inspection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *folder = fuzz_folder();
	char *source_folder = xasprintf("%s/source", folder);
	char *path = xasprintf("%s/" MANIFEST_NAME, folder);
	int fd;

	fuzz_checkpoint_write(folder, &output);
	FUZZ_CHECK(!mkdir(source_folder, 0777));
	fuzz_checkpoint_write(source_folder, &source);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	close(fd);
	verify(folder, source_folder, size & 1);
	report(folder);
	free(source_folder);
	free(path);
	return 0;
}
