/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of torch.save().  The input is a pickle alone where it begins with 'p', else an archive
 * behind its first byte.  No tensor that is read lies outside of the file.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "torch/archive.h"

static bool knows(const char *global)
{
	return strlen(global) % 2;
}

static void check_error(const struct err *err)
{
	fuzz_check_error(err);
	FUZZ_CHECK(err->kind == ERR_INPUT);
}

static void read_pickle(const uint8_t *data, size_t size)
{
	struct pickle pickle;
	struct err err;

	if (pickle_read(&pickle, &(struct pickle_text){ "fuzz", data, size }, knows, &err))
		check_error(&err);
	else
		pickle_get(pickle.top, "model");
	pickle_release(&pickle);
}

/* Each element lies in the file, whatever the strides. */
static void check_tensor(const struct torch_tensor *tensor, uint64_t size)
{
	uint64_t last = tensor->at + dtype_bits(tensor->dtype) / 8;

	for (int i = 0; i < tensor->n_dims; i++) {
		if (!tensor->shape[i])
			return;
		last += (tensor->shape[i] - 1) * tensor->strides[i];
	}
	FUZZ_CHECK(last <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct archive archive;
	struct err err;
	struct file file = { &io_system, 0, "fuzz" };

	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CHECK(fd >= 0);
	if (!size)
		return 0;
	if (data[0] == 'p') {
		read_pickle(data + 1, size - 1);
		return 0;
	}
	FUZZ_CHECK(!ftruncate(fd, 0) && pwrite(fd, data + 1, size - 1, 0) == (ssize_t)(size - 1));
	file.fd = fd;
	if (archive_read(&archive, &(struct archive_place){ &file, 0, size - 1 }, &err))
		check_error(&err);
	for (size_t i = 0; i < archive.n; i++)
		check_tensor(&archive.tensors[i], size - 1);
	archive_release(&archive);
	return 0;
}
