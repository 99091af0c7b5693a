/* SPDX-License-Identifier: Apache-2.0
 *
 * base/io.h: the loops over short, interrupted and failing calls (a table of our own stands in for
 * the system's), and what may be opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/io.h"
#include "base/mem.h"
#include "support/folders.h"

/* A device that holds 64 bytes and moves at most 3 of them a call, every other call being
 * interrupted. */
static struct {
	char bytes[64];
	size_t at; /* for read and write */
	int n_calls;
	int fail_at; /* this call fails with EIO; 0: none */
	size_t room; /* what is written beyond: ENOSPC */
} device;

static ssize_t trouble(void)
{
	device.n_calls++;
	if (device.n_calls == device.fail_at) {
		errno = EIO;
		return -1;
	}
	if (device.n_calls % 2) {
		errno = EINTR;
		return -1;
	}
	return 0;
}

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static ssize_t device_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	(void)io;
	(void)fd;
	if (trouble())
		return -1;
	if ((size_t)offset >= sizeof device.bytes)
		return 0;
	n = min(min(n, 3), sizeof device.bytes - (size_t)offset);
	memcpy(data, device.bytes + offset, n);
	return (ssize_t)n;
}

static ssize_t device_pwrite(const struct io *io, int fd, const void *data, size_t n, off_t offset)
{
	(void)io;
	(void)fd;
	if (trouble())
		return -1;
	if ((size_t)offset >= device.room) {
		errno = ENOSPC;
		return -1;
	}
	n = min(min(n, 3), device.room - (size_t)offset);
	memcpy(device.bytes + offset, data, n);
	return (ssize_t)n;
}

static ssize_t device_read(const struct io *io, int fd, void *data, size_t n)
{
	(void)io;
	ssize_t got = device_pread(io, fd, data, n, (off_t)device.at);

	device.at += got > 0 ? (size_t)got : 0;
	return got;
}

static ssize_t device_write(const struct io *io, int fd, const void *data, size_t n)
{
	(void)io;
	ssize_t put = device_pwrite(io, fd, data, n, (off_t)device.at);

	device.at += put > 0 ? (size_t)put : 0;
	return put;
}

static const struct io io_device = {
	.pread = device_pread,
	.pwrite = device_pwrite,
	.read = device_read,
	.write = device_write,
};

static int device_reset(void **state)
{
	(void)state;
	memset(&device, 0, sizeof device);
	device.room = sizeof device.bytes;
	for (size_t i = 0; i < sizeof device.bytes; i++)
		device.bytes[i] = (char)i;
	return 0;
}

static void short_reads_are_continued(void **state)
{
	char data[65];
	struct err err;
	size_t got;

	(void)state;
	assert_int_equal(io_pread_full(&(struct file){ &io_device, 0, "F" }, data, 20, 10, &err),
			 0);
	assert_memory_equal(data, device.bytes + 10, 20);
	assert_int_equal(io_pread_full(&(struct file){ &io_device, 0, "F" }, data, 0, 1000, &err),
			 0);
	assert_int_equal(io_read_full(&(struct file){ &io_device, 0, "F" }, data, 40, &got, &err),
			 0);
	assert_int_equal(got, 40);
	assert_memory_equal(data, device.bytes, 40);
	assert_int_equal(io_read_full(&(struct file){ &io_device, 0, "F" }, data, 65, &got, &err),
			 0);
	assert_int_equal(got, 24);
	assert_memory_equal(data, device.bytes + 40, 24);
}

static void short_writes_are_continued(void **state)
{
	static const char text[] = "the quick brown fox";
	struct err err;

	(void)state;
	assert_int_equal(
		io_pwrite_full(&(struct file){ &io_device, 1, "F" }, text, sizeof text, 7, &err),
		0);
	assert_memory_equal(device.bytes + 7, text, sizeof text);
	assert_int_equal(
		io_write_full(&(struct file){ &io_device, 1, "F" }, text, sizeof text, &err), 0);
	assert_memory_equal(device.bytes, text, sizeof text);
}

