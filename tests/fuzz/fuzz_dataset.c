/* SPDX-License-Identifier: Apache-2.0
 *
 * dataset_open() on one file: the input is a byte that names its kind, one for the lengths, and the
 * file.  What is read is drawn from, and appended to what is read again.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "dataset/dataset.h"
#include "tests/fuzz/fuzz.h"

#define VOCAB_SIZE 300

static const char *const kinds[] = {
	"jsonl",     "json",	"txt",	   "npy",      "npy.gz",   "txt.gz",
	"jsonl.zst", "json.gz", "npy.zst", "json.zst", "jsonl.gz",
};

static const char tokenizer_text[] =
	"{\"added_tokens\":[{\"id\":4,\"content\":\"<c>\",\"single_word\":false,\"lstrip\":false,"
	"\"rstrip\":true,\"normalized\":false,\"special\":true}],\"pre_tokenizer\":{\"type\":"
	"\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},\"model\":{\"type\":\"BPE\","
	"\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"c\":3,\"<c>\":4},\"merges\":[\"a b\"]}}";

static struct tokenizer *tokenizer_make(void)
{
	struct tokenizer *tokenizer;
	struct buf text = { 0 };
	struct err err = { 0 };

	buf_puts(&text, tokenizer_text);
	FUZZ_CHECK(!tokenizer_new(&tokenizer, &text, "tokenizer.json", &err));
	buf_release(&text);
	return tokenizer;
}

static void check_sequences(const struct dataset *data, size_t max)
{
	FUZZ_CHECK(data->n >= 1 && data->n <= max);
	for (size_t i = 0; i < data->n; i++) {
		const struct dataset_sequence *sequence = &data->sequences[i];

		FUZZ_CHECK(sequence->len >= 1 && sequence->begin + sequence->len <= data->ids.n);
		for (size_t t = 0; t < sequence->len; t++)
			FUZZ_CHECK(data->ids.ids[sequence->begin + t] < VOCAB_SIZE);
	}
}

static void look(struct dataset *data, const struct dataset_params *params)
{
	struct dataset again;
	struct err err = { 0 };
	size_t n = data->n;

	check_sequences(data, params->max_sequences);
	FUZZ_CHECK(!dataset_open(&again, params, &err));
	FUZZ_CHECK(again.n == n && again.ids.n == data->ids.n);
	FUZZ_CHECK(!dataset_append(data, &again, &err) && data->n == 2 * n);
	check_sequences(data, SIZE_MAX);
	dataset_draw(data, 7, 2);
	check_sequences(data, 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tokenizer *tokenizer;
	struct dataset_params params = { .io = fuzz_io(), .n_paths = 1, .vocab_size = VOCAB_SIZE };
	struct dataset set;
	struct err err = { 0 };
	char *path;
	int fd;

	if (size < 2)
		return 0;
	if (!tokenizer)
		tokenizer = tokenizer_make();
	path = xasprintf("%s/d.%s", fuzz_folder(), kinds[data[0] % (sizeof kinds / sizeof *kinds)]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data + 2, size - 2) == (ssize_t)(size - 2));
	close(fd);
	params.paths = (const char *const *)&path;
	params.tokenizer = data[1] & 64 ? NULL : tokenizer;
	params.seq_len = 1 + data[1] % 5;
	params.stride = data[1] / 5 % 4;
	params.max_sequences = data[1] & 128 ? 3 : SIZE_MAX;
	if (dataset_open(&set, &params, &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT && !set.n && !set.ids.n);
	} else {
		look(&set, &params);
	}
	dataset_release(&set);
	free(path);
	return 0;
}
