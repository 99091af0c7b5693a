/* SPDX-License-Identifier: Apache-2.0
 *
 * dataset/dataset.h: every kind of file, what is cut and dropped, and what is refused.  Files are
 * written here byte by byte.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>

#include "base/mem.h"
#include "dataset/dataset.h"
#include "support/folders.h"

#define HINT "give more data or a smaller --seq-len"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))
#define ALL	     SIZE_MAX

static struct data_folder folder; /* its tokenizer: one token a letter, "ab" is 10; BOS 8, EOS 9 */

static const char tokenizer_json[] =
	"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\":\":3,\" "
	"\":4,\"\\n\":5,\"u\":6,\"d\":7,"
	"\"<s>\":8,\"</s>\":9,\"ab\":10},\"merges\":[\"a "
	"b\"]},\"post_processor\":{\"type\":\"TemplateProcessing\","
	"\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}},{"
	"\"SpecialToken\":{\"id\":"
	"\"</s>\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[8]},\"</s>\":{\"ids\":[9]}}}}";

static size_t n_read; /* bytes */

static ssize_t counting_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	(void)io;
	n_read += n;
	return io_system.pread(&io_system, fd, data, n, offset);
}

/* "1 2 3|4 5": the sequences, or the message without the folder. */
static void read_into(struct buf *out, const char *path, const struct tokenizer *t, size_t seq_len,
		      size_t vocab_size, size_t max)
{
	struct io io = io_system;
	const struct dataset_params params = { .io = &io,
					       .paths = &path,
					       .n_paths = 1,
					       .tokenizer = t,
					       .seq_len = seq_len,
					       .vocab_size = vocab_size,
					       .max_sequences = max };
	struct dataset data;
	struct err err = { 0 };

	io.pread = counting_pread;
	n_read = 0;
	out->len = 0;
	buf_puts(out, "");
	if (dataset_open(&data, &params, &err)) {
		assert_int_equal(err.kind, ERR_INPUT);
		assert_null(data.sequences);
		assert_non_null(strstr(err.message, folder.path));
		data_folder_message(&folder, err.message, out);
		return;
	}
	data_sequences_list(out, &data);
	dataset_release(&data);
}

#define NO_KEY "no 'text', 'messages', 'conversations', 'prompt' with 'completion', or 'input_ids'"

struct text_row {
	const char *name, *text;
	size_t seq_len, max;
	const char *expected;
};

static void check_rows(const struct text_row *rows, size_t n)
{
	struct buf got = { 0 };

	for (size_t i = 0; i < n; i++) {
		const char *path =
			data_folder_put(&folder, rows[i].name, rows[i].text, strlen(rows[i].text));

		read_into(&got, path, folder.tokenizer, rows[i].seq_len, 11, rows[i].max);
		if (strcmp(got.data, rows[i].expected) != 0)
			fail_msg("row %zu: '%s', not '%s'", i, got.data, rows[i].expected);
	}
	buf_release(&got);
}

