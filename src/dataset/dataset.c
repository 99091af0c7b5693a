/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/dataset.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dataset/steps.h"

size_t dataset_wanted(const struct dataset_reader *reader)
{
	size_t n;

	return __builtin_mul_overflow(reader->seq_len, reader->max_sequences, &n) ? SIZE_MAX : n;
}

int dataset_add_id(const struct dataset_reader *reader, int64_t id, struct err *err)
{
	if (id < 0 || (uint64_t)id >= reader->vocab_size)
		return err_set(err, ERR_INPUT,
			       "token id %lld is not from 0 to %zu, the last of the model",
			       (long long)id, reader->vocab_size - 1);
	token_ids_add(&reader->data->ids, (uint32_t)id);
	return 0;
}

int dataset_add_text(const struct dataset_reader *reader, const char *text, size_t len,
		     struct err *err)
{
	struct token_ids *ids = &reader->data->ids;
	size_t begin = ids->n;

	if (!reader->tokenizer)
		return err_set(
			err, ERR_INPUT,
			"it holds text, and the model has no tokenizer.json; give token ids (.npy, "
			".safetensors, or .jsonl with 'input_ids')");
	if (tokenizer_encode(reader->tokenizer, text, len, true, ids, err))
		return -1;
	for (size_t i = begin; i < ids->n; i++)
		if (ids->ids[i] >= reader->vocab_size)
			return err_set(err, ERR_INPUT,
				       "the tokenizer gives token id %u, which is not from 0 to "
				       "%zu, the last of the model",
				       ids->ids[i], reader->vocab_size - 1);
	return 0;
}

void dataset_add_sequence(const struct dataset_reader *reader, size_t begin)
{
	struct dataset *data = reader->data;

	ARRAY_GROW(data->sequences, data->n);
	data->sequences[data->n++] = (struct dataset_sequence){ begin, data->ids.n - begin };
}

/* Joined documents into sequences. */
static int cut(const struct dataset_reader *reader, struct err *err)
{
	struct dataset *data = reader->data;
	size_t n = data->ids.n / reader->seq_len;

	if (!n)
		return err_set(err, ERR_INPUT,
			       "'%s' holds %zu tokens, fewer than one sequence (%zu)", reader->path,
			       data->ids.n, reader->seq_len);
	data->n = n < reader->max_sequences ? n : reader->max_sequences;
	data->sequences = xcalloc(data->n, sizeof *data->sequences);
	for (size_t i = 0; i < data->n; i++)
		data->sequences[i] =
			(struct dataset_sequence){ i * reader->seq_len, reader->seq_len };
	data->ids.n = data->n * reader->seq_len;
	return 0;
}

static const struct {
	const char *extension;
	int (*read)(const struct dataset_reader *reader, struct err *err);
} types[] = {
	{ ".txt", dataset_read_txt },
	{ ".jsonl", dataset_read_jsonl },
	{ ".npy", dataset_read_npy },
	{ ".safetensors", dataset_read_safetensors },
};

static int read_file(const struct dataset_reader *reader, struct err *err)
{
	size_t len = strlen(reader->path);

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		size_t n = strlen(types[i].extension);

		if (len > n && !strcmp(reader->path + len - n, types[i].extension))
			return types[i].read(reader, err);
	}
	return err_set(err, ERR_INPUT, "'%s' is no .txt, .jsonl, .npy or .safetensors file",
		       reader->path);
}

int dataset_open(struct dataset *data, const struct io *io, const char *path,
		 const struct tokenizer *tokenizer, size_t seq_len, size_t vocab_size,
		 size_t max_sequences, struct err *err)
{
	const struct dataset_reader reader = { data,	io,	    path,	  tokenizer,
					       seq_len, vocab_size, max_sequences };

	*data = (struct dataset){ 0 };
	if (read_file(&reader, err) || (!data->n && cut(&reader, err))) {
		dataset_release(data);
		return -1;
	}
	return 0;
}

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

void dataset_draw(struct dataset *data, uint64_t seed, size_t n)
{
	for (size_t i = data->n - 1; i > 0; i--) {
		size_t j = splitmix64(&seed) % (i + 1);
		struct dataset_sequence drawn = data->sequences[j];

		data->sequences[j] = data->sequences[i];
		data->sequences[i] = drawn;
	}
	if (n < data->n)
		data->n = n;
}

void dataset_release(struct dataset *data)
{
	token_ids_release(&data->ids);
	free(data->sequences);
	*data = (struct dataset){ 0 };
}
