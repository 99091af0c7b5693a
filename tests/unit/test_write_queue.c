/* SPDX-License-Identifier: Apache-2.0
 *
 * ckpt/write_queue.h: what waits while another thread writes, where its memory lies, and that it
 * all arrives.
 */
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
#include "ckpt/write_queue.h"
#include "support/folders.h"

#define FILE_SIZE  ((size_t)1 << 20)
#define QUEUE_SIZE (64 * 1024)

struct post {
	struct writer writer;
	struct write_queue queue;
	struct err err;
	unsigned char expected[FILE_SIZE];
};

/* A file whose first bytes are a header of 10. */
static struct post *post_new(void)
{
	struct post *post = xcalloc(1, sizeof *post);
	struct buf header = { 0 };

	buf_add(&header, "0123456789", 10);
	memcpy(post->expected, "0123456789", 10);
	if (writer_open_anonymous(&post->writer, &io_system, scratch_parent(), &header, FILE_SIZE,
				  &post->err))
		fail_msg("%s", post->err.message);
	buf_release(&header);
	post->queue = (struct write_queue){ .writer = &post->writer, .size = QUEUE_SIZE };
	assert_int_equal(posix_memalign((void **)&post->queue.memory, WRITER_ALIGN, QUEUE_SIZE), 0);
	return post;
}

static void post_free(struct post *post)
{
	writer_release(&post->writer);
	free(post->queue.memory);
	free(post);
}

/* n bytes of a value for offset, into the queue. */
static void post_add(struct post *post, unsigned char value, size_t n, uint64_t offset)
{
	void *data = write_queue_begin(&post->queue, n, offset, &post->err);

	assert_non_null(data);
	assert_int_equal((uintptr_t)data % WRITER_ALIGN, offset % WRITER_ALIGN);
	memset(data, value, n);
	memset(post->expected + offset, value, n);
	assert_int_equal(write_queue_add(&post->queue, data, n, offset, &post->err), 0);
}

static void assert_written(const struct post *post, size_t n)
{
	unsigned char *got = xcalloc(1, FILE_SIZE);

	assert_int_equal(pread(post->writer.fd, got, n, 0), n);
	assert_memory_equal(got, post->expected, n);
	free(got);
}

static void writes_at_once_when_nobody_writes(void **state)
{
	struct post *post = post_new();

	(void)state;
	post_add(post, 1, 5000, 10);
	assert_int_equal(write_queue_flush(&post->queue, false, &post->err), 0);
	assert_int_equal(post->queue.n_pieces, 0);
	assert_written(post, 5010);
	post_free(post);
}

static void waits_while_another_thread_writes(void **state)
{
	struct post *post = post_new();
	unsigned char byte;

	(void)state;
	pthread_mutex_lock(&post->writer.turn);
	post_add(post, 1, 5000, 10);
	assert_int_equal(write_queue_flush(&post->queue, false, &post->err), 0);
	post_add(post, 2, 3000, 5010);
	assert_int_equal(write_queue_flush(&post->queue, false, &post->err), 0);
	assert_int_equal(post->queue.n_pieces, 2);
	assert_int_equal(pread(post->writer.fd, &byte, 1, 10), 1);
	assert_int_equal(byte, 0);
	pthread_mutex_unlock(&post->writer.turn);
	assert_int_equal(write_queue_flush(&post->queue, true, &post->err), 0);
	assert_written(post, 8010);
	post_free(post);
}

/* More than the queue holds, in bytes and in pieces, all of it to places that touch: every byte
 * once, or the commit would say so. */
static void every_byte_of_a_file_is_written_once(void **state)
{
	struct post *post = post_new();
	uint64_t at = 10;
	uint32_t crc;

	(void)state;
	for (size_t i = 0; at < FILE_SIZE; i++) {
		size_t n = 1 + i * 7919 % (i < 200 ? 3000 : QUEUE_SIZE - WRITER_ALIGN);

		n = n < FILE_SIZE - at ? n : FILE_SIZE - at;
		post_add(post, (unsigned char)i, n, at);
		at += n;
	}
	assert_int_equal(write_queue_flush(&post->queue, true, &post->err), 0);
	assert_written(post, FILE_SIZE);
	assert_int_equal(writer_commit(&post->writer, &crc, &post->err), 0);
	post_free(post);
}

/* What lies beside a piece goes along; what found no room is written from where it is. */
static void memory_beside_a_piece_goes_along(void **state)
{
	struct post *post = post_new();
	char elsewhere[100];
	char *codes = write_queue_begin(&post->queue, 1001, 10, &post->err),
	     *beside = write_queue_take(&post->queue, 100);

	(void)state;
	assert_non_null(codes);
	assert_non_null(beside);
	assert_true(beside >= codes + 1001);
	assert_int_equal((uintptr_t)beside % _Alignof(max_align_t), 0);
	assert_null(write_queue_take(&post->queue, QUEUE_SIZE));
	memset(codes, 3, 1001);
	memset(beside, 4, 100);
	memset(elsewhere, 5, 100);
	memset(post->expected + 10, 3, 1001);
	memset(post->expected + 1011, 4, 100);
	memset(post->expected + 1111, 5, 100);
	assert_int_equal(write_queue_add(&post->queue, beside, 100, 1011, &post->err), 0);
	assert_int_equal(write_queue_add(&post->queue, elsewhere, 100, 1111, &post->err), 0);
	assert_int_equal(write_queue_add(&post->queue, codes, 1001, 10, &post->err), 0);
	memset(elsewhere, 0, 100);
	assert_int_equal(write_queue_flush(&post->queue, true, &post->err), 0);
	assert_written(post, 1211);
	post_free(post);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes_at_once_when_nobody_writes),
		cmocka_unit_test(waits_while_another_thread_writes),
		cmocka_unit_test(every_byte_of_a_file_is_written_once),
		cmocka_unit_test(memory_beside_a_piece_goes_along),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
