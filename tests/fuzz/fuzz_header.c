/* SPDX-License-Identifier: Apache-2.0
 *
 * st_open_fd().  The input is a whole file where it begins with 'r'; else two bytes say how many
 * data there are, and the rest is the header's JSON, whose length is then right.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void write_at(int fd, const void *data, size_t n, off_t offset)
{
	FUZZ_CHECK(pwrite(fd, data, n, offset) == (ssize_t)n);
}

static void fill(int fd, const uint8_t *data, size_t size)
{
	uint64_t n;

	FUZZ_CHECK(!ftruncate(fd, 0));
	if (size < 2)
		return;
	if (data[0] == 'r') {
		write_at(fd, data + 1, size - 1, 0);
		return;
	}
	n = htole64(size - 2);
	write_at(fd, &n, 8, 0);
	write_at(fd, data + 2, size - 2, 8);
	FUZZ_CHECK(!ftruncate(fd, (off_t)(8 + size - 2 + (size_t)(data[0] | data[1] << 8))));
}

/* What was read can be laid out anew, and that is read too. */
static void check_layout(const struct st_file *file)
{
	struct st_tensor *tensors = xcalloc(file->n_tensors, sizeof *tensors);
	struct st_file again = { 0 };
	struct buf header = { 0 };
	struct err err;
	uint64_t header_size, n;

	if (file->n_tensors)
		memcpy(tensors, file->tensors, file->n_tensors * sizeof *tensors);
	st_layout(tensors, file->n_tensors, file->metadata, file->n_metadata, &header_size, &n);
	st_header(tensors, file->n_tensors, file->metadata, file->n_metadata, &header);
	FUZZ_CHECK(header.len == header_size);
	FUZZ_CHECK(!st_parse_header(&again, header.data + 8, header.len - 8, header.len + n, &err));
	FUZZ_CHECK(again.n_tensors == file->n_tensors && again.n_metadata == file->n_metadata);
	for (size_t i = 0; i < file->n_tensors; i++) {
		const struct st_tensor *a = file->by_name[i];
		const struct st_tensor *b = again.by_name[i];

		FUZZ_CHECK(!strcmp(a->name, b->name) && a->dtype == b->dtype);
		FUZZ_CHECK(st_tensor_size(a) == st_tensor_size(b) && a->n_dims == b->n_dims);
	}
	st_release(&again);
	buf_release(&header);
	free(tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct st_file file;
	struct err err;

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	fill(fd, data, size);
	if (st_open_fd(&file, &io_system, fd, "fuzz", &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT);
		return 0;
	}
	check_layout(&file);
	st_release(&file);
	return 0;
}
