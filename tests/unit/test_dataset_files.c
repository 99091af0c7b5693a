/* SPDX-License-Identifier: Apache-2.0
 *
 * Where data come from: several files, directories, pipes, gzip and zstd, JSON arrays; and what is
 * refused of them.  zlib and libzstd compress what is read here.
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
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"
#include "dataset/dataset.h"
#include "support/folders.h"

#define HINT "give more data or a smaller --seq-len"

#define N_ROWS(rows) (sizeof(rows) / sizeof *(rows))

static struct data_folder folder; /* its tokenizer: one token a letter, no special tokens */

static const char tokenizer_json[] =
	"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\":\":3,\" \":4,\"\\n\":5,"
	"\"u\":6,\"s\":7,\"e\":8,\"r\":9},\"merges\":[]}}";

static void put_text(const char *name, const char *text)
{
	data_folder_put(&folder, name, text, strlen(text));
}

/* One gzip member, as gzip writes it. */
static void add_gzip(struct buf *packed, const void *bytes, size_t n)
{
	size_t max = n / 500 + 1000;
	unsigned char *out = xmalloc(max);
	z_stream z = { .next_in = (z_const Bytef *)(uintptr_t)bytes,
		       .avail_in = (uInt)n,
		       .next_out = out,
		       .avail_out = (uInt)max };

	assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	buf_add(packed, out, max - z.avail_out);
	deflateEnd(&z);
	free(out);
}

static void add_zstd(struct buf *packed, const void *bytes, size_t n)
{
	size_t max = ZSTD_compressBound(n), size;
	void *out = xmalloc(max);

	size = ZSTD_compress(out, max, bytes, n, 3);
	assert_false(ZSTD_isError(size));
	buf_add(packed, out, size);
	free(out);
}

/* "0 1|2 3": the sequences of these files, or the message without the folder. */
static char *read_paths(const char *const *names, size_t n, size_t seq_len, size_t max)
{
	struct dataset_params params = { .io = &io_system,
					 .n_paths = n,
					 .tokenizer = folder.tokenizer,
					 .seq_len = seq_len,
					 .vocab_size = 10,
					 .max_sequences = max };
	char paths[4][4096];
	const char *pointers[4] = { paths[0], paths[1], paths[2], paths[3] };
	struct buf out = { 0 };
	struct dataset data;
	struct err err = { 0 };

	for (size_t i = 0; i < n; i++)
		snprintf(paths[i], sizeof paths[i], "%s%s%s", *names[i] == '/' ? "" : folder.path,
			 *names[i] == '/' ? "" : "/", names[i]);
	params.paths = pointers;
	buf_puts(&out, "");
	if (dataset_open(&data, &params, &err)) {
		data_folder_message(&folder, err.message, &out);
		return out.data;
	}
	data_sequences_list(&out, &data);
	dataset_release(&data);
	return out.data;
}

static void check(const char *name, size_t seq_len, size_t max, const char *expected)
{
	char *found = read_paths(&name, 1, seq_len, max);

	if (strcmp(found, expected) != 0)
		fail_msg("%s: '%s', not '%s'", name, found, expected);
	free(found);
}

static void check_two(const char *one, const char *other, size_t max, const char *expected)
{
	const char *const names[] = { one, other };
	char *found = read_paths(names, 2, 2, max);

	if (strcmp(found, expected) != 0)
		fail_msg("%s, %s: '%s', not '%s'", one, other, found, expected);
	free(found);
}

static void several_files_are_joined_in_order(void **state)
{
	(void)state;
	put_text("a.txt", "abc");
	put_text("b.txt", "cba");
	put_text("ids.jsonl", "{\"input_ids\":[1,2,3]}\n");
	put_text("more.json", "[{\"input_ids\":[7]}]");
	check_two("a.txt", "b.txt", SIZE_MAX, "0 1|2 2|1 0");
	check_two("b.txt", "a.txt", SIZE_MAX, "2 1|0 0|1 2");
	check_two("a.txt", "no.txt", 1, "0 1"); /* enough: the second is not opened */
	check_two("a.txt", "no.txt", 2, "cannot open 'no.txt': No such file or directory");
	check_two("ids.jsonl", "more.json", SIZE_MAX, "1 2 3|7");
	check_two("ids.jsonl", "more.json", 1, "1 2 3");
	check_two("a.txt", "ids.jsonl", SIZE_MAX,
		  "'ids.jsonl', line 1: sequences of token ids ('input_ids') cannot follow text");
	check_two("ids.jsonl", "a.txt", SIZE_MAX,
		  "'a.txt': text cannot follow sequences of token ids ('input_ids')");
	put_text("a.txt", "a");
	put_text("b.txt", "");
	check_two("a.txt", "b.txt", SIZE_MAX,
		  "the 2 data files contain 1 tokens, fewer than one sequence (2): " HINT);
}

