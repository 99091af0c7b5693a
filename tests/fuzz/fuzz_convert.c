/* SPDX-License-Identifier: Apache-2.0
 *
 * The whole path of `quantize`.  The input: a byte that chooses recipe and format, one of options,
 * then config.json, the tensors and the pattern of their data, with NUL bytes between.
 *
 * What must hold: a job that fails leaves nothing that looks like a checkpoint; one that succeeds
 * leaves a checkpoint that opens, whose FP8 weights have their scales; and the same job by the
 * reference backend with other buffers gives the same bytes.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "inspect/inspect.h"
#include "execute/execute.h"
#include "plan/quantize.h"
#include "tests/fuzz/fuzz.h"

enum { RAGGED = 1, REQUANTIZE = 2, PRESERVE = 4, NONFINITE = 8, E5M2 = 64, TO_FILE = 128 };

static const struct {
	const char *recipe, *format;
} kinds[] = {
	{ "blockwise", NULL },	     { "mxfp8", NULL },
	{ "current", NULL },	     { "channelwise", NULL },
	{ "blockwise", "modelopt" }, { "channelwise", "modelopt" },
	{ "mxfp8", "modelopt" },     { "blockwise", "compressed-tensors" },
	{ "current", "modelopt" },   { "current", "compressed-tensors" },
};

static struct quantize_params params_of(uint8_t kind, uint8_t options)
{
	size_t i = kind % (sizeof kinds / sizeof *kinds);

	return (struct quantize_params){
		.recipe = kinds[i].recipe,
		.format = kinds[i].format,
		.tuning.fp8_format = options & E5M2 ? "e5m2" : NULL,
		.select = { .ragged = options & RAGGED, .requantize = options & REQUANTIZE },
		.skip_nonfinite = execute_skip_nonfinite,
		.convert = { .io = fuzz_io(),
			     .on_nonfinite = (enum on_nonfinite)(options / NONFINITE % 3),
			     .n_threads = 1,
			     .max_memory = 25u << 20 },
	};
}

/* A job that fails leaves whole shards at most: nothing that makes a checkpoint of them, and
 * nothing half done. */
static void check_failed(const char *folder)
{
	const struct dirent *entry;
	DIR *dir = opendir(folder);

	while (dir && (entry = readdir(dir))) {
		const char *name = entry->d_name;
		char *path = xasprintf("%s/%s", folder, name);
		struct st_file file;
		struct err err;

		FUZZ_CHECK(name[0] != '.' || strlen(name) < 3);
		FUZZ_CHECK(strcmp(name, "config.json") && !strstr(name, ".index.json"));
		if (strstr(name, ".safetensors")) {
			FUZZ_CHECK(!st_open(&file, fuzz_io(), path, &err));
			st_release(&file);
		}
		free(path);
	}
	if (dir)
		closedir(dir);
}

/* The output, as anybody would read it: its tensors' bytes count, no FP8 weight lacks a scale. */
static void check_output(const char *path)
{
	struct inspection inspection = { 0 };
	struct weight_scale scale;
	struct progress progress = { 0 };
	struct err err;

	FUZZ_CHECK(!inspect_make(&inspection,
				 &(struct inspect_params){ fuzz_io(), path, path, { 0 } },
				 &progress, &err));
	FUZZ_CHECK(inspection.detection.n_weights > 0);
	for (size_t i = 0; i < inspection.checkpoint.n_tensors; i++) {
		const struct tensor_ref *ref = &inspection.checkpoint.tensors[i];

		if (detection_is_weight(ref))
			FUZZ_CHECK(!detection_scale(&inspection.detection, ref, &scale, &err));
	}
	inspect_release(&inspection);
}

static int run(const struct quantize_params *params)
{
	struct progress progress = { 0 };
	struct convert_result result;
	struct plan plan = { 0 };
	struct err err = { 0 };
	int rc = quantize_plan_make(&plan, params, &progress, &err);

	if (!rc)
		rc = execute_plan(&plan, &params->convert, &progress, &result, &err);
	if (rc)
		fuzz_check_error(&err);
	else
		FUZZ_CHECK(result.complete);
	plan_release(&plan);
	return rc;
}

static void check_same(const char *a, const char *b)
{
	struct checkpoint checkpoint;
	struct err err;

	FUZZ_CHECK(!checkpoint_open(&checkpoint, fuzz_io(), a, 1, &err));
	for (size_t i = 0; i < checkpoint.n_shards; i++) {
		char *other = xasprintf("%s/%s", b, checkpoint.shards[i].name);
		struct buf x = { 0 }, y = { 0 };

		FUZZ_CHECK(!io_read_file(fuzz_io(), AT_FDCWD, checkpoint.shards[i].file.path,
					 SIZE_MAX, &x, &err));
		FUZZ_CHECK(!io_read_file(fuzz_io(), AT_FDCWD, other, SIZE_MAX, &y, &err));
		FUZZ_CHECK(x.len == y.len && !memcmp(x.data, y.data, x.len));
		buf_release(&x);
		buf_release(&y);
		free(other);
	}
	checkpoint_release(&checkpoint);
}

/* As a directory, twice, in two ways. */
static void to_directory(struct quantize_params *params, const char *folder)
{
	char *out = xasprintf("%s/out", folder), *other = xasprintf("%s/other", folder);

	params->convert.output = out;
	if (run(params)) {
		check_failed(out);
	} else {
		check_output(out);
		FUZZ_CHECK(!run(params)); /* finished: found so */
		params->convert.output = other;
		params->convert.preserve = NULL;
		params->convert.backend = backends[0];
		params->convert.max_memory = 64u << 20;
		FUZZ_CHECK(!run(params));
		check_same(out, other);
	}
	free(out);
	free(other);
}

static void to_file(struct quantize_params *params, const char *folder)
{
	char *out = xasprintf("%s/out.safetensors", folder);
	struct err err;
	int fd;
	struct file_identity identity;

	params->convert.output = out;
	if (!run(params)) {
		check_output(out);
	} else {
		FUZZ_CHECK(io_open_regular(fuzz_io(), AT_FDCWD, out, &fd, &identity, &err));
	}
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_checkpoint checkpoint = { 0 };
	struct quantize_params params;
	const char *folder;
	char *in, *preserve;
	uint8_t options;

	if (size < 3)
		return 0;
	options = data[1];
	params = params_of(data[0], options);
	data += 2;
	size -= 2;
	checkpoint.config = fuzz_part(&data, &size);
	checkpoint.tensors = fuzz_part(&data, &size);
	checkpoint.pattern = (struct json_text){ (const char *)data, size };
	folder = fuzz_folder();
	in = xasprintf("%s/in", folder);
	preserve = xasprintf("%s/preserve", folder);
	FUZZ_CHECK(!fuzz_io()->mkdirat(fuzz_io(), AT_FDCWD, in, 0700));
	fuzz_checkpoint_write(in, &checkpoint);
	params.convert.input = in;
	params.convert.temp_dir = folder;
	params.convert.backend = backend_select("auto", &(struct err){ 0 });
	params.convert.preserve = options & PRESERVE && !(options & REQUANTIZE) ? preserve : NULL;
	if (options & TO_FILE)
		to_file(&params, folder);
	else
		to_directory(&params, folder);
	free(preserve);
	free(in);
	return 0;
}