static void texts_become_sequences(void **state)
{
	static const struct text_row rows[] = {
		{ "a.txt", "abcab", 2, ALL, "8 10|2 10" }, /* 8 10 2 10 9: the last is dropped */
		{ "a.txt", "abcab", 5, ALL, "8 10 2 10 9" },
		{ "a.txt", "abcab", 1, 3, "8|10|2" },
		{ "a.txt", "abcab", 6, ALL,
		  "'a.txt' contains 5 tokens, fewer than one sequence (6): " HINT },
		{ "a.txt", "", 3, ALL,
		  "'a.txt' contains 2 tokens, fewer than one sequence (3): " HINT },
		{ "a.jsonl", "{\"text\":\"ab\"}\n\n{\"text\":\"c\"}", 3, ALL, "8 10 9|8 2 9" },
		{ "a.jsonl", "{\"text\":\"ab\"}\r\n{\"text\":\"c\"}\n", 4, ALL, "8 10 9 8" },
		{ "a.jsonl", "{\"text\":\"ab\"}\n{\"text\":", 3, 1,
		  "8 10 9" }, /* not read as far */
		{ "a.jsonl",
		  "{\"messages\":[{\"role\":\"u\",\"content\":\"a\"},{"
		  "\"role\":\"d\",\"content\":null}]}",
		  9, ALL, "8 6 3 4 0 5 7 3 4" },
		{ "a.jsonl",
		  "{\"messages\":[{\"role\":\"u\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
		  "{\"type\":\"text\",\"text\":\"b\"}]}]}",
		  7, ALL, "8 6 3 4 10 5 9" },
		{ "a.jsonl", "{\"input_ids\":[3,4,5]}\n{\"input_ids\":[0]}\n", 2, ALL, "3 4 5|0" },
		{ "a.jsonl", "{\"input_ids\":[3]}\n{\"input_ids\":[10]}\n{\"input_ids\":[99]}", 2,
		  2, "3|10" },
		{ "a.jsonl", "{\"input_ids\":[3]}\n{\"input_ids\":[11]}", 2, ALL,
		  "'a.jsonl', line 2: token id 11 is outside the range of the model (0 to 10)" },
		{ "a.jsonl", "\n{\"input_ids\":[-1]}", 2, ALL,
		  "'a.jsonl', line 2: token id -1 is outside the range of the model (0 to 10)" },
		{ "a.jsonl", "{\"input_ids\":[1.5]}", 2, ALL,
		  "'a.jsonl', line 1: element 0 of 'input_ids' is not an integer" },
		{ "a.jsonl", "{\"input_ids\":[]}", 2, ALL,
		  "'a.jsonl', line 1: 'input_ids' is not a list of at least one id" },
		{ "a.jsonl", "{\"input_ids\":[1]}\n{\"text\":\"a\"}", 2, ALL,
		  "'a.jsonl', line 2: text cannot follow sequences of token ids ('input_ids')" },
		{ "a.jsonl", "{\"text\":\"a\"}\n{\"input_ids\":[1]}", 9, ALL,
		  "'a.jsonl', line 2: sequences of token ids ('input_ids') cannot follow text" },
		{ "a.jsonl", "{\"prompt\":\"a\"}", 2, ALL, "'a.jsonl', line 1: " NO_KEY },
		{ "a.jsonl", "{\"text\":\"a\"}\n{\"text\":", 9, ALL,
		  "'a.jsonl', line 2: bad JSON at byte 8: unexpected end" },
		{ "a.jsonl", "[1]", 2, ALL, "'a.jsonl', line 1: " NO_KEY },
		{ "a.jsonl", "{\"messages\":[{\"content\":\"a\"}]}", 2, ALL,
		  "'a.jsonl', line 1: message 0 has no 'role'" },
		{ "a.jsonl", "{\"messages\":[{\"role\":\"u\",\"content\":[{\"type\":\"image\"}]}]}",
		  2, ALL, "'a.jsonl', line 1: message part is not text" },
		{ "a.jsonl", "", 2, ALL,
		  "'a.jsonl' contains 0 tokens, fewer than one sequence (2): " HINT },
		{ "a.safetensors", "{}", 2, ALL,
		  "'a.safetensors' is not a .txt, .jsonl, .json or .npy file (also .gz or .zst)" },
		{ "a.csv", "1,2", 2, ALL,
		  "'a.csv' is not a .txt, .jsonl, .json or .npy file (also .gz or .zst): "
		  "convert it, as load_dataset(...).to_json(...) of the Python package datasets "
		  "does" },
	};

	(void)state;
	check_rows(rows, N_ROWS(rows));
}

static void text_needs_a_tokenizer(void **state)
{
	struct buf got = { 0 };

	(void)state;
	read_into(&got, data_folder_put(&folder, "a.txt", "ab", 2), NULL, 1, 11, ALL);
	assert_string_equal(
		got.data, "'a.txt': text needs a tokenizer.json beside the model; token ids (.npy, "
			  "or 'input_ids' in .jsonl) do not");
	read_into(&got, data_folder_put(&folder, "a.jsonl", "{\"input_ids\":[1]}", 17), NULL, 1, 11,
		  ALL);
	assert_string_equal(got.data, "1");
	read_into(&got, data_folder_put(&folder, "a.txt", "ab", 2), folder.tokenizer, 1, 9, ALL);
	assert_string_equal(got.data, "'a.txt': the tokenizer produced token id 10, which is "
				      "outside the range of the model (0 to 8)");
	buf_release(&got);
}

/* A text that is far longer than what is wanted of it is not read to its end; what is read gives
 * the same tokens. */
static void a_long_text_is_read_only_as_far_as_needed(void **state)
{
	struct buf text = { 0 }, got = { 0 };
	const char *path;

	(void)state;
	for (int i = 0; i < 500000; i++)
		buf_puts(&text, i % 3 ? "ab\n" : "c");
	path = data_folder_put(&folder, "long.txt", text.data, text.len);
	read_into(&got, path, folder.tokenizer, 4, 11, 2);
	assert_string_equal(got.data, "8 2 10 5|10 5 2 10");
	assert_true(n_read < text.len / 2);
	read_into(&got, path, folder.tokenizer, 833335, 11, 1); /* nearly all of it */
	assert_int_equal(strncmp(got.data, "8 2 10 5 10 5 2 10 5", 20), 0);
	read_into(&got, path, folder.tokenizer, 833336, 11, 1);
	assert_string_equal(
		got.data,
		"'long.txt' contains 833335 tokens, fewer than one sequence (833336): " HINT);
	text.len = 0;
	for (int i = 0; i < 600000; i++)
		buf_putc(&text, 'x'); /* no token: more is read than there should be need for */
	buf_puts(&text, "\nab\nab\n");
	path = data_folder_put(&folder, "long.txt", text.data, text.len);
	read_into(&got, path, folder.tokenizer, 4, 11, 1);
	assert_string_equal(got.data, "8 5 10 5");
	buf_release(&text);
	buf_release(&got);
}

/* hashlib.sha256(struct.pack("<6I", 3, 3, 4, 5, 1, 0)).hexdigest() */
/* --- arrays --- */

