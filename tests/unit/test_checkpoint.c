/* SPDX-License-Identifier: Apache-2.0
 *
 * ckpt/checkpoint.h: which files a path stands for, and the tables over shards.  What is refused:
 * test_broken.c, test_directory.c.
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
#include "support/folders.h"

#define A "model-00001-of-00002.safetensors"
#define B "model-00002-of-00002.safetensors"

static void put_sharded(const char *folder)
{
	model_folder_put(folder, "model.safetensors.index.json",
			 "{\"metadata\": {\"total_size\": NaN},\n \"weight_map\": {\n"
			 "  \"d\": \"" B "\", \"a\": \"" A "\", \"c\": \"" A "\",\n"
			 "  \"\\u0062\": \"model-00002\\u002dof-00002.safetensors\"}}\n");
	model_folder_shard(folder, A, "ca");
	model_folder_shard(folder, B, "bd");
}

static void a_sharded_checkpoint_finds_each_tensor(void **state)
{
	static const char names[] = "abcd";
	struct checkpoint checkpoint;

	put_sharded(*state);
	model_folder_put(*state, "config.json", "{\"a\": 1}\n");
	model_folder_open(&checkpoint, *state);
	assert_true(checkpoint.has_index);
	assert_string_equal(checkpoint.directory, *state);
	assert_string_equal(checkpoint.config.data, "{\"a\": 1}\n");
	assert_int_equal(checkpoint.n_shards, 2);
	assert_string_equal(checkpoint.shards[0].name, A);
	assert_string_equal(checkpoint.shards[1].name, B);
	assert_true(checkpoint.data_bytes == 4);
	for (size_t i = 0; i < 4; i++) {
		char name[] = { names[i], '\0' };
		const struct tensor_ref *ref = checkpoint_find(&checkpoint, name);

		assert_ptr_equal(ref, &checkpoint.by_name[i]);
		assert_string_equal(ref->tensor->name, name);
		assert_int_equal(ref->shard, i % 2);
	}
	assert_null(checkpoint_find(&checkpoint, "e"));
	assert_null(checkpoint_find(&checkpoint, ""));
	checkpoint_release(&checkpoint);
	model_folder_tensors(*state, NULL, "cabd");
}

static void every_kind_of_path_opens(void **state)
{
	put_sharded(*state);
	model_folder_shard(*state, "model.safetensors", "x");
	model_folder_shard(*state, "consolidated.00.safetensors", "y");
	model_folder_tensors(*state, NULL, "cabd"); /* the index wins */
	model_folder_tensors(*state, "/", "cabd");
	model_folder_tensors(*state, "model.safetensors.index.json", "cabd");
	model_folder_tensors(*state, "model.safetensors", "x");
	model_folder_tensors(*state, "consolidated.00.safetensors", "y");
	model_folder_shard(*state, "plain/model.safetensors", "x");
	model_folder_shard(*state, "plain/consolidated.safetensors", "y");
	model_folder_tensors(*state, "plain", "x");
	model_folder_shard(*state, "only/any name.safetensors", "z");
	model_folder_shard(*state, "only/.hidden.safetensors", "y");
	model_folder_tensors(*state, "only", "z");
	model_folder_shard(*state, "empty/model.safetensors", "");
	model_folder_tensors(*state, "empty", "");
}

static void a_single_file_has_no_directory(void **state)
{
	char *path = xasprintf("%s/model.safetensors", (char *)*state);
	struct checkpoint checkpoint;
	struct listing files;
	struct err err;

	model_folder_shard(*state, "model.safetensors", "a");
	model_folder_put(*state, "config.json", "{}");
	model_folder_put(*state, "tokenizer.json", "{}");
	model_folder_open(&checkpoint, path);
	assert_null(checkpoint.directory);
	assert_int_equal(checkpoint.config.len, 0);
	assert_string_equal(checkpoint.shards[0].name, "model.safetensors");
	assert_string_equal(checkpoint.shards[0].file.path, path);
	assert_int_equal(checkpoint_auxiliary(&checkpoint, &files, &err), 0);
	assert_int_equal(files.n, 0);
	listing_release(&files);
	checkpoint_release(&checkpoint);
	free(path);
}

