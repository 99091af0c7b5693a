/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O table of a model that the user gave by its path or its address.
 */
#ifndef FP8CONV_CLI_REMOTE_H
#define FP8CONV_CLI_REMOTE_H

#include <stdint.h>

#include "base/io.h"
#include "remote/remote.h"

/* Begins zeroed. */
struct model_io {
	const struct io *io;   /* for all that the command reads and writes */
	struct remote *remote; /* NULL: the model has a path */
	uint64_t memory;       /* bytes that it reads ahead */
};

/* Opens the table for a model, with HF_TOKEN, HF_ENDPOINT and SSL_CERT_FILE of the environment.  An
 * address takes a third of max_memory (bytes), and 8 MiB at least, for what it reads ahead.
 * ERR_INPUT, ERR_SYSTEM, ERR_INTERRUPTED as of remote_open(). */
int model_io_open(struct model_io *model, const char *path, uint64_t max_memory, struct err *err);

/* Says on standard error how many bytes came from the server. */
void model_io_note(const struct model_io *model, const char *command);
void model_io_close(struct model_io *model);

#endif
