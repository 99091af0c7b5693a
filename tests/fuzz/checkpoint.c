/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint on disk from a few lines of text.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/safetensors.h"
#include "tests/fuzz/fuzz.h"

#define MOST_DATA (192u << 10) /* bytes a file: an execution must stay short */
#define MOST_DIMS 8

/* One file in the making. */
struct shard {
	size_t n_tensors;
	struct st_tensor *tensors;
	uint64_t bytes;
};

struct written {
	int dir;
	struct json_text pattern;
	struct buf index;
	size_t n_shards;
};

static void write_file(int dir, const char *name, const void *data, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, n) == (ssize_t)n);
	close(fd);
}

static void add_data(struct buf *file, struct json_text pattern, uint64_t n)
{
	static const struct json_text ones = { "\x80\x3f", 2 };

	if (!pattern.len)
		pattern = ones;
	for (; n > pattern.len; n -= pattern.len)
		buf_add(file, pattern.data, pattern.len);
	buf_add(file, pattern.data, (size_t)n);
}

/* "NAME TYPE DIM DIM" to a tensor; false where it is none, or one too large. */
static bool line_tensor(const char *line, struct st_tensor *tensor, uint64_t *bytes)
{
	const char *type = strchr(line, ' ');
	size_t n_type = type ? strcspn(type + 1, " ") : 0;
	const char *at = type ? type + 1 + n_type : line;
	uint64_t bits;

	if (!type || !dtype_from_name(&tensor->dtype, type + 1, n_type))
		return false;
	bits = dtype_bits(tensor->dtype);
	while (*at == ' ' && tensor->n_dims < MOST_DIMS) {
		char *end;
		uint64_t dim = strtoull(at, &end, 10);

		if (end == at || __builtin_mul_overflow(bits, dim, &bits))
			return false;
		tensor->shape[tensor->n_dims++] = dim;
		at = end;
	}
	*bytes = bits / 8;
	return !*at && bits % 8 == 0;
}

static void shard_add(struct shard *shard, const char *line)
{
	uint64_t shape[MOST_DIMS], bytes;
	struct st_tensor tensor = { .shape = shape };

	if (!line_tensor(line, &tensor, &bytes) || bytes > MOST_DATA - shard->bytes)
		return;
	tensor.shape = xcalloc(MOST_DIMS, sizeof *shape);
	memcpy(tensor.shape, shape, (size_t)tensor.n_dims * sizeof *shape);
	tensor.name = xstrndup(line, strcspn(line, " "));
	shard->bytes += bytes;
	ARRAY_GROW(shard->tensors, shard->n_tensors);
	shard->tensors[shard->n_tensors++] = tensor;
}

static void index_add(struct written *written, const struct shard *shard, const char *file)
{
	for (size_t i = 0; i < shard->n_tensors; i++) {
		buf_puts(&written->index, written->index.len ? "," : "{\"weight_map\":{");
		config_add_json_string(&written->index, shard->tensors[i].name,
				       strlen(shard->tensors[i].name));
		buf_printf(&written->index, ":\"%s\"", file);
	}
}

/* Writes the shard, and empties it. */
static void shard_write(struct written *written, struct shard *shard)
{
	char *name = xasprintf("model-%zu.safetensors", ++written->n_shards);
	struct buf file = { 0 };
	uint64_t header_size, n;

	st_layout(shard->tensors, shard->n_tensors, NULL, 0, &header_size, &n);
	st_header(shard->tensors, shard->n_tensors, NULL, 0, &file);
	add_data(&file, written->pattern, n);
	write_file(written->dir, name, file.data, file.len);
	index_add(written, shard, name);
	buf_release(&file);
	free(name);
	for (size_t i = 0; i < shard->n_tensors; i++) {
		free(shard->tensors[i].name);
		free(shard->tensors[i].shape);
	}
	free(shard->tensors);
	*shard = (struct shard){ 0 };
}

static void write_shards(struct written *written, struct json_text lines)
{
	const char *end = lines.data + lines.len;
	struct shard shard = { 0 };

	for (const char *at = lines.data; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		char *line = xstrndup(at, (size_t)((newline ? newline : end) - at));

		if (strcmp(line, "/") != 0)
			shard_add(&shard, line);
		else
			shard_write(written, &shard);
		free(line);
		at = newline ? newline + 1 : end;
	}
	shard_write(written, &shard);
	if (written->n_shards > 1 && written->index.len) {
		buf_puts(&written->index, "}}");
		write_file(written->dir, "model.safetensors.index.json", written->index.data,
			   written->index.len);
	}
	buf_release(&written->index);
}

/* As many data as the header may speak of: up to the largest end that it names. */
static uint64_t data_wanted(struct json_text header)
{
	static const char key[] = "\"data_offsets\":[";
	const char *at = header.data, *end = header.data + header.len;
	uint64_t most = 0;

	while ((at = memmem(at, (size_t)(end - at), key, strlen(key)))) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		uint64_t n = comma ? strtoull(comma + 1, NULL, 10) : 0;

		if (n > most && n <= MOST_DATA)
			most = n;
		at += strlen(key);
	}
	return most;
}

static void write_header(struct written *written, struct json_text header)
{
	char *text = xstrndup(header.data, header.len); /* ends in a NUL, for strtoull() */
	struct buf file = { 0 };
	uint64_t n = header.len;

	for (int i = 0; i < 8; i++)
		buf_putc(&file, (char)(n >> 8 * i));
	buf_add(&file, header.data, header.len);
	add_data(&file, written->pattern, data_wanted((struct json_text){ text, strlen(text) }));
	write_file(written->dir, "model.safetensors", file.data, file.len);
	buf_release(&file);
	free(text);
}

void fuzz_checkpoint_write(const char *folder, const struct fuzz_checkpoint *checkpoint)
{
	struct written written = { .dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				   .pattern = checkpoint->pattern };

	FUZZ_CHECK(written.dir >= 0);
	if (checkpoint->config.len)
		write_file(written.dir, "config.json", checkpoint->config.data,
			   checkpoint->config.len);
	if (checkpoint->hf_quant_config.len)
		write_file(written.dir, "hf_quant_config.json", checkpoint->hf_quant_config.data,
			   checkpoint->hf_quant_config.len);
	if (checkpoint->tensors.len && checkpoint->tensors.data[0] == '{')
		write_header(&written, checkpoint->tensors);
	else
		write_shards(&written, checkpoint->tensors);
	close(written.dir);
}
