/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of a model's directory: which of them are the model, which are copied beside it, which
 * are left out, and which are refused.
 */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/file_set.h"
#include "ckpt/listing.h"
#include "support/folders.h"

#define A "model-00001-of-00002.safetensors"
#define B "model-00002-of-00002.safetensors"

static const char *const taken[] = {
	"LICENSE",
	"chat_template.jinja",
	"generation_config.json",
	"lora/adapter_config.json",
	"lora/adapter_model.safetensors",
	"original/params.json",
	"sub/config.json",
	"sub/deep/er/x.py",
	"sub/x.index.json",
	"sub/x.safetensors",
	"tokenizer.json",
	"tokenizer.model",
	"vision/fp8conv-note.txt",
};

/* Left out and told, sorted. */
static const char *const left[] = {
	"A.PTH",
	"a.ckpt",
	"a.gguf",
	"a.msgpack",
	"a.pt",
	"adapter_config.json",
	"adapter_model.safetensors",
	"consolidated.safetensors",
	"gone.bin",
	"linked/",
	"onnx/model.onnx",
	"onnx/model.onnx_data",
	"original/consolidated.00.pth",
	"original/model.safetensors",
	"pickled/adapter_config.json",
	"pickled/adapter_model.bin",
	"pytorch_model.bin",
	"pytorch_model.bin.index.json",
	"rust_model.ot",
	"scheduler.pkl",
	"sharded/model.safetensors",
	"step-7/model.safetensors",
	"sub/x.pickle",
	"tf_model.h5",
	"x.dill",
	"x.index.json",
	"x.joblib",
};

/* Files of the model, of this program and of tools. */
static const char *const untold[] = {
	"config.json",	 "hf_quant_config.json",  ".gitattributes",
	".cache/x.json", "fp8conv-manifest.json", "sub/.hidden",
};

static void expect_paths(struct listing *files, const char *const *expected, size_t n_expected)
{
	for (size_t i = 0; i < files->n && i < n_expected; i++)
		assert_string_equal(files->items[i], expected[i]);
	assert_int_equal(files->n, n_expected);
	listing_release(files);
}

static void put_all(const char *folder, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strchr(names[i], '/') || names[i][strlen(names[i]) - 1] != '/')
			model_folder_put(folder, names[i], "{}");
}

/* A directory with all that is taken and left.  The model has tensors a and b. */
static void put_files(const char *folder)
{
	put_all(folder, taken, sizeof taken / sizeof *taken);
	put_all(folder, left, sizeof left / sizeof *left);
	put_all(folder, untold, sizeof untold / sizeof *untold);
	model_folder_shard(folder, "model.safetensors", "ab");
	model_folder_shard(folder, "sub/x.safetensors", "b");
	model_folder_shard(folder, "step-7/model.safetensors", "bca");
	model_folder_slice(folder, "sharded/model.safetensors", "[1]");
}

static void auxiliary_files_are_listed(void **state)
{
	struct checkpoint checkpoint;
	struct listing files;
	char *path = model_folder_place(*state, "gone.bin");
	struct err err;

	put_files(*state);
	assert_int_equal(unlink(path), 0);
	model_folder_link(*state, "gone.bin", "nowhere");
	free(path);
	path = model_folder_place(*state, "tokenizer.json");
	assert_int_equal(unlink(path), 0);
	model_folder_link(*state, "tokenizer.json", "LICENSE");
	model_folder_link(*state, "linked", "sub");
	free(path);
	model_folder_open(&checkpoint, *state);
	assert_int_equal(checkpoint_auxiliary(&checkpoint, &files, &err), 0);
	expect_paths(&files, taken, sizeof taken / sizeof *taken);
	assert_int_equal(checkpoint_left_out(&checkpoint, &files, &err), 0);
	expect_paths(&files, left, sizeof left / sizeof *left);
	checkpoint_release(&checkpoint);
}

/* What stands in the place of a file is an error that names it. */
static void no_file_is_passed_over(void **state)
{
	static const struct {
		const char *name, *target; /* of a link; NULL: a directory; "": an empty file */
		const char *message;
	} cases[] = {
		{ "tokenizer.json", "../blobs/gone", "is a link to a file that does not exist" },
		{ "LICENSE", "LICENSE", "is a link in a loop of links" },
		{ "vocab.txt", "model.safetensors/x", "is a link to a file that does not exist" },
		{ "a.py", "/dev/null", "is not a file" },
		{ "tokenizer.json", NULL, "is a directory, but has the name of a file" },
		{ "chat_template.jinja", ".", "is a directory, but has the name of a file" },
		{ "tokenizer_config.json", "", "is empty" },
	};

	model_folder_shard(*state, "model.safetensors", "a");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *path = model_folder_place(*state, cases[i].name);
		struct checkpoint checkpoint;
		struct listing files;
		struct err err = { 0 };

		if (!cases[i].target)
			assert_int_equal(mkdir(path, 0700), 0);
		else if (!*cases[i].target)
			model_folder_put(*state, cases[i].name, "");
		else
			model_folder_link(*state, cases[i].name, cases[i].target);
		model_folder_open(&checkpoint, *state);
		assert_int_equal(checkpoint_auxiliary(&checkpoint, &files, &err), -1);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_non_null(strstr(err.message, cases[i].message));
		assert_non_null(strstr(err.message, cases[i].name));
		checkpoint_release(&checkpoint);
		assert_int_equal(remove(path), 0);
		free(path);
	}
}

