/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/dataset.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/mistaken.h"
#include "dataset/steps.h"

#define MAX_TOKENS	   ((size_t)1 << 28)
#define MAX_ARRAY	   ((size_t)256 << 20) /* bytes of a compressed one */
#define CHUNK		   ((size_t)1 << 20)
#define TOKENIZER_MAX_SIZE ((size_t)256 << 20)

static size_t stride_of(const struct dataset_params *params)
{
	return params->stride ? params->stride : params->seq_len;
}

size_t dataset_needed(const struct dataset_reader *reader)
{
	const struct dataset_params *params = reader->params;
	size_t n;

	if (__builtin_mul_overflow(stride_of(params), params->max_sequences - 1, &n) ||
	    __builtin_add_overflow(n, params->seq_len, &n))
		return SIZE_MAX;
	return n;
}

bool dataset_has_enough(const struct dataset_reader *reader)
{
	const struct dataset *data = reader->data;

	return data->n ? data->n >= reader->params->max_sequences
		       : data->ids.n >= dataset_needed(reader);
}

static int check_count(const struct dataset *data, struct err *err)
{
	if (data->ids.n <= MAX_TOKENS)
		return 0;
	return err_set(err, ERR_INPUT, "the data exceeds the limit of %zu tokens: give less data",
		       MAX_TOKENS);
}

int dataset_add_id(const struct dataset_reader *reader, int64_t id, struct err *err)
{
	size_t vocab_size = reader->params->vocab_size;

	if (id < 0 || (uint64_t)id >= vocab_size)
		return err_set(err, ERR_INPUT,
			       "token id %lld is outside the range of the model (0 to %zu)",
			       (long long)id, vocab_size - 1);
	token_ids_add(&reader->data->ids, (uint32_t)id);
	return check_count(reader->data, err);
}

int dataset_add_text(const struct dataset_reader *reader, const char *text, size_t len,
		     struct err *err)
{
	const struct dataset_params *params = reader->params;
	const struct tokenizer_text whole = { text, len, true, reader->patterns };
	struct token_ids *ids = &reader->data->ids;
	size_t begin = ids->n;

	if (!params->tokenizer)
		return err_set(err, ERR_INPUT,
			       "text needs a tokenizer.json beside the model; token ids (.npy, "
			       "or 'input_ids' in .jsonl) do not");
	if (tokenizer_encode(params->tokenizer, &whole, ids, err))
		return -1;
	for (size_t i = begin; i < ids->n; i++)
		if (ids->ids[i] >= params->vocab_size)
			return err_set(
				err, ERR_INPUT,
				"the tokenizer produced token id %u, which is outside the range of "
				"the model (0 to %zu)",
				ids->ids[i], params->vocab_size - 1);
	if (ids->n > begin)
		reader->data->n_twice +=
			tokenizer_repeats(params->tokenizer, ids->ids + begin, ids->n - begin);
	return check_count(reader->data, err);
}

int dataset_begin_document(const struct dataset_reader *reader, struct err *err)
{
	if (reader->data->n)
		return err_set(err, ERR_INPUT,
			       "text cannot follow sequences of token ids ('input_ids')");
	return 0;
}

int dataset_begin_sequence(const struct dataset_reader *reader, struct err *err)
{
	if (reader->data->ids.n && !reader->data->n)
		return err_set(err, ERR_INPUT,
			       "sequences of token ids ('input_ids') cannot follow text");
	return 0;
}

void dataset_add_sequence(const struct dataset_reader *reader, size_t begin)
{
	struct dataset *data = reader->data;

	ARRAY_GROW(data->sequences, data->n);
	data->sequences[data->n++] = (struct dataset_sequence){ begin, data->ids.n - begin };
}

/* Fails for data without one sequence. */
static int refuse_short(const struct dataset *data, size_t seq_len, const struct listing *files,
			struct err *err)
{
	if (files->n == 1)
		return err_set(err, ERR_INPUT,
			       "'%s' contains %zu tokens, fewer than one sequence (%zu): give more "
			       "data or a smaller --seq-len",
			       files->items[0], data->ids.n, seq_len);
	return err_set(err, ERR_INPUT,
		       "the %zu data files contain %zu tokens, fewer than one sequence (%zu): give "
		       "more data or a smaller --seq-len",
		       files->n, data->ids.n, seq_len);
}

