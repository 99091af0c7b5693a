/* SPDX-License-Identifier: Apache-2.0
 *
 * delta_open(), and the frames of the changes: the input is the JSON of `about`, a NUL byte, the
 * header of a weight file, a NUL byte, and rows of the table, each followed by the bytes of its
 * frame.  What is compressed in a file is compressed here, so that mutations reach what is in it.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/mem.h"
#include "delta/delta.h"
#include "tests/fuzz/fuzz.h"

static void add_frame(struct buf *out, const void *data, size_t n)
{
	size_t room = ZSTD_compressBound(n);

	buf_reserve(out, room);
	out->len += ZSTD_compress(out->data + out->len, room, data, n, 1);
}

/* Adds the text, with the size of the header's frame in place of each '@'. */
static void add_about(struct buf *out, struct json_text about, size_t frame)
{
	struct buf text = { 0 };

	for (size_t i = 0; i < about.len; i++) {
		if (about.data[i] == '@')
			buf_u64(&text, frame);
		else
			buf_putc(&text, about.data[i]);
	}
	add_frame(out, text.data, text.len);
	buf_release(&text);
}

/* Adds rows of 20 bytes to the table and what follows each to the changes, as a frame. */
static void add_rows(const uint8_t *data, size_t size, struct buf *table, struct buf *changes)
{
	while (size >= CHUNK_ROW_SIZE) {
		uint32_t row[5];
		size_t n, begin = changes->len;

		memcpy(row, data, sizeof row);
		data += sizeof row;
		size -= sizeof row;
		n = row[4] % 256 < size ? row[4] % 256 : size;
		add_frame(changes, data, n);
		row[4] = htole32((uint32_t)(changes->len - begin));
		buf_add(table, row, sizeof row);
		data += n;
		size -= n;
	}
}

static void write_file(const char *path, const struct buf parts[4])
{
	static const char hex[] =
		"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	const char *const names[] = { "changes", "texts", "about" };
	struct buf header = { 0 };
	uint64_t at = 0, n;
	FILE *file = fopen(path, "w");

	buf_printf(&header,
		   "{\"__metadata__\":{\"format\":\"" DELTA_FORMAT
		   "\",\"base\":\"%s\",\"result\":\"%s\"}",
		   hex, hex);
	for (int i = 0; i < 3; at += parts[i++].len)
		buf_printf(&header,
			   ",\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[%zu,%zu]}",
			   names[i], parts[i].len, (size_t)at, (size_t)at + parts[i].len);
	buf_printf(&header,
		   ",\"table\":{\"dtype\":\"U32\",\"shape\":[%zu,5],\"data_offsets\":[%zu,%zu]}}",
		   parts[3].len / CHUNK_ROW_SIZE, (size_t)at, (size_t)at + parts[3].len);
	n = htole64(header.len);
	FUZZ_CHECK(file);
	fwrite(&n, 1, sizeof n, file);
	fwrite(header.data, 1, header.len, file);
	for (int i = 0; i < 4; i++)
		if (parts[i].len)
			fwrite(parts[i].data, 1, parts[i].len, file);
	FUZZ_CHECK(!fclose(file));
	buf_release(&header);
}

/* Decodes each row over zeros. */
static void decode_rows(const struct delta_file *delta)
{
	struct chunk_coder coder;
	struct err err = { 0 };
	uint8_t *data = calloc(CHUNK_SIZE, 1);

	FUZZ_CHECK(data && !chunk_coder_init(&coder, &err));
	for (size_t i = 0; i < delta->n_rows; i++) {
		const struct chunk_row *row = &delta->rows[i];
		const struct st_tensor *tensor = delta->tensors[row->tensor].tensor;
		uint64_t left = st_tensor_size(tensor) - (uint64_t)row->chunk * CHUNK_SIZE;

		FUZZ_CHECK(!io_pread_full(&delta->file, coder.frame, row->size, delta->offsets[i],
					  &err));
		chunk_decode(&coder, row, chunk_element_size(tensor->dtype), data,
			     left < CHUNK_SIZE ? (size_t)left : CHUNK_SIZE, &err);
	}
	chunk_coder_release(&coder);
	free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text about = fuzz_part(&data, &size), text = fuzz_part(&data, &size);
	struct buf parts[4] = { { 0 } }, header = { 0 };
	uint64_t n = htole64(text.len);
	char *path = xasprintf("%s/D.safetensors", fuzz_folder());
	struct delta_file delta;
	struct err err = { 0 };

	buf_add(&header, &n, sizeof n);
	buf_add(&header, text.data, text.len);
	add_frame(&parts[1], header.data, header.len);
	add_about(&parts[2], about, parts[1].len);
	add_rows(data, size, &parts[3], &parts[0]);
	write_file(path, parts);
	if (!delta_open(&delta, fuzz_io(), path, &err)) {
		decode_rows(&delta);
		delta_release(&delta);
	} else {
		fuzz_check_error(&err);
	}
	free(path);
	buf_release(&header);
	for (int i = 0; i < 4; i++)
		buf_release(&parts[i]);
	return 0;
}
