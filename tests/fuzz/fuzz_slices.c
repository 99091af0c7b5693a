/* SPDX-License-Identifier: Apache-2.0
 *
 * The files of two ranks: the input has the bytes of data of each file, as two little-endian
 * numbers of two bytes, and their headers with a NUL byte between.  What opens can be read: each
 * byte of a tensor lies in a file.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "source/source.h"
#include "tests/fuzz/fuzz.h"

#define MOST_READ 65536 /* bytes of a tensor */

static void write_rank(const char *folder, int rank, struct json_text header, size_t n)
{
	char *path = xasprintf("%s/shard-%05d-model-00001-of-00001.safetensors", folder, rank);
	size_t size = 8 + header.len + n;
	unsigned char *data = xcalloc(size, 1);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (int i = 0; i < 8; i++)
		data[i] = (unsigned char)(header.len >> 8 * i);
	memcpy(data + 8, header.data, header.len);
	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && !close(fd));
	free(data);
	free(path);
}

static void read_tensors(const struct checkpoint *checkpoint)
{
	char *data = xmalloc(MOST_READ);
	struct source source;
	struct err err;

	source_init(&source, fuzz_io(), checkpoint, NULL, -1);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->tensors[i];
		uint64_t n = st_tensor_size(ref->tensor);
		size_t part = n < MOST_READ ? (size_t)n : MOST_READ;

		FUZZ_CHECK(!source_read_bytes(&source, ref, n - part, part, data, &err));
	}
	FUZZ_CHECK(!source_close(&source, 0, &err));
	source_release(&source);
	free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *folder = fuzz_folder();
	struct checkpoint checkpoint;
	struct json_text header;
	size_t n[2];
	struct err err;

	if (size < 4)
		return 0;
	n[0] = data[0] | (size_t)data[1] << 8;
	n[1] = data[2] | (size_t)data[3] << 8;
	data += 4;
	size -= 4;
	for (int rank = 0; rank < 2; rank++) {
		header = fuzz_part(&data, &size);
		write_rank(folder, rank + 1, header, n[rank]);
	}
	if (checkpoint_open(&checkpoint, fuzz_io(), folder, 1, &err)) {
		fuzz_check_error(&err);
		FUZZ_CHECK(err.kind == ERR_INPUT);
		return 0;
	}
	read_tensors(&checkpoint);
	checkpoint_release(&checkpoint);
	return 0;
}
