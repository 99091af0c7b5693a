/* SPDX-License-Identifier: Apache-2.0
 *
 * ckpt/checkpoint.h: which files a path stands for, the tables over shards, auxiliary files.  What
 * is refused: test_broken.c.
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
#include "support/scratch.h"

#define A "model-00001-of-00002.safetensors"
#define B "model-00002-of-00002.safetensors"

/* A scratch folder; its path is the test's state. */
static int scratch_open(void **state)
{
	*state = scratch_new();
	return *state ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *walk)
{
	(void)st, (void)type, (void)walk;
	return remove(path);
}

static int scratch_close(void **state)
{
	int rc = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);

	free(*state);
	return rc;
}

/* folder/name, its folders made. */
static char *place(const char *folder, const char *name)
{
	char *path = xasprintf("%s/%s", folder, name);

	for (char *slash = path + strlen(folder); (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	return path;
}

static void put(const char *folder, const char *name, const char *text)
{
	char *path = place(folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	free(path);
}

static void put_link(const char *folder, const char *name, const char *target)
{
	char *path = place(folder, name);

	assert_int_equal(symlink(target, path), 0);
	free(path);
}

/* A shard whose tensors are the letters of names, one byte each, laid out in that order. */
static void shard_text(struct buf *out, const char *names)
{
	uint64_t n;

	buf_add(out, "\0\0\0\0\0\0\0\0{", 9);
	for (size_t i = 0; names[i]; i++)
		buf_printf(out,
			   "%s\"%c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}",
			   i ? "," : "", names[i], i, i + 1);
	buf_putc(out, '}');
	n = out->len - 8;
	memcpy(out->data, &n, sizeof n);
	buf_puts(out, names);
}

static void put_shard(const char *folder, const char *name, const char *names)
{
	char *path = place(folder, name);
	struct buf text = { 0 };
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	shard_text(&text, names);
	assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
	close(fd);
	buf_release(&text);
	free(path);
}

static void put_sharded(const char *folder)
{
	put(folder, "model.safetensors.index.json",
	    "{\"metadata\": {\"total_size\": NaN},\n \"weight_map\": {\n"
	    "  \"d\": \"" B "\", \"a\": \"" A "\", \"c\": \"" A "\",\n"
	    "  \"\\u0062\": \"model-00002\\u002dof-00002.safetensors\"}}\n");
	put_shard(folder, A, "ca");
	put_shard(folder, B, "bd");
}

static void open_good(struct checkpoint *checkpoint, const char *path)
{
	struct err err = { 0 };

	if (checkpoint_open(checkpoint, &io_system, path, 2, &err))
		fail_msg("%s", err.message);
}

/* The checkpoint at folder/name (name NULL: folder) holds these tensors, by shard and offset. */
static void expect_tensors(const char *folder, const char *name, const char *names)
{
	char *path = name ? xasprintf("%s/%s", folder, name) : xstrdup(folder);
	struct checkpoint checkpoint;

	open_good(&checkpoint, path);
	assert_string_equal(checkpoint.path, path);
	assert_int_equal(checkpoint.n_tensors, strlen(names));
	for (size_t i = 0; i < checkpoint.n_tensors; i++)
		assert_int_equal(checkpoint.tensors[i].tensor->name[0], names[i]);
	checkpoint_release(&checkpoint);
	free(path);
}

static void a_sharded_checkpoint_finds_each_tensor(void **state)
{
	static const char names[] = "abcd";
	struct checkpoint checkpoint;

	put_sharded(*state);
	put(*state, "config.json", "{\"a\": 1}\n");
	open_good(&checkpoint, *state);
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
	expect_tensors(*state, NULL, "cabd");
}

static void every_kind_of_path_opens(void **state)
{
	put_sharded(*state);
	put_shard(*state, "model.safetensors", "x");
	put_shard(*state, "consolidated.00.safetensors", "y");
	expect_tensors(*state, NULL, "cabd"); /* the index wins */
	expect_tensors(*state, "/", "cabd");
	expect_tensors(*state, "model.safetensors.index.json", "cabd");
	expect_tensors(*state, "model.safetensors", "x");
	expect_tensors(*state, "consolidated.00.safetensors", "y");
	put_shard(*state, "plain/model.safetensors", "x");
	put_shard(*state, "plain/consolidated.safetensors", "y");
	expect_tensors(*state, "plain", "x");
	put_shard(*state, "only/any name.safetensors", "z");
	put_shard(*state, "only/.hidden.safetensors", "y");
	expect_tensors(*state, "only", "z");
	put_shard(*state, "empty/model.safetensors", "");
	expect_tensors(*state, "empty", "");
}

static void a_single_file_has_no_directory(void **state)
{
	char *path = xasprintf("%s/model.safetensors", (char *)*state);
	struct checkpoint checkpoint;
	char **paths;
	size_t n;
	struct err err;

	put_shard(*state, "model.safetensors", "a");
	put(*state, "config.json", "{}");
	put(*state, "tokenizer.json", "{}");
	open_good(&checkpoint, path);
	assert_null(checkpoint.directory);
	assert_int_equal(checkpoint.config.len, 0);
	assert_string_equal(checkpoint.shards[0].name, "model.safetensors");
	assert_string_equal(checkpoint.shards[0].file.path, path);
	assert_int_equal(checkpoint_auxiliary(&checkpoint, &paths, &n, &err), 0);
	assert_int_equal(n, 0);
	free(paths);
	checkpoint_release(&checkpoint);
	free(path);
}

static void relative_paths_open(void **state)
{
	int here = open(".", O_RDONLY | O_DIRECTORY);
	struct checkpoint checkpoint;

	put_sharded(*state);
	put(*state, "config.json", "{}");
	assert_int_equal(chdir(*state), 0);
	open_good(&checkpoint, "model.safetensors.index.json");
	assert_string_equal(checkpoint.directory, ".");
	assert_string_equal(checkpoint.config.data, "{}");
	checkpoint_release(&checkpoint);
	expect_tensors(".", NULL, "cabd");
	expect_tensors(A, NULL, "ca");
	assert_int_equal(fchdir(here), 0);
	close(here);
}

/* As the hub's cache lies on disk: names in a snapshot are links to blobs. */
static void the_cache_of_the_hub_opens_through_its_links(void **state)
{
	const char *folder = *state;
	struct checkpoint checkpoint;
	char *snapshot = xasprintf("%s/snapshots/0123/", folder);

	put_shard(folder, "blobs/aa", "ab");
	put_shard(folder, "blobs/bb", "c");
	put(folder, "blobs/cc",
	    "{\"weight_map\":{\"a\":\"" A "\",\"b\":\"" A "\",\"c\":\"" B "\"}}");
	put(folder, "blobs/dd", "{\"x\":1}");
	put_link(folder, "snapshots/0123/" A, "../../blobs/aa");
	put_link(folder, "snapshots/0123/" B, "../../blobs/bb");
	put_link(folder, "snapshots/0123/model.safetensors.index.json", "../../blobs/cc");
	put_link(folder, "snapshots/0123/config.json", "../../blobs/dd");
	put_link(folder, "snapshots/0123/tokenizer.json", "../../blobs/dd");
	put_link(folder, "main", "snapshots/0123");
	open_good(&checkpoint, snapshot);
	assert_int_equal(checkpoint.n_tensors, 3);
	assert_string_equal(checkpoint.config.data, "{\"x\":1}");
	checkpoint_release(&checkpoint);
	expect_tensors(folder, "main", "abc");
	free(snapshot);
}

static void a_descriptor_opens(void **state)
{
	struct checkpoint checkpoint;
	struct buf text = { 0 };
	struct err err;
	int fd = memfd_create("stream", MFD_CLOEXEC);

	(void)state;
	shard_text(&text, "ab");
	assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
	assert_int_equal(checkpoint_open_fd(&checkpoint, &io_system, fd, "-", &err), 0);
	assert_int_equal(checkpoint.n_tensors, 2);
	assert_null(checkpoint.directory);
	assert_string_equal(checkpoint.shards[0].file.path, "-");
	checkpoint_release(&checkpoint);
	assert_int_equal(ftruncate(fd, (off_t)text.len - 1), 0);
	assert_int_equal(checkpoint_open_fd(&checkpoint, &io_system, fd, "-", &err), -1);
	assert_string_equal(err.message,
			    "tensor 'b' in '-' ends at byte 2, past the end of the file (1)");
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

static const char *const taken[] = {
	"LICENSE",
	"chat_template.jinja",
	"generation_config.json",
	"original/params.json",
	"sub/config.json",
	"sub/deep/er/x.py",
	"tokenizer.json",
	"tokenizer.model",
	"vision/fp8conv-note.txt",
};

static const char *const left[] = {
	"model.safetensors",
	"consolidated.safetensors",
	"x.index.json",
	"config.json",
	"hf_quant_config.json",
	"pytorch_model.bin",
	"a.pt",
	"a.ckpt",
	"a.gguf",
	"tf_model.h5",
	"a.msgpack",
	"A.PTH",
	"scheduler.pkl",
	"sub/x.pickle",
	"x.joblib",
	"x.dill",
	"onnx/model.onnx",
	"onnx/model.onnx_data",
	"rust_model.ot",
	".gitattributes",
	".cache/x.json",
	"fp8conv-manifest.json",
	"sub/.hidden",
	"sub/x.safetensors",
	"original/consolidated.00.pth",
	"pytorch_model.bin.index.json",
};

static void auxiliary_files_are_listed(void **state)
{
	struct checkpoint checkpoint;
	char **paths;
	size_t n;
	struct err err;

	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		if (strcmp(taken[i], "tokenizer.json") != 0)
			put(*state, taken[i], "x");
	for (size_t i = 0; i < sizeof left / sizeof *left; i++)
		put(*state, left[i], "{}");
	put_shard(*state, "model.safetensors", "a");
	put_link(*state, "tokenizer.json", "LICENSE");
	put_link(*state, "folder", "sub");
	put_link(*state, "round", ".");
	put_link(*state, "nowhere", "gone");
	put_link(*state, "device", "/dev/null");
	open_good(&checkpoint, *state);
	assert_int_equal(checkpoint_auxiliary(&checkpoint, &paths, &n, &err), 0);
	assert_int_equal(n, sizeof taken / sizeof *taken);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(paths[i], taken[i]);
		free(paths[i]);
	}
	free(paths);
	checkpoint_release(&checkpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sharded_checkpoint_finds_each_tensor,
						scratch_open, scratch_close),
		cmocka_unit_test_setup_teardown(every_kind_of_path_opens, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(a_single_file_has_no_directory, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(relative_paths_open, scratch_open, scratch_close),
		cmocka_unit_test_setup_teardown(the_cache_of_the_hub_opens_through_its_links,
						scratch_open, scratch_close),
		cmocka_unit_test(a_descriptor_opens),
		cmocka_unit_test_setup_teardown(a_missing_path_is_refused, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(auxiliary_files_are_listed, scratch_open,
						scratch_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