/* Cuts joined documents into sequences. */
static int cut(struct dataset *data, const struct dataset_params *params,
	       const struct listing *files, struct err *err)
{
	size_t seq_len = params->seq_len, stride = stride_of(params);
	size_t n = data->ids.n < seq_len ? 0 : (data->ids.n - seq_len) / stride + 1;

	if (!n)
		return refuse_short(data, seq_len, files, err);
	data->n = n < params->max_sequences ? n : params->max_sequences;
	data->sequences = xcalloc(data->n, sizeof *data->sequences);
	for (size_t i = 0; i < data->n; i++)
		data->sequences[i] = (struct dataset_sequence){ i * stride, seq_len };
	data->ids.n = (data->n - 1) * stride + seq_len;
	return 0;
}

/* Returns the first byte at or after *i that is not white space; 0 at the end. */
static char first_char(const struct stream *stream, size_t *i)
{
	static const char blanks[] = { ' ', '\t', '\r', '\n' };

	while (*i < stream->text.len && memchr(blanks, stream->text.data[*i], sizeof blanks))
		++*i;
	if (*i == stream->text.len)
		return 0;
	return stream->text.data[(*i)++];
}

#define DETECT_SIZE 4096

/* Detects the kind of a stream that has no extension. */
static const char *detect(struct stream *stream, struct err *err)
{
	size_t i = stream->begin;
	char first, second;

	if (stream_fill(stream, DETECT_SIZE, err))
		return NULL;
	first = first_char(stream, &i);
	second = first_char(stream, &i);
	if (first == '[' && second && strchr("{]", second))
		return ".json";
	return first == '{' && second && strchr("\"}", second) ? ".jsonl" : ".txt";
}

/* Reads an array of objects, or lines of objects. */
static int read_json(const struct dataset_reader *reader, struct stream *stream, struct err *err)
{
	size_t i = stream->begin;

	if (stream_fill(stream, DETECT_SIZE, err))
		return -1;
	return first_char(stream, &i) == '[' ? dataset_read_elements(reader, stream, err)
					     : dataset_read_lines(reader, stream, err);
}

/* Copies a compressed or piped array into memory, because arrays are read by offset. */
static int copy_array(const struct dataset_reader *reader, struct stream *stream, int fd,
		      struct err *err)
{
	const struct io *io = reader->params->io;
	uint64_t size = 0;

	for (;;) {
		size_t n = stream->text.len - stream->begin;

		size += n;
		if (size > MAX_ARRAY)
			return err_set(err, ERR_INPUT,
				       "'%s' is larger than the limit for a compressed array (%zu "
				       "bytes): decompress it first",
				       reader->path, MAX_ARRAY);
		if (io_write_full(&(struct file){ io, fd, reader->path },
				  stream->text.data + stream->begin, n, err))
			return -1;
		stream->begin = stream->text.len;
		if (stream->ended)
			return 0;
		stream_forget(stream);
		if (stream_fill(stream, CHUNK, err))
			return -1;
	}
}

static int read_copied_array(const struct dataset_reader *reader, struct stream *stream,
			     struct err *err)
{
	int fd = memfd_create("fp8conv-data", MFD_CLOEXEC), rc;

	if (fd < 0)
		return err_errno(err, "cannot allocate memory for '%s'", reader->path);
	rc = copy_array(reader, stream, fd, err);
	if (!rc)
		rc = dataset_read_npy(reader, fd, err);
	reader->params->io->close(reader->params->io, fd);
	return rc;
}

static bool is_table(const char *path)
{
	return text_ends(path, ".parquet") || text_ends(path, ".csv") || text_ends(path, ".tsv") ||
	       text_ends(path, ".arrow");
}

/* Is it a name of what is open, /dev/stdin or /dev/fd/3, and not of a file in memory? */
static bool is_descriptor(const char *path)
{
	return !strncmp(path, "/dev/", 5) && strncmp(path, "/dev/shm/", 9) != 0;
}

