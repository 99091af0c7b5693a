/* SPDX-License-Identifier: Apache-2.0
 *
 * The I/O table of models that the user gave by their paths or their addresses.
 */
#ifndef FP8CONV_CLI_REMOTE_H
#define FP8CONV_CLI_REMOTE_H

#include <stdint.h>

#include "base/io.h"
#include "cli/options/run.h"
#include "remote/remote.h"

/* Begins zeroed. */
struct model_io {
	const struct io *io;	   /* for all that the command reads and writes */
	struct remote *remotes[2]; /* of the model and of its source; NULL: it has a path */
	uint64_t memory;	   /* bytes that they read ahead */
	char *paths[2];		   /* in place of the given ones; NULL: as given */
	char *token, *token_name;  /* NULL: none */
};

/* Opens the table for a model and the one that it was made of (both, or what they point to, may be
 * NULL), with the variables of fp8conv-remote(7) and the token of `hf auth login`.  A page of the
 * Hub becomes its hf:// address, and a revision that the Hub's cache on this machine has whole the
 * directory of its snapshot, which a note says: *path and *source point to `model` then.  Addresses
 * share a third of run->max_memory (0: of 192 MiB) for what they read ahead; each has 8 MiB at
 * least.  ERR_INPUT, ERR_SYSTEM, ERR_INTERRUPTED as of remote_open(). */
int model_io_open(struct model_io *model, const char **path, const char **source,
		  const struct run_settings *run, struct err *err);

/* Returns what is left of max_memory (bytes) for the command; 0, its default, stays 0. */
uint64_t model_io_rest(const struct model_io *model, uint64_t max_memory);

/* Says on standard error how many bytes came from the server. */
void model_io_note(const struct model_io *model);
void model_io_close(struct model_io *model);

#endif