static const char *write_npy(int version, const char *dict, const void *bytes, size_t n)
{
	struct buf file = { 0 };
	const char *path;
	size_t len = strlen(dict);

	buf_add(&file, "\x93NUMPY", 6);
	buf_putc(&file, (char)version);
	buf_putc(&file, 0);
	for (int i = 0; i < (version > 1 ? 4 : 2); i++)
		buf_putc(&file, (char)(len >> 8 * i));
	buf_puts(&file, dict);
	buf_add(&file, bytes, n);
	path = data_folder_put(&folder, "a.npy", file.data, file.len);
	buf_release(&file);
	return path;
}

static const char npy_ids[] = "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0";
static const struct {
	int version;
	const char *dict, *bytes;
	size_t n, seq_len, max;
	const char *expected;
} npy_rows[] = {
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }\n", npy_ids, 16, 2, ALL,
	  "1 2|3 4" },
	{ 2, "{'descr': '<u4', 'fortran_order': False, 'shape': (2, 2), }\n", npy_ids, 16, 9, ALL,
	  "1 2|3 4" },
	{ 3, "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", "\7\0\0\0\0\0\0\0", 8, 1,
	  ALL, "7" },
	{ 1, "{'descr': '<u2', 'fortran_order': False, 'shape': (4, 2), }", npy_ids, 16, 9, 3,
	  "1 0|2 0|3 0" },
	{ 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", "\1\2\3", 3, 3, ALL,
	  "1 2 3" },
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }\n", npy_ids, 16, 5, ALL,
	  "'a.npy' contains 4 tokens, fewer than one sequence (5): " HINT },
	{ 1, "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }", "\1\0\xff\xff", 4, 1, ALL,
	  "'a.npy', element 1: token id -1 is outside the range of the model (0 to 10)" },
	{ 1, "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }",
	  "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 1, ALL,
	  "'a.npy', element 0: token id 9223372036854775807 is outside the range of the "
	  "model (0 to 10)" },
	{ 1, "{'descr': '<u4', 'fortran_order': False, 'shape': (1,), }", "\xb\0\0\0", 4, 1, ALL,
	  "'a.npy', element 0: token id 11 is outside the range of the model (0 to 10)" },
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (5,), }", npy_ids, 16, 1, ALL,
	  "'a.npy' is 83 bytes long, too short for its array (87)" },
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
	  npy_ids, 16, 1, ALL,
	  "'a.npy' is 103 bytes long, too short for its array (18446744073709551615)" },
	{ 1, "{'descr': '>i4', 'fortran_order': False, 'shape': (4,), }", npy_ids, 16, 1, ALL,
	  "'a.npy' does not contain little-endian integers of 1, 2, 4 or 8 bytes" },
	{ 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", npy_ids, 16, 1, ALL,
	  "'a.npy' does not contain little-endian integers of 1, 2, 4 or 8 bytes" },
	{ 1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2), }", npy_ids, 16, 1, ALL,
	  "'a.npy' is not in C order" },
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (), }", npy_ids, 16, 1, ALL,
	  "'a.npy' has neither 1 nor 2 dimensions" },
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2, 1), }", npy_ids, 16, 1, ALL,
	  "'a.npy' has neither 1 nor 2 dimensions" },
	{ 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 0), }", npy_ids, 16, 1, ALL,
	  "'a.npy' contains no tokens" },
	{ 4, "{}", npy_ids, 16, 1, ALL, "'a.npy' is not a .npy file of version 1 to 3" },
};

static void npy_arrays_become_sequences_or_are_refused(void **state)
{
	struct buf got = { 0 };

	(void)state;
	for (size_t i = 0; i < N_ROWS(npy_rows); i++) {
		read_into(&got,
			  write_npy(npy_rows[i].version, npy_rows[i].dict, npy_rows[i].bytes,
				    npy_rows[i].n),
			  NULL, npy_rows[i].seq_len, 11, npy_rows[i].max);
		if (strcmp(got.data, npy_rows[i].expected) != 0)
			fail_msg("row %zu: '%s', not '%s'", i, got.data, npy_rows[i].expected);
	}
	read_into(&got, data_folder_put(&folder, "a.npy", "\x93NUMPY\1\0\xff\xff{}", 12), NULL, 1,
		  11, ALL);
	assert_string_equal(
		got.data,
		"header of 'a.npy' is 65535 bytes long, more than the file or the limit (65536)");
	read_into(&got, data_folder_put(&folder, "a.npy", "", 0), NULL, 1, 11, ALL);
	assert_string_equal(got.data, "'a.npy' is not a .npy file of version 1 to 3");
	buf_release(&got);
}

static int set_up(void **state)
{
	(void)state;
	return data_folder_init(&folder, tokenizer_json);
}

static int tear_down(void **state)
{
	(void)state;
	return data_folder_release(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_become_sequences),
		cmocka_unit_test(text_needs_a_tokenizer),
		cmocka_unit_test(a_long_text_is_read_only_as_far_as_needed),
		cmocka_unit_test(npy_arrays_become_sequences_or_are_refused),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