static void a_directory_is_its_files_in_byte_order(void **state)
{
	char path[4096];

	(void)state;
	snprintf(path, sizeof path, "%s/dir", folder.path);
	assert_int_equal(mkdir(path, 0700), 0);
	check("dir", 1, SIZE_MAX,
	      "'dir' contains no .txt, .jsonl, .json or .npy file (also .gz or "
	      ".zst)");
	put_text("dir/b.txt", "b");
	put_text("dir/a.jsonl", "{\"text\":\"aa\"}");
	put_text("dir/B.json", "[{\"text\":\"cc\"}]");
	put_text("dir/.hidden.txt", "u");
	put_text("dir/notes.md", "u");
	snprintf(path, sizeof path, "%s/dir/sub.txt", folder.path);
	assert_int_equal(mkdir(path, 0700), 0);
	check("dir", 1, SIZE_MAX, "2|2|0|0|1");
}

static void json_arrays_are_read_like_lines(void **state)
{
	static const struct {
		const char *text, *expected;
	} rows[] = {
		{ " [ {\"text\":\"a]},\\\"[\"} ,\n{\"text\":\"b\"}\t] \n", "0|1" },
		{ "[{\"input_ids\":[1,2]},{\"input_ids\":[3]}]", "1 2|3" },
		{ "{\"text\":\"a\"}\n{\"text\":\"b\"}\n", "0|1" },
		{ "[]", "'a.json' contains 0 tokens, fewer than one sequence (1): " HINT },
		{ "[{\"text\":\"a\"}", "'a.json', element 0: the array is truncated" },
		{ "[{\"text\":\"a\"", "'a.json', element 0: the array is truncated" },
		{ "[{\"text\":\"a\"} {\"text\":\"b\"}]",
		  "'a.json', element 0: bad JSON at byte 13: expected the end" },
		{ "[{\"text\":\"a\"}]]", "'a.json', element 1: unexpected text after the array" },
		{ "[{\"text\":\"a\"},]",
		  "'a.json', element 1: bad JSON at byte 0: unexpected end" },
		{ "[7]", "'a.json', element 0: no 'text', 'messages', 'conversations', 'prompt' "
			 "with 'completion', or 'input_ids'" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		put_text("a.json", rows[i].text);
		check("a.json", 1, SIZE_MAX, rows[i].expected);
	}
}

static void objects_of_other_keys_become_text(void **state)
{
	(void)state;
	put_text("a.jsonl", "{\"prompt\":\"ab\",\"completion\":\"c\"}");
	check("a.jsonl", 3, SIZE_MAX, "0 1 2");
	put_text("a.jsonl", "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},"
			    "{\"from\":\"sub\",\"value\":\"c\"}]}");
	check("a.jsonl", 14, SIZE_MAX, "6 7 8 9 3 4 0 5 7 6 1 3 4 2"); /* "user: a\nsub: c" */
	put_text("a.jsonl", "{\"conversations\":[{\"role\":\"user\",\"value\":\"a\"}]}");
	check("a.jsonl", 1, SIZE_MAX, "'a.jsonl', line 1: message 0 has no 'from'");
}

static void text_is_utf8_without_its_mark(void **state)
{
	(void)state;
	put_text("a.txt", "\xEF\xBB\xBF"
			  "ab");
	check("a.txt", 1, SIZE_MAX, "0|1");
	put_text("a.jsonl", "\xEF\xBB\xBF{\"text\":\"ab\"}");
	check("a.jsonl", 1, SIZE_MAX, "0|1");
}

/* A text without line ends that is read in two parts: the first ends inside a character. */
static void a_character_is_not_cut(void **state)
{
	struct buf text = { 0 };

	(void)state;
	buf_puts(&text, "x");
	for (int i = 0; i < 200000; i++)
		buf_puts(&text, "\xc3\xa4");
	buf_puts(&text, "ab");
	data_folder_put(&folder, "a.txt", text.data, text.len);
	check("a.txt", 1, 1, "0");
	buf_release(&text);
}

static void compressed_files_are_read_as_their_content(void **state)
{
	static const char
		line[] = "{\"text\":\"abc\"}\n",
		array[] = "\x93NUMPY\1\0"
			  "\x3c\0{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2), }\n"
			  "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0";
	void (*const packers[])(struct buf *, const void *, size_t) = { add_gzip, add_zstd };
	static const char *const texts[] = { "a.txt.gz", "a.txt.zst" };
	static const char *const lines[] = { "a.jsonl.gz", "a.jsonl.zst" };
	static const char *const arrays[] = { "a.npy.gz", "a.npy.zst" };
	static const char *const bare[] = { "a.gz", "a.zst" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct buf packed = { 0 };

		packers[i](&packed,
			   "\xEF\xBB\xBF"
			   "abc",
			   6);
		data_folder_put(&folder, texts[i], packed.data, packed.len);
		check(texts[i], 1, SIZE_MAX, "0|1|2");
		packers[i](&packed, "ba", 2); /* a second member goes on where the first ended */
		data_folder_put(&folder, texts[i], packed.data, packed.len);
		check(texts[i], 1, SIZE_MAX, "0|1|2|1|0");
		packed.len = 0;
		packers[i](&packed, line, sizeof line - 1);
		data_folder_put(&folder, lines[i], packed.data, packed.len);
		check(lines[i], 1, SIZE_MAX, "0|1|2");
		data_folder_put(&folder, bare[i], packed.data, packed.len);
		check(bare[i], 1, SIZE_MAX, "0|1|2");
		packed.len = 0;
		packers[i](&packed, array, sizeof array - 1);
		data_folder_put(&folder, arrays[i], packed.data, packed.len);
		check(arrays[i], 1, SIZE_MAX, "1 2|3 4");
		buf_release(&packed);
	}
}

/* Every prefix is refused, and so is what follows. */
static void damaged_compression_is_refused(void **state)
{
	void (*const packers[])(struct buf *, const void *, size_t) = { add_gzip, add_zstd };
	static const char *const names[] = { "a.txt.gz", "a.txt.zst" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct buf packed = { 0 };
		char expected[128];

		packers[i](&packed, "abcabcabc", 9);
		snprintf(expected, sizeof expected,
			 "'%s' is truncated: its compressed data is incomplete", names[i]);
		for (size_t n = 5; n < packed.len; n++) {
			data_folder_put(&folder, names[i], packed.data, n);
			check(names[i], 1, SIZE_MAX, expected);
		}
		buf_puts(&packed, "garbage");
		data_folder_put(&folder, names[i], packed.data, packed.len);
		check(names[i], 1, SIZE_MAX,
		      i ? "'a.txt.zst' is damaged or has other data after its compressed data: "
			  "Unknown "
			  "frame descriptor"
			: "'a.txt.gz' is damaged or has other data after its compressed data: "
			  "incorrect "
			  "header check");
		buf_release(&packed);
	}
	data_folder_put(&folder, "a.txt.gz", "\x1f\x8b\x07garbagegarbage", 17);
	check("a.txt.gz", 1, SIZE_MAX,
	      "'a.txt.gz' is damaged or has other data after its compressed data: "
	      "unknown compression method");
}

/* Small files that would fill the memory. */
static void bombs_are_refused(void **state)
{
	size_t n = (size_t)257 << 20;
	char *bytes = malloc(n);
	struct buf packed = { 0 };

	(void)state;
	assert_non_null(bytes);
	memset(bytes, 'a', n);
	add_zstd(&packed, bytes, n);
	data_folder_put(&folder, "a.txt.zst", packed.data, packed.len);
	check("a.txt.zst", 1, SIZE_MAX,
	      "'a.txt.zst' exceeds the limit for compressed or piped text (268435456 bytes): use "
	      ".jsonl");
	check("a.txt.zst", 1, 2, "0|0");
	data_folder_put(&folder, "a.jsonl.zst", packed.data, packed.len);
	check("a.jsonl.zst", 1, SIZE_MAX,
	      "a line or object of 'a.jsonl.zst' is longer than the limit "
	      "(67108864 bytes)");
	data_folder_put(&folder, "a.npy.zst", packed.data, packed.len);
	check("a.npy.zst", 1, SIZE_MAX,
	      "'a.npy.zst' is larger than the limit for a compressed array (268435456 bytes): "
	      "decompress it first");
	bytes[0] = '[';
	packed.len = 0;
	add_zstd(&packed, bytes, n);
	data_folder_put(&folder, "a.json.zst", packed.data, packed.len);
	check("a.json.zst", 1, SIZE_MAX,
	      "'a.json.zst', element 0: a line or object of 'a.json.zst' is longer than the limit "
	      "(67108864 bytes)");
	buf_release(&packed);
	free(bytes);
}

/* A sequence of more ids than any model has read, and an object of as many values: the tree of 60
 * MB of ids takes a gigabyte, and a pass over them thirty. */
static void endless_sequences_are_refused(void **state)
{
	static const char npy[] = "\x93NUMPY\1\0\x48\0{'descr': '|u1', 'fortran_order': False, "
				  "'shape': (1, 1048577), }      \n";
	const size_t n = (1 << 20) + 1;
	struct buf bytes = { 0 };

	(void)state;
	buf_puts(&bytes, "{\"input_ids\": [0");
	for (size_t i = 1; i < n; i++)
		buf_puts(&bytes, ",0");
	buf_puts(&bytes, "]}");
	data_folder_put(&folder, "a.jsonl", bytes.data, bytes.len);
	check("a.jsonl", 1, SIZE_MAX,
	      "'a.jsonl', line 1: 1048577 values, more than the limit of an object (1048576): "
	      "divide it");
	bytes.len = 0;
	buf_add(&bytes, npy, sizeof npy - 1);
	assert_int_equal(bytes.len, 10 + 72);
	for (size_t i = 0; i < n; i++)
		buf_putc(&bytes, '\0');
	data_folder_put(&folder, "a.npy", bytes.data, bytes.len);
	check("a.npy", 1, SIZE_MAX,
	      "a sequence of 'a.npy' has 1048577 tokens, more than the limit (1048576): divide it");
	buf_release(&bytes);
}

/* Pipes have no names that tell: their content does. */
static void pipes_are_told_by_content(void **state)
{
	static const struct {
		const char *bytes, *expected;
	} rows[] = {
		{ "abc", "0|1|2" },
		{ " {\"text\":\"ab\"}\n{\"text\":\"c\"}", "0|1|2" },
		{ "[{\"text\":\"ab\"}, {\"text\":\"c\"}]", "0|1|2" },
		{ "[abc]", "0|1|2" },
		{ "{abc}", "0|1|2" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		char path[32];
		int ends[2];

		assert_int_equal(pipe(ends), 0);
		assert_int_equal(write(ends[1], rows[i].bytes, strlen(rows[i].bytes)),
				 strlen(rows[i].bytes));
		close(ends[1]);
		snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
		check(path, 1, SIZE_MAX, rows[i].expected);
		close(ends[0]);
	}
	check("/dev/null", 1, SIZE_MAX, "'/dev/null' is neither a regular file nor a pipe");
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
		cmocka_unit_test(several_files_are_joined_in_order),
		cmocka_unit_test(a_directory_is_its_files_in_byte_order),
		cmocka_unit_test(json_arrays_are_read_like_lines),
		cmocka_unit_test(objects_of_other_keys_become_text),
		cmocka_unit_test(text_is_utf8_without_its_mark),
		cmocka_unit_test(a_character_is_not_cut),
		cmocka_unit_test(compressed_files_are_read_as_their_content),
		cmocka_unit_test(damaged_compression_is_refused),
		cmocka_unit_test(bombs_are_refused),
		cmocka_unit_test(endless_sequences_are_refused),
		cmocka_unit_test(pipes_are_told_by_content),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
