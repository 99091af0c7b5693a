/* SPDX-License-Identifier: Apache-2.0
 *
 * ckpt/safetensors.h: what is accepted and what is read from it, headers of a million tensors,
 * files cut anywhere, and layouts against headers that the reference wrote
 * (tests/golden/layout.txt).  Rejections: test_broken.c.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "ckpt/safetensors.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

/* "name dtype shape begin-end|" for each tensor in the order of the data, then "key=value|". */
static void describe(struct buf *out, const struct st_file *file)
{
	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct st_tensor *tensor = &file->tensors[i];

		buf_printf(out, "%s %s ", tensor->name, dtype_name(tensor->dtype));
		st_shape_format(out, tensor->shape, tensor->n_dims);
		buf_printf(out, " %llu-%llu|", (unsigned long long)tensor->begin,
			   (unsigned long long)tensor->end);
	}
	for (size_t i = 0; i < file->n_metadata; i++)
		buf_printf(out, "%s=%s|", file->metadata[i].key, file->metadata[i].value);
}

static void valid_headers_are_read(void **state)
{
	static const struct {
		const char *header;
		uint64_t data_size;
		const char *expected;
	} rows[] = {
		{ "{}", 0, "" },
		{ " \n\t\r{ } \n", 0, "" },
		{ "{\"__metadata__\":null}", 0, "" },
		{ "{\"__metadata__\":{}}", 0, "" },
		{ "{\"\\u005f_metadata__\":{\"b\":\"\\n\\u00e9\",\"a\":\"\"}}", 0,
		  "b=\n\xc3\xa9|a=|" },
		/* in any order, with misaligned data and a header of any length */
		{ "{\"b\":{\"data_offsets\":[1,5],\"shape\":[1],\"dtype\":\"F32\"},"
		  "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
		  5, "a U8 [1] 0-1|b F32 [1] 1-5|" },
		/* empty tensors lie before what begins there, wherever they stand */
		{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
		  "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
		  "\"d\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[0,0]},"
		  "\"f\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
		  2, "e U8 [0] 0-0|d U8 [0, 5] 0-0|a U8 [2] 0-2|f U8 [0] 2-2|" },
		{ "{\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8,
		  "s F64 [] 0-8|" },
		{ "{\"z\":{\"dtype\":\"U8\",\"shape\":[0,1099511627776,1099511627776],\"data_"
		  "offsets\":[0,0]}}",
		  0, "z U8 [0, 1099511627776, 1099511627776] 0-0|" },
		/* sub-byte types in whole bytes */
		{ "{\"f\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3,
		  "f F4 [2, 3] 0-3|" },
		{ "{\"f\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3,
		  "f F6_E2M3 [4] 0-3|" },
		/* escapes anywhere; fields that are not ours, twice, of any kind */
		{ "{\"\\u00e9\\/"
		  "\\\"\":{\"\\u0064type\":\"\\u0046\\u0031\\u0036\",\"shape\":[1],\"data_"
		  "offsets\":[0,2],"
		  "\"x\":{\"y\":[1e3,-0,123456789012345678901234567890,null,\"\\u0000\"]},\"x\":1}"
		  "}",
		  2, "\xc3\xa9/\" F16 [1] 0-2|" },
		{ "{\"__metadata\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
		  "__metadata BOOL [1] 0-1|" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		size_t n = strlen(rows[i].header);
		struct st_file file = { 0 };
		struct buf out = { 0 };
		struct err err = { 0 };

		if (st_parse_header(&file, rows[i].header, n, 8 + n + rows[i].data_size, &err))
			fail_msg("%s: %s", rows[i].header, err.message);
		assert_true(file.data_start == 8 + n);
		buf_puts(&out, "");
		describe(&out, &file);
		assert_string_equal(out.data ? out.data : "", rows[i].expected);
		buf_release(&out);
		st_release(&file);
	}
}

static void every_type_has_its_size(void **state)
{
	(void)state;
	for (int dtype = 0; dtype < N_DTYPES; dtype++) {
		unsigned size = dtype_bits((enum dtype)dtype); /* of 8 elements */
		char *header = xasprintf(
			"{\"t\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%u]}}",
			dtype_name((enum dtype)dtype), size);
		size_t n = strlen(header);
		struct st_file file = { 0 };
		struct err err = { 0 };

		assert_int_equal(st_parse_header(&file, header, n, 8 + n + size, &err), 0);
		assert_int_equal(file.tensors[0].dtype, dtype);
		assert_true(st_tensor_size(&file.tensors[0]) == size);
		assert_true(st_n_elements(file.tensors[0].shape, file.tensors[0].n_dims) == 8);
		st_release(&file);
		free(header);
	}
}

/* Sizes that do not go together are refused before the text is looked at. */
static void sizes_that_disagree_are_refused(void **state)
{
	static const struct {
		size_t n;
		uint64_t file_size;
		const char *message;
	} rows[] = {
		{ 0, 0, "'-' is empty: copy or download it again" },
		{ 2, 9,
		  "header of '-' is 2 bytes long, past the end of the file (9): "
		  "copy or download it again" },
		{ SIZE_MAX, 10,
		  "'-' is not a safetensors file: its header would be 18446744073709551615 bytes "
		  "long, of a file of 10" },
		{ ST_MAX_HEADER + 1, UINT64_MAX,
		  "header of '-' is 100000001 bytes long, more than the limit (100000000)" },
		{ 2, UINT64_MAX,
		  "the tensors of '-' end at byte 0, before the end of the file "
		  "(18446744073709551605)" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct st_file file = { 0 };
		struct err err = { 0 };

		assert_int_equal(st_parse_header(&file, "{}", rows[i].n, rows[i].file_size, &err),
				 -1);
		assert_string_equal(err.message, rows[i].message);
		st_release(&file);
	}
}

/* n tensors of one byte each, their data in the reverse order of the header, as JSON. */
static void many_tensors(struct buf *header, size_t n, const char *last_name)
{
	buf_putc(header, '{');
	for (size_t i = 0; i < n; i++) {
		if (i + 1 < n || !last_name)
			buf_printf(header, "\"w.%zu\"", i * 7919 % n);
		else
			buf_printf(header, "\"%s\"", last_name);
		buf_printf(header, ":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%zu,%zu]}%c",
			   n - 1 - i, n - i, i + 1 < n ? ',' : '}');
	}
}

static void a_million_tensors_are_read(void **state)
{
	const size_t n = 1000000;
	struct buf header = { 0 };
	struct st_file file = { 0 };
	struct err err = { 0 };

	(void)state;
	many_tensors(&header, n, NULL);
	assert_int_equal(st_parse_header(&file, header.data, header.len, 8 + header.len + n, &err),
			 0);
	assert_int_equal(file.n_tensors, n);
	assert_string_equal(file.tensors[n - 1].name, "w.0");
	assert_string_equal(file.by_name[0]->name, "w.0");
	assert_string_equal(file.by_name[n - 1]->name, "w.999999");
	st_release(&file);
	buf_release(&header);
}

static void a_duplicate_among_many_is_found(void **state)
{
	struct buf header = { 0 };
	struct st_file file = { 0 };
	struct err err = { 0 };

	(void)state;
	many_tensors(&header, 5000, "w.5");
	assert_int_equal(
		st_parse_header(&file, header.data, header.len, 8 + header.len + 5000, &err), -1);
	assert_non_null(strstr(err.message, "duplicate tensor 'w.5' in '-', with data at bytes "));
	st_release(&file);
	buf_release(&header);
}

/* Tensors of 4 bytes each, one byte too far or too near. */
static void a_gap_or_overlap_of_one_byte_is_refused(void **state)
{
	static const struct {
		const char *offsets;
		uint64_t data_size;
		const char *message;
	} rows[] = {
		{ "5,9", 9,
		  "tensor 'b' in '-' begins at byte 5, after a gap: the data before it ends at 4" },
		{ "3,7", 7,
		  "tensor 'b' in '-' begins at byte 3, before the end of tensor 'a' (4)" },
		{ "4,8", 7,
		  "tensor 'b' in '-' ends at byte 8, past the end of the file (7): "
		  "copy or download it again" },
		{ "4,8", 9, "the tensors of '-' end at byte 8, before the end of the file (9)" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		char *header =
			xasprintf("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
				  "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%s]}}",
				  rows[i].offsets);
		size_t n = strlen(header);
		struct st_file file = { 0 };
		struct err err = { 0 };

		assert_int_equal(st_parse_header(&file, header, n, 8 + n + rows[i].data_size, &err),
				 -1);
		assert_string_equal(err.message, rows[i].message);
		st_release(&file);
		free(header);
	}
}

/* Each header byte changed, removed or doubled: no crash, no leak, and where it opens, a good
 * table. */
static void a_mutated_header_is_refused_or_valid(void **state)
{
	static const char good[] =
		"{\"__metadata__\":{\"k\":\"\\u00e9\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],"
		"\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":"
		"[8,10],\"x\":[{}]}}";
	static const char bytes[] = "{}[],:\"\\ 0-1.9eu\n\x7f\x80\xc3\xff";
	const size_t n = sizeof good - 1;
	char text[sizeof good + 1];
	size_t n_good = 0;

	(void)state;
	for (size_t i = 0; i < n * (sizeof bytes + 2); i++) {
		size_t where = i / (sizeof bytes + 2), what = i % (sizeof bytes + 2), length = n;
		struct st_file file = { 0 };
		struct err err = { 0 };

		memcpy(text, good, n);
		if (what < sizeof bytes) {
			text[where] = bytes[what];
		} else if (what == sizeof bytes) {
			memmove(text + where, text + where + 1, n - where - 1);
			length--;
		} else {
			memmove(text + where + 1, text + where, n - where);
			length++;
		}
		if (!st_parse_header(&file, text, length, 8 + length + 10, &err)) {
			n_good++;
			assert_true(file.n_tensors <= 2);
			assert_true(!file.n_tensors || file.tensors[file.n_tensors - 1].end == 10);
		}
		st_release(&file);
	}
	assert_true(n_good > 10);
}

static int file_of(const void *data, size_t n)
{
	int fd = memfd_create("safetensors", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, n), (ssize_t)n);
	return fd;
}

/* Reads the next file that the reference wrote, and its name.  Returns false at the end. */
static bool next_golden(FILE *golden, char name[static 32], struct buf *whole)
{
	char *line = NULL;
	size_t size = 0, n_zeros;
	ssize_t n = getline(&line, &size, golden);
	uint64_t header_size;
	int begin;

	buf_release(whole);
	if (n > 0) {
		assert_int_equal(sscanf(line, "%31s %zu%n", name, &n_zeros, &begin), 2);
		header_size = (uint64_t)(n - begin - 2); /* without the space and the newline */
		buf_add(whole, &header_size, sizeof header_size);
		buf_add(whole, line + begin + 1, header_size);
		for (size_t i = 0; i < n_zeros; i++)
			buf_putc(whole, 0);
	}
	free(line);
	return n > 0;
}

/* A file cut anywhere is refused, and so is one with a byte too many. */
static void a_file_cut_anywhere_is_refused(void **state)
{
	FILE *golden = fopen("tests/golden/layout.txt", "r");
	struct buf whole = { 0 };
	struct st_file file;
	struct err err;
	char name[32];
	int fd;

	(void)state;
	assert_non_null(golden);
	assert_true(next_golden(golden, name, &whole));
	fclose(golden);
	buf_putc(&whole, 0);
	for (size_t n = 0; n <= whole.len; n++) {
		fd = file_of(whole.data, n);
		assert_int_equal(st_open_fd(&file, &io_system, fd, "F", &err),
				 n + 1 == whole.len ? 0 : -1);
		st_release(&file);
		close(fd);
	}
	buf_release(&whole);
}

static void streams_are_refused(void **state)
{
	struct st_file file;
	struct err err;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(st_open_fd(&file, &io_system, fds[0], "P", &err), -1);
	assert_string_equal(err.message, "'P' is not a regular file");
	close(fds[0]);
	close(fds[1]);
}

/* The tensors in another order than the file's, without their offsets. */
static struct st_tensor *shuffled(const struct st_file *file, unsigned seed)
{
	struct st_tensor *tensors = xreallocarray(NULL, file->n_tensors, sizeof *tensors);

	for (size_t i = 0; i < file->n_tensors; i++) {
		size_t j;

		seed = seed * 1103515245u + 12345u;
		j = (seed >> 8) % (i + 1);
		tensors[i] = tensors[j];
		tensors[j] = file->tensors[i];
	}
	for (size_t i = 0; i < file->n_tensors; i++)
		tensors[i].begin = tensors[i].end = UINT64_MAX;
	return tensors;
}

static void check_layout(const char *name, const struct st_file *file, const struct buf *whole,
			 unsigned seed)
{
	struct st_tensor *tensors = shuffled(file, seed);
	struct st_metadata metadata[8];
	struct buf header = { 0 };
	uint64_t header_size, data_size;

	for (size_t i = 0; i < file->n_metadata; i++)
		metadata[i] = file->metadata[file->n_metadata - 1 - i];
	st_layout(tensors, file->n_tensors, metadata, file->n_metadata, &header_size, &data_size);
	st_header(tensors, file->n_tensors, metadata, file->n_metadata, &header);
	assert_int_equal(header_size, header.len);
	if (header.len != file->data_start || memcmp(header.data, whole->data, header.len) != 0)
		fail_msg("%s: laid out as %.*s", name, (int)(header.len - 8), header.data + 8);
	assert_true(header.len + data_size == whole->len);
	for (size_t i = 0; i < file->n_tensors; i++) {
		size_t j = 0;

		while (strcmp(file->tensors[j].name, tensors[i].name) != 0)
			j++;
		assert_true(tensors[i].begin == file->tensors[j].begin &&
			    tensors[i].end == file->tensors[j].end);
	}
	buf_release(&header);
	free(tensors);
}

static void the_layout_is_that_of_the_reference(void **state)
{
	FILE *golden = fopen("tests/golden/layout.txt", "r");
	struct buf whole = { 0 };
	char name[32];
	int n = 0;

	(void)state;
	assert_non_null(golden);
	for (; next_golden(golden, name, &whole); n++) {
		int fd = file_of(whole.data, whole.len);
		struct st_file file;
		struct err err = { 0 };

		if (st_open_fd(&file, &io_system, fd, name, &err))
			fail_msg("%s", err.message);
		assert_true(file.n_metadata <= 8);
		for (unsigned seed = 1; seed < 20; seed++)
			check_layout(name, &file, &whole, seed);
		st_release(&file);
		close(fd);
	}
	assert_true(n == 13);
	fclose(golden);
}

/* Types that the reference's Python package cannot write: the crate's order. */
static void types_below_a_byte_are_laid_out_like_the_crate(void **state)
{
	uint64_t shape[] = { 4 };
	struct st_tensor tensors[] = {
		{ .name = "a", .dtype = DT_BOOL, .n_dims = 1, .shape = shape },
		{ .name = "b", .dtype = DT_F4, .n_dims = 1, .shape = shape },
		{ .name = "c", .dtype = DT_F6_E2M3, .n_dims = 1, .shape = shape },
		{ .name = "d", .dtype = DT_F6_E3M2, .n_dims = 1, .shape = shape },
		{ .name = "e", .dtype = DT_U8, .n_dims = 1, .shape = shape },
	};
	struct buf header = { 0 };
	uint64_t header_size, data_size;

	(void)state;
	st_layout(tensors, 5, NULL, 0, &header_size, &data_size);
	st_header(tensors, 5, NULL, 0, &header);
	assert_true(data_size == 4 + 3 + 3 + 2 + 4);
	assert_true(tensors[4].begin == 0 && tensors[3].begin == 4 && tensors[2].begin == 7);
	assert_true(tensors[1].begin == 10 && tensors[0].begin == 12);
	assert_int_equal(header.len % 8, 0);
	assert_int_equal(header.len, header_size);
	buf_release(&header);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(valid_headers_are_read),
		cmocka_unit_test(every_type_has_its_size),
		cmocka_unit_test(sizes_that_disagree_are_refused),
		cmocka_unit_test(a_million_tensors_are_read),
		cmocka_unit_test(a_duplicate_among_many_is_found),
		cmocka_unit_test(a_gap_or_overlap_of_one_byte_is_refused),
		cmocka_unit_test(a_mutated_header_is_refused_or_valid),
		cmocka_unit_test(a_file_cut_anywhere_is_refused),
		cmocka_unit_test(streams_are_refused),
		cmocka_unit_test(the_layout_is_that_of_the_reference),
		cmocka_unit_test(types_below_a_byte_are_laid_out_like_the_crate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