static int read_stream(const struct dataset_reader *reader, const char *extension,
		       struct stream *stream, struct err *err)
{
	if (!extension && stream->is_file && !stream->unpacker && !is_descriptor(reader->path))
		return err_set(err, ERR_INPUT,
			       "'%s' is not a .txt, .jsonl, .json or .npy file (also "
			       ".gz or .zst)%s",
			       reader->path,
			       is_table(reader->path)
				       ? ": convert it, as load_dataset(...).to_json(...) of the "
					 "Python package datasets does"
				       : "");
	if (!extension)
		extension = detect(stream, err);
	if (!extension)
		return -1;
	if (!strcmp(extension, ".txt"))
		return dataset_read_text(reader, stream, err);
	if (!strcmp(extension, ".jsonl"))
		return dataset_read_lines(reader, stream, err);
	if (!strcmp(extension, ".json"))
		return read_json(reader, stream, err);
	return stream->is_file && !stream->unpacker ? dataset_read_npy(reader, stream->fd, err)
						    : read_copied_array(reader, stream, err);
}

static int read_file(struct dataset_reader *reader, const char *path, struct err *err)
{
	const struct dataset_params *params = reader->params;
	struct stream stream;

	reader->path = path;
	if (stream_open(&stream, params->io, path, params->stop, err))
		return -1;
	reader->path = stream.name;
	return stream_close(&stream, read_stream(reader, dataset_extension(path), &stream, err),
			    err);
}

int dataset_tokenizer(struct tokenizer **tokenizer, const struct io *io, const char *directory,
		      struct err *err)
{
	struct buf text = { 0 };
	char *path;
	int rc = 0;

	*tokenizer = NULL;
	if (!directory)
		return 0;
	path = xasprintf("%s/tokenizer.json", directory);
	if (io_exists(io, path)) {
		rc = io_read_file(io, AT_FDCWD, path, TOKENIZER_MAX_SIZE, &text, err);
		rc = rc ? rc : mistaken_text(path, &text, err);
		rc = rc ? rc : tokenizer_new(tokenizer, &text, path, err);
	}
	buf_release(&text);
	free(path);
	return rc;
}

int dataset_open(struct dataset *data, const struct dataset_params *params, struct err *err)
{
	struct regex_work patterns = { .stop = params->stop };
	struct dataset_reader reader = { .data = data, .params = params, .patterns = &patterns };
	struct listing files = { 0 };
	int rc;

	*data = (struct dataset){ 0 };
	rc = dataset_list(params, &files, err);
	for (size_t i = 0; !rc && i < files.n && !(i && dataset_has_enough(&reader)); i++)
		rc = read_file(&reader, files.items[i], err);
	if (!rc && !data->n)
		rc = cut(data, params, &files, err);
	listing_release(&files);
	if (rc)
		dataset_release(data);
	return rc;
}

int dataset_append(struct dataset *data, struct dataset *from, struct err *err)
{
	data->sequences =
		xreallocarray(data->sequences, data->n + from->n, sizeof *data->sequences);
	for (size_t i = 0; i < from->n; i++) {
		struct dataset_sequence moved = { data->ids.n, from->sequences[i].len };

		for (size_t t = 0; t < moved.len; t++)
			token_ids_add(&data->ids, from->ids.ids[from->sequences[i].begin + t]);
		data->sequences[data->n++] = moved;
	}
	data->n_chats += from->n_chats;
	data->n_twice += from->n_twice;
	if (!data->invalid_name) {
		data->invalid_name = from->invalid_name;
		data->invalid_byte = from->invalid_byte;
		from->invalid_name = NULL;
	}
	dataset_release(from);
	return check_count(data, err);
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

void dataset_sha256(const struct dataset *data, char text[SHA256_HEX])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)data->ids.ids, data->ids.n * sizeof *data->ids.ids, digest);
	text_hex(text, digest, sizeof digest);
}

void dataset_release(struct dataset *data)
{
	token_ids_release(&data->ids);
	free(data->sequences);
	free(data->invalid_name);
	*data = (struct dataset){ 0 };
}
