/* SPDX-License-Identifier: Apache-2.0
 *
 * Every case that sample_checkpoints/broken.py and broken_torch.py make is refused with exactly the
 * message in its NAME.expected, or with any that names the file where that is "*", and so are those
 * that are too large, or not plain enough, to be made there.  Runs from the top of the repository.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "support/folders.h"

static void expect_refused(const char *path, const char *message)
{
	for (int n_threads = 1; n_threads <= 3; n_threads++) {
		struct checkpoint checkpoint;
		struct err err = { 0 };

		if (!checkpoint_open(&checkpoint, &io_system, path, n_threads, &err)) {
			checkpoint_release(&checkpoint);
			fail_msg("%s opens", path);
		}
		if (strcmp(message, "*") != 0)
			assert_string_equal(err.message, message);
		else
			assert_non_null(strstr(err.message, path));
		assert_int_equal(err.kind, ERR_INPUT);
	}
}

/* name is NAME.expected; the case is the directory NAME or the file NAME.safetensors or
 * NAME.bin. */
static void run_case(const char *folder, const char *name)
{
	int n = (int)(strlen(name) - strlen(".expected"));
	char *expected = xasprintf("%s/%s", folder, name);
	char *path = xasprintf("%s/%.*s", folder, n, name);
	struct buf message = { 0 };
	struct err err;
	struct stat st;

	for (size_t i = 0; stat(path, &st); i++) {
		assert_true(i < 2);
		free(path);
		path = xasprintf("%s/%.*s%s", folder, n, name, i ? ".bin" : ".safetensors");
	}
	assert_int_equal(io_read_file(&io_system, AT_FDCWD, expected, 4096, &message, &err), 0);
	assert_true(message.len > 1 && message.data[message.len - 1] == '\n');
	message.data[message.len - 1] = '\0';
	expect_refused(path, message.data);
	buf_release(&message);
	free(expected);
	free(path);
}

static int is_expected(const struct dirent *entry)
{
	size_t n = strlen(entry->d_name);

	return n > 9 && !strcmp(entry->d_name + n - 9, ".expected");
}

/* Runs a shell command about a directory. */
static void run_on(const char *command, const char *folder)
{
	char *line = xasprintf("%s '%s'", command, folder);

	assert_int_equal(system(line), 0); /* NOLINT(cert-env33-c): words of this test */
	free(line);
}

/* Runs the cases of a script that makes more than `least`. */
static void run_cases(const char *script, int least)
{
	char *folder = scratch_new();
	struct dirent **entries;
	int n;

	assert_non_null(folder);
	run_on(script, folder);
	n = scandir(folder, &entries, is_expected, alphasort);
	assert_true(n > least);
	for (int i = 0; i < n; i++) {
		run_case(folder, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	run_on("rm -r", folder);
	free(folder);
}

static void broken_samples_are_refused_with_their_message(void **state)
{
	(void)state;
	run_cases("python3 sample_checkpoints/broken.py", 100);
}

static void broken_files_of_torch_are_refused_with_their_message(void **state)
{
	(void)state;
	run_cases("python3 sample_checkpoints/broken_torch.py", 150);
}

/* A scratch folder with one file in it. */
struct scratch {
	char *folder;
	char *file;
};

static int scratch_open(void **state)
{
	struct scratch *scratch = xcalloc(1, sizeof *scratch);

	scratch->folder = scratch_new();
	if (!scratch->folder)
		return -1;
	scratch->file = xasprintf("%s/model.safetensors", scratch->folder);
	*state = scratch;
	return 0;
}

static int scratch_close(void **state)
{
	struct scratch *scratch = *state;

	unlink(scratch->file);
	rmdir(scratch->folder);
	free(scratch->folder);
	free(scratch->file);
	free(scratch);
	return 0;
}

static void a_fifo_is_refused_without_waiting(void **state)
{
	struct scratch *scratch = *state;
	char *message = xasprintf("'%s' is not a regular file", scratch->file);

	assert_int_equal(mkfifo(scratch->file, 0600), 0);
	alarm(20); /* opened the plain way it would wait for a writer */
	expect_refused(scratch->file, message);
	expect_refused(scratch->folder, message);
	alarm(0);
	free(message);
}

static void a_device_is_refused(void **state)
{
	struct scratch *scratch = *state;
	char *message = xasprintf("'%s' is not a regular file", scratch->file);

	assert_int_equal(symlink("/dev/zero", scratch->file), 0);
	expect_refused(scratch->folder, message);
	free(message);
}

static void a_link_to_nowhere_is_refused(void **state)
{
	struct scratch *scratch = *state;
	char *message = xasprintf("cannot open '%s': No such file or directory", scratch->file);

	assert_int_equal(symlink("../blobs/gone", scratch->file), 0);
	expect_refused(scratch->folder, message);
	free(message);
}

/* A header that claims more than the limit, in a file that is long enough for it (and sparse). */
static void a_header_above_the_limit_is_refused(void **state)
{
	static const uint64_t n = ST_MAX_HEADER + 1;
	struct scratch *scratch = *state;
	char *message =
		xasprintf("header of '%s' is 100000001 bytes long, more than the limit (100000000)",
			  scratch->file);
	int fd = open(scratch->file, O_WRONLY | O_CREAT, 0600);

	assert_int_equal(pwrite(fd, &n, sizeof n, 0), sizeof n);
	assert_int_equal(ftruncate(fd, 2 * (off_t)n), 0);
	close(fd);
	expect_refused(scratch->file, message);
	free(message);
}

static void a_config_above_the_limit_is_refused(void **state)
{
	struct scratch *scratch = *state;
	char *config = xasprintf("%s/config.json", scratch->folder);
	char *message =
		xasprintf("'%s' is 16777217 bytes long, more than the limit (16777216)", config);
	int fd = open(scratch->file, O_WRONLY | O_CREAT, 0600);

	assert_int_equal(write(fd, "\2\0\0\0\0\0\0\0{}", 10), 10);
	close(fd);
	fd = open(config, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, (16 << 20) + 1), 0);
	close(fd);
	expect_refused(scratch->folder, message);
	unlink(config);
	free(message);
	free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(broken_samples_are_refused_with_their_message),
		cmocka_unit_test(broken_files_of_torch_are_refused_with_their_message),
		cmocka_unit_test_setup_teardown(a_fifo_is_refused_without_waiting, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(a_device_is_refused, scratch_open, scratch_close),
		cmocka_unit_test_setup_teardown(a_link_to_nowhere_is_refused, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(a_header_above_the_limit_is_refused, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(a_config_above_the_limit_is_refused, scratch_open,
						scratch_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
