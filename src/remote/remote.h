/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on a server as files: a table of I/O above another one.  Paths that begin with the
 * address, and files that were opened by them, are on the server; all else goes to the table below.
 * The files can be read only.
 *
 * Order: remote_open(); remote_io() for anything that reads the model at its address;
 * remote_close(), also after a failure.
 *
 * What is read of a file that nobody reads in order (a header) comes as it is asked for, so that
 * looking at a model costs little.  A reader that says POSIX_FADV_SEQUENTIAL gets large blocks,
 * which are read ahead (blocks.h).
 *
 * A file is known by its name, its size and its version on the server; the modification time is
 * made of these, so that a job is resumed if and only if they are the same.
 */
#ifndef FP8CONV_REMOTE_REMOTE_H
#define FP8CONV_REMOTE_REMOTE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/io.h"

struct remote;

/* The texts must outlive the remote. */
struct remote_params {
	const char *address;	/* http(s)://..., hf://ORG/NAME[@REV] */
	const char *endpoint;	/* of the Hub */
	const char *token;	/* for the endpoint only; NULL or "": none */
	const char *token_name; /* of the variable or the file that it is from */
	const char *ca_file;	/* certificates to trust; NULL: the system's */
	uint64_t memory;	/* bytes for blocks that are read ahead */
	int retry_time;		/* seconds for which a server that does not answer is tried again */
	/* Says that this is done, once until the next answer; any thread; NULL: nobody does. */
	void (*tell)(const char *url, const char *reason, double seconds);
	uint64_t now;		/* any number that no other run has */
	const atomic_int *stop; /* a signal number in it ends every read */
};

/* Is the text an address, not a path? */
bool remote_is_address(const char *path);

/* Splits hf://ORG/NAME[@REV] into repo and revision, which the caller frees; false, with NULL in
 * both, for any other text. */
bool remote_split_hub(const char *address, char **repo, char **revision);

/* Returns hf://ORG/NAME[@REV] for the address of a page of the Hub, as a browser shows it: the
 * model's, that of a revision (/tree/REV) or of a file (/blob/REV/...), with or without a query.
 * The caller frees it; NULL: it is no such address. */
char *remote_hub_page(const char *address, const char *endpoint);

/* Lists the files.  ERR_INPUT, ERR_SYSTEM (also without libcurl), ERR_INTERRUPTED. */
int remote_open(struct remote **remote, const struct io *below, const struct remote_params *params,
		struct err *err);
const struct io *remote_io(const struct remote *remote);

/* Returns the bytes that came from the server so far, all answers together. */
uint64_t remote_bytes(const struct remote *remote);

/* Returns the address of a file of several ranges that the server gives neither an ETag nor a date,
 * so that nothing proves that all ranges are of one version of it; NULL where there is none. */
const char *remote_unversioned(const struct remote *remote);

/* Takes NULL too. */
void remote_close(struct remote *remote);

#endif
