/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of torch.save().  The input is a pickle alone where it begins with 'p', a state of
 * TransformerEngine where it begins with 's', the .metadata of a distributed checkpoint where it
 * begins with 'd', else an archive behind its first byte.  No tensor that is read lies outside of
 * the file.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "torch/archive.h"
#include "torch/distcp.h"
#include "torch/te_state.h"

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

static void read_state(const uint8_t *data, size_t size)
{
	struct te_state state;
	struct err err;

	if (te_state_read(&state, &(struct pickle_text){ "fuzz", data, size }, &err))
		check_error(&err);
	else
		for (size_t i = 0; i < state.n_rows * state.n_columns; i++)
			FUZZ_CHECK(state.history[i] >= 0 && state.scale[i % state.n_columns] >= 0);
	te_state_release(&state);
}

static void read_metadata(const uint8_t *data, size_t size)
{
	struct distcp distcp;
	struct err err;

	if (distcp_read(&distcp, &(struct pickle_text){ "fuzz", data, size }, &err))
		check_error(&err);
	for (size_t i = 0; i < distcp.n; i++)
		FUZZ_CHECK(distcp.slices[i].name[0] && !strchr(distcp.slices[i].file, '/'));
	distcp_release(&distcp);
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
	if (data[0] == 'p' || data[0] == 's' || data[0] == 'd') {
		(data[0] == 'p'	  ? read_pickle
		 : data[0] == 's' ? read_state
				  : read_metadata)(data + 1, size - 1);
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