static void relative_paths_open(void **state)
{
	int here = open(".", O_RDONLY | O_DIRECTORY);
	struct checkpoint checkpoint;

	put_sharded(*state);
	model_folder_put(*state, "config.json", "{}");
	assert_int_equal(chdir(*state), 0);
	model_folder_open(&checkpoint, "model.safetensors.index.json");
	assert_string_equal(checkpoint.directory, ".");
	assert_string_equal(checkpoint.config.data, "{}");
	checkpoint_release(&checkpoint);
	model_folder_tensors(".", NULL, "cabd");
	model_folder_tensors(A, NULL, "ca");
	assert_int_equal(fchdir(here), 0);
	close(here);
}

/* As the hub's cache lies on disk: names in a snapshot are links to blobs. */
static void the_cache_of_the_hub_opens_through_its_links(void **state)
{
	const char *folder = *state;
	struct checkpoint checkpoint;
	char *snapshot = xasprintf("%s/snapshots/0123/", folder);

	model_folder_shard(folder, "blobs/aa", "ab");
	model_folder_shard(folder, "blobs/bb", "c");
	model_folder_put(folder, "blobs/cc",
			 "{\"weight_map\":{\"a\":\"" A "\",\"b\":\"" A "\",\"c\":\"" B "\"}}");
	model_folder_put(folder, "blobs/dd", "{\"x\":1}");
	model_folder_link(folder, "snapshots/0123/" A, "../../blobs/aa");
	model_folder_link(folder, "snapshots/0123/" B, "../../blobs/bb");
	model_folder_link(folder, "snapshots/0123/model.safetensors.index.json", "../../blobs/cc");
	model_folder_link(folder, "snapshots/0123/config.json", "../../blobs/dd");
	model_folder_link(folder, "snapshots/0123/tokenizer.json", "../../blobs/dd");
	model_folder_link(folder, "main", "snapshots/0123");
	model_folder_open(&checkpoint, snapshot);
	assert_int_equal(checkpoint.n_tensors, 3);
	assert_string_equal(checkpoint.config.data, "{\"x\":1}");
	checkpoint_release(&checkpoint);
	model_folder_tensors(folder, "main", "abc");
	free(snapshot);
}

static void a_descriptor_opens(void **state)
{
	struct checkpoint checkpoint;
	struct buf text = { 0 };
	struct err err;
	int fd = memfd_create("stream", MFD_CLOEXEC);

	(void)state;
	model_folder_shard_text(&text, "ab");
	assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
	assert_int_equal(checkpoint_open_fd(&checkpoint, &io_system, fd, "-", &err), 0);
	assert_int_equal(checkpoint.n_tensors, 2);
	assert_null(checkpoint.directory);
	assert_string_equal(checkpoint.shards[0].file.path, "-");
	checkpoint_release(&checkpoint);
	assert_int_equal(ftruncate(fd, (off_t)text.len - 1), 0);
	assert_int_equal(checkpoint_open_fd(&checkpoint, &io_system, fd, "-", &err), -1);
	assert_string_equal(err.message,
			    "tensor 'b' in '-' ends at byte 2, past the end of the file (1): "
			    "copy or download it again");
	close(fd);
	buf_release(&text);
}

static void a_missing_path_is_refused(void **state)
{
	char *path = xasprintf("%s/gone", (char *)*state);
	char *message = xasprintf("cannot open '%s': No such file or directory", path);
	struct checkpoint checkpoint;
	struct err err = { 0 };

	assert_int_equal(checkpoint_open(&checkpoint, &io_system, path, 2, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, message);
	assert_int_equal(checkpoint_open(&checkpoint, &io_system, "", 2, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	free(message);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sharded_checkpoint_finds_each_tensor,
						model_folder_setup, model_folder_teardown),
		cmocka_unit_test_setup_teardown(every_kind_of_path_opens, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(a_single_file_has_no_directory, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(relative_paths_open, model_folder_setup,
						model_folder_teardown),
		cmocka_unit_test_setup_teardown(the_cache_of_the_hub_opens_through_its_links,
						model_folder_setup, model_folder_teardown),
		cmocka_unit_test(a_descriptor_opens),
		cmocka_unit_test_setup_teardown(a_missing_path_is_refused, model_folder_setup,
						model_folder_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