/* The set that is described is the first complete one, else that with the most files. */
static void sets_of_files_are_found(void **state)
{
	static const struct {
		const char *names; /* separated by spaces */
		size_t n_complete, n_expected, n_files;
		const char *missing;
	} cases[] = {
		{ "model.safetensors x-of-3.safetensors", 0, 0, 0, NULL },
		{ "m-1-of-2.safetensors m-2-of-2.safetensors", 1, 2, 2, NULL },
		{ "m-0-of-2.safetensors m-1-of-2.safetensors", 1, 2, 2, NULL },
		{ "m-0-of-2.safetensors m-2-of-2.safetensors", 0, 2, 2, "m-1-of-2.safetensors" },
		{ "m-00001-of-00001.safetensors", 1, 1, 1, NULL },
		/* a stale file does not make a set of two incomplete */
		{ "m-01-of-03.safetensors m-01-of-02.safetensors m-02-of-02.safetensors", 1, 2, 2,
		  NULL },
		{ "a-1-of-3.safetensors b-1-of-3.safetensors b-3-of-3.safetensors", 0, 3, 2,
		  "b-2-of-3.safetensors" },
		{ "a-1-of-1.safetensors b-1-of-1.safetensors", 2, 1, 1, NULL },
		{ "one-of-two-1-of-2.safetensors one-of-two-2-of-2.safetensors", 1, 2, 2, NULL },
		{ "m-1-of-1000000000000.safetensors m-1-of-0.safetensors m-1-of-2.bin", 0, 0, 0,
		  NULL },
		{ "m-1-of-2.safetensors m-01-of-2.safetensors", 0, 2, 1, "m-2-of-2.safetensors" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct listing names = { 0 };
		struct file_set set;
		char *text = xstrdup(cases[i].names), *rest = text, *name;

		while ((name = strsep(&rest, " ")))
			listing_add(&names, xstrdup(name));
		file_set_find(&set, &names);
		assert_int_equal(set.n_complete, cases[i].n_complete);
		assert_int_equal(set.n_expected, cases[i].n_expected);
		assert_int_equal(set.files.n, cases[i].n_files);
		assert_int_equal(!set.missing, !cases[i].missing);
		if (set.missing)
			assert_string_equal(set.missing, cases[i].missing);
		file_set_release(&set);
		listing_release(&names);
		free(text);
	}
}

/* An index none of whose files is there gives way to the one model beside it, and to no other. */
static void a_stale_index_gives_way(void **state)
{
	struct checkpoint checkpoint;

	model_folder_put(*state, "model.safetensors.index.json",
			 "{\"weight_map\": {\"a\": \"m-1-of-5.safetensors\"}}");
	model_folder_refused(*state,
			     "is unfinished (0 of 1 files): download or copy the missing ones, the "
			     "first is 'm-1-of-5.safetensors'");
	model_folder_shard(*state, "x.safetensors", "z");
	model_folder_refused(*state, "remove the index if it is of another build");
	model_folder_shard(*state, A, "ca");
	model_folder_shard(*state, B, "bd");
	model_folder_open(&checkpoint, *state);
	assert_true(checkpoint.has_stale_index && !checkpoint.has_index);
	checkpoint_release(&checkpoint);
	model_folder_tensors(*state, NULL, "cabd");
	model_folder_shard(*state, "model.safetensors", "a");
	model_folder_refused(*state, "remove the index if it is of another build");
	model_folder_shard(*state, "m-1-of-5.safetensors", "a");
	model_folder_tensors(*state, NULL, "a");
}

/* torch.distributed.checkpoint: one rank that saves whole tensors writes an index. */
static void slices_are_refused(void **state)
{
	char *path = model_folder_place(*state, "model.safetensors");

	model_folder_slice(*state, "model.safetensors", "[0]");
	model_folder_refused(*state, "DCP_SHARDING_INFO");
	model_folder_refused(path, "DCP_SHARDING_INFO");
	model_folder_put(*state, "model.safetensors.index.json",
			 "{\"weight_map\": {\"a\": \"model.safetensors\"}}");
	model_folder_tensors(*state, NULL, "a");
	model_folder_tensors(path, NULL, "a");
	model_folder_slice(*state, "model.safetensors", "[1]");
	model_folder_refused(*state, "DCP_SHARDING_INFO");
	model_folder_slice(*state, "model.safetensors", "\"?\"");
	model_folder_refused(*state, "DCP_SHARDING_INFO");
	free(path);
}

static void parts_of_ranks_are_refused(void **state)
{
	char *path = model_folder_place(*state, "rank0.safetensors");

	model_folder_shard(*state, "rank0.safetensors", "a");
	model_folder_tensors(*state, NULL, "a");
	model_folder_shard(*state, "rank1.safetensors", "a");
	model_folder_refused(*state, "is one rank's part of a model (beside 'rank1.safetensors')");
	model_folder_refused(path, "is one rank's part of a model");
	free(path);
}

static void an_empty_configuration_is_an_error(void **state)
{
	model_folder_shard(*state, "model.safetensors", "a");
	model_folder_put(*state, "config.json", "");
	model_folder_refused(*state, "config.json' is empty");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(auxiliary_files_are_listed, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(no_file_is_passed_over, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(a_stale_index_gives_way, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(slices_are_refused, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(parts_of_ranks_are_refused, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(an_empty_configuration_is_an_error,
						model_folder_setup, model_folder_teardown),
		cmocka_unit_test(sets_of_files_are_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