static void failures_name_file_and_byte(void **state)
{
	char data[80] = { 0 };
	struct err err;
	size_t got;

	assert_int_equal(io_pread_full(&(struct file){ &io_device, 0, "F" }, data, 60, 10, &err),
			 -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, "'F' is truncated: it ends at byte 64, 6 bytes early");
	assert_int_equal(
		io_pread_full(&(struct file){ &io_device, 0, "F" }, data, 1, UINT64_MAX, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	device_reset(state);
	device.fail_at = 5;
	assert_int_equal(io_pread_full(&(struct file){ &io_device, 0, "F" }, data, 60, 0, &err),
			 -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_string_equal(err.message, "cannot read 'F' at byte 6: Input/output error");
	device_reset(state);
	device.fail_at = 1;
	assert_int_equal(io_read_full(&(struct file){ &io_device, 0, "F" }, data, 60, &got, &err),
			 -1);
	assert_string_equal(err.message, "cannot read 'F': Input/output error");
	device_reset(state);
	device.room = 32;
	assert_int_equal(io_pwrite_full(&(struct file){ &io_device, 0, "F" }, data, 60, 0, &err),
			 -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_string_equal(err.message, "cannot write 'F' at byte 32: No space left on device");
	assert_int_equal(io_write_full(&(struct file){ &io_device, 0, "F" }, data, 60, &err), -1);
	assert_string_equal(err.message, "cannot write 'F': No space left on device");
}

static ssize_t write_nothing(const struct io *io, int fd, const void *data, size_t n)
{
	(void)io, (void)fd, (void)data, (void)n;
	return 0;
}

static void no_progress_is_an_error(void **state)
{
	const struct io io = { .write = write_nothing };
	struct err err;

	(void)state;
	assert_int_equal(io_write_full(&(struct file){ &io, 1, "F" }, "x", 1, &err), -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
}

/* A scratch folder: the working directory of the tests below. */
static int scratch;

static int scratch_open(void **state)
{
	*state = scratch_new();
	if (!*state)
		return -1;
	scratch = open(*state, O_RDONLY | O_DIRECTORY);
	return scratch < 0 ? -1 : 0;
}

static int scratch_close(void **state)
{
	static const char *const names[] = { "file", "link", "fifo", "socket", "nowhere", "loop" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unlinkat(scratch, names[i], 0);
	unlinkat(scratch, "folder", AT_REMOVEDIR);
	close(scratch);
	rmdir(*state);
	free(*state);
	return 0;
}

static void write_file(const char *name, const char *text)
{
	int fd = openat(scratch, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void make_socket(const char *folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	assert_true(strlen(folder) + 8 < sizeof address.sun_path);
	strcpy(stpcpy(address.sun_path, folder), "/socket");
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	close(fd);
}

static void only_regular_files_open(void **state)
{
	static const struct {
		const char *path, *message; /* NULL: it opens */
		enum err_kind kind;
	} rows[] = {
		{ "file", NULL, ERR_NONE },
		{ "link", NULL, ERR_NONE },
		{ "folder", "'folder' is a directory, not a file", ERR_INPUT },
		{ "fifo", "'fifo' is not a regular file", ERR_INPUT },
		{ "socket", "'socket' is not a regular file", ERR_INPUT },
		{ "/dev/null", "'/dev/null' is not a regular file", ERR_INPUT },
		{ "nowhere", "cannot open 'nowhere': No such file or directory", ERR_INPUT },
		{ "missing", "cannot open 'missing': No such file or directory", ERR_INPUT },
		{ "file/x", "cannot open 'file/x': Not a directory", ERR_INPUT },
		{ "loop", "cannot open 'loop': Too many levels of symbolic links", ERR_INPUT },
		{ "a\x1b[2J", "cannot open 'a?[2J': No such file or directory", ERR_INPUT },
	};

	write_file("file", "12345");
	assert_int_equal(symlinkat("file", scratch, "link"), 0);
	assert_int_equal(symlinkat("gone", scratch, "nowhere"), 0);
	assert_int_equal(symlinkat("loop", scratch, "loop"), 0);
	assert_int_equal(mkfifoat(scratch, "fifo", 0600), 0);
	assert_int_equal(mkdirat(scratch, "folder", 0700), 0);
	make_socket(*state);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct file_identity identity;
		struct err err = { 0 };
		int fd;
		int rc = io_open_regular(&io_system, scratch, rows[i].path, &fd, &identity, &err);

		assert_int_equal(rc, rows[i].message ? -1 : 0);
		assert_int_equal(err.kind, rows[i].kind);
		if (rc) {
			assert_string_equal(err.message, rows[i].message);
			continue;
		}
		assert_true(identity.size == 5);
		close(fd);
	}
}

static void a_file_is_read_up_to_the_limit(void **state)
{
	struct buf buf = { 0 };
	struct err err;

	(void)state;
	write_file("file", "12345");
	assert_int_equal(io_read_file(&io_system, scratch, "file", 5, &buf, &err), 0);
	assert_int_equal(buf.len, 5);
	assert_string_equal(buf.data, "12345");
	buf_puts(&buf, "6");
	assert_string_equal(buf.data, "123456");
	assert_int_equal(io_read_file(&io_system, scratch, "file", 4, &buf, &err), -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, "'file' is 5 bytes long, more than the limit (4)");
	write_file("file", "");
	assert_int_equal(io_read_file(&io_system, scratch, "file", 4, &buf, &err), 0);
	assert_int_equal(buf.len, 0);
	assert_string_equal(buf.data, "");
	buf_release(&buf);
}

static void a_change_while_reading_is_told(void **state)
{
	struct file_identity identity;
	struct err err;
	int fd;

	(void)state;
	write_file("file", "12345");
	assert_int_equal(io_open_regular(&io_system, scratch, "file", &fd, &identity, &err), 0);
	assert_int_equal(io_check_unchanged(&(struct file){ &io_system, fd, "F" }, &identity, &err),
			 0);
	write_file("file", "123456");
	assert_int_equal(io_check_unchanged(&(struct file){ &io_system, fd, "F" }, &identity, &err),
			 -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, "'F' changed while it was read");
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(short_reads_are_continued, device_reset),
		cmocka_unit_test_setup(short_writes_are_continued, device_reset),
		cmocka_unit_test_setup(failures_name_file_and_byte, device_reset),
		cmocka_unit_test(no_progress_is_an_error),
		cmocka_unit_test_setup_teardown(only_regular_files_open, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(a_file_is_read_up_to_the_limit, scratch_open,
						scratch_close),
		cmocka_unit_test_setup_teardown(a_change_while_reading_is_told, scratch_open,
						scratch_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
