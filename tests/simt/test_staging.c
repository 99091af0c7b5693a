/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies by way of pinned memory (kernels/gpu/cuda/staging.cu), over a runtime that copies as late
 * as it may.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/gpu/device.h"
#include "kernels/gpu/cuda/staging.h"
#include "tests/simt/runtime.h"

#define GAP 0x5A

/* Rows of the host, and of the "device". */
struct shape {
	size_t row_size, n_rows, host_stride, device_stride;
};

static const struct shape shapes[] = {
	{ 1, 1, 1, 1 },
	{ 100, 7, 100, 100 },
	{ 100, 7, 117, 128 },
	{ STAGE_SIZE, 1, STAGE_SIZE, STAGE_SIZE },
	{ STAGE_SIZE / 8, 35, STAGE_SIZE / 8, STAGE_SIZE / 8 }, /* close together: five pieces */
	/* seven rows a piece */
	{ STAGE_SIZE / 8 + 1, 60, STAGE_SIZE / 8 + 1, STAGE_SIZE / 8 + 16 },
	{ 3 * STAGE_SIZE + 5, 3, 3 * STAGE_SIZE + 9, 3 * STAGE_SIZE + 16 }, /* four pieces a row */
	{ 5 * STAGE_SIZE - 1, 1, 7 * STAGE_SIZE, 6 * STAGE_SIZE },
};

#define N_SHAPES (sizeof shapes / sizeof *shapes)

static size_t extent(const struct shape *s, size_t stride)
{
	return (s->n_rows - 1) * stride + s->row_size;
}

static unsigned char *filled(size_t n, int value)
{
	unsigned char *memory = malloc(n);

	assert_non_null(memory);
	memset(memory, value, n);
	return memory;
}

static unsigned char byte_at(size_t row, size_t i)
{
	return (unsigned char)(row * 37 + i + (i >> 8) * 11 + (i >> 20));
}

/* The rows are as by byte_at(), and what is between them untouched. */
static bool is_right(const unsigned char *host, const struct shape *s)
{
	for (size_t row = 0; row < s->n_rows; row++) {
		for (size_t i = 0; i < s->row_size; i++) {
			if (host[row * s->host_stride + i] != byte_at(row, i))
				return false;
		}
		for (size_t i = s->row_size; row + 1 < s->n_rows && i < s->host_stride; i++) {
			if (host[row * s->host_stride + i] != GAP)
				return false;
		}
	}
	return true;
}

/* There and back.  0, and all is there, or -1: a call has failed. */
static int round_trip(struct staging *staging, const struct shape *s, struct err *err)
{
	struct device_stream *stream = device_stream_here();
	unsigned char *host = filled(extent(s, s->host_stride), GAP),
		      *back = filled(extent(s, s->host_stride), GAP);
	unsigned char *there = filled(extent(s, s->device_stride), 0);
	int rc;

	for (size_t row = 0; row < s->n_rows; row++) {
		for (size_t i = 0; i < s->row_size; i++)
			host[row * s->host_stride + i] = byte_at(row, i);
	}
	staging_in(staging, stream,
		   &(struct device_copy){ there, s->device_stride, host, s->host_stride,
					  s->row_size, s->n_rows });
	staging_out(staging, stream,
		    &(struct device_copy){ back, s->host_stride, there, s->device_stride,
					   s->row_size, s->n_rows });
	staging_settle(staging, stream);
	rc = device_stream_failed(stream, err);
	simt_runtime_finish(); /* as a wait for the stream */
	assert_true(rc || is_right(back, s));
	free(host);
	free(back);
	free(there);
	simt_runtime_left = -1;
	staging_settle(staging,
		       stream); /* what has not come by now does not come into memory given back */
	assert_int_equal(device_stream_failed(stream, &(struct err){ 0 }), 0);
	return rc;
}

static void bytes_go_there_and_back(void **state)
{
	struct staging *staging = staging_new(0);
	struct err err;

	(void)state;
	for (size_t i = 0; i < N_SHAPES; i++)
		assert_int_equal(round_trip(staging, &shapes[i], &err), 0);
	staging_free(staging);
}

/* Of many pieces, the bus has the next one while the thread works on one: but for the last. */
static void the_bus_works_beside_the_thread(void **state)
{
	size_t n = 16 * STAGE_SIZE, idle, copies;
	struct device_stream *stream = device_stream_here();
	struct staging *staging = staging_new(0);
	unsigned char *host = filled(n, 1), *there = filled(n, 0);

	(void)state;
	copies = simt_runtime_copies;
	idle = simt_runtime_idle;
	staging_in(staging, stream, &(struct device_copy){ there, n, host, n, n, 1 });
	assert_int_equal(simt_runtime_copies, copies + 16);
	memset(host, 2, n); /* has been read */
	staging_out(staging, stream, &(struct device_copy){ host, n, there, n, n, 1 });
	assert_int_equal(simt_runtime_idle, idle);
	staging_settle(staging, stream);
	assert_int_equal(simt_runtime_idle, idle + 1);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(host[i], 1);
	staging_free(staging);
	free(host);
	free(there);
}

static void a_failed_copy_is_told(void **state)
{
	struct staging *staging = staging_new(0);
	struct err err;
	long n = 0;

	(void)state;
	for (simt_runtime_left = n; round_trip(staging, &shapes[4], &err);
	     simt_runtime_left = ++n) {
		assert_int_equal(err.kind, ERR_SYSTEM);
		assert_non_null(strstr(err.message, " on GPU 0: unknown error"));
	}
	assert_int_equal(
		n,
		2 * 5 * 3 +
			2); /* each piece waits, copies and records; two are settled at the end */
	simt_runtime_left = -1;
	staging_free(staging);
}

/* Without pinned memory the copies are the runtime's. */
static void without_pinned_memory_copies_are_the_runtimes(void **state)
{
	struct staging *pinned = staging_new(0); /* all that was spare */
	struct err err;

	(void)state;
	for (long n = 0; n < 4; n++) {
		size_t copies = simt_runtime_copies;
		struct staging *staging;

		simt_runtime_left = n;
		staging = staging_new(0);
		simt_runtime_left = -1;
		assert_int_equal(round_trip(staging, &shapes[5], &err), 0);
		assert_int_equal(simt_runtime_copies, copies + 2);
		staging_free(staging);
	}
	staging_free(pinned);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_go_there_and_back),
		cmocka_unit_test(the_bus_works_beside_the_thread),
		cmocka_unit_test(a_failed_copy_is_told),
		cmocka_unit_test(without_pinned_memory_copies_are_the_runtimes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
