/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of a file on a server: redirects, retries, and the proof that all ranges are of one file.
 *
 * The first answer fixes the size and the version (ETag, else Last-Modified).  Every later answer
 * must have the same, so that a file that changes on the server ends the job.
 */
#ifndef FP8CONV_REMOTE_RANGE_H
#define FP8CONV_REMOTE_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "remote/request.h"

/* A file on a server.  Begins with name, url, and what a list says of it. */
struct remote_file {
	char *name; /* from the address on: "tokenizer.json", "original/params.json" */
	char *url;
	bool is_there;	/* else the server has no such file */
	bool has_size;	/* size is known */
	bool is_pinned; /* the URL names a revision whose contents never change */
	uint64_t size;	/* bytes */
	char *resolved; /* URL to which redirects lead; NULL: not known yet */
	char *version;	/* of the first answer; NULL: none came yet */
	char *head;	/* the first n_head bytes */
	size_t n_head;
	bool is_begun; /* blocks were read ahead from its start */
};

/* Bytes at the start of a file that come with the first request: most headers are shorter. */
#define RANGE_HEAD ((size_t)16 << 10)

/* Reads the head of the file, if it is not there yet, and with it the size.  A file that the server
 * does not have (404, 410) gets is_there false.  No other thread may use the file meanwhile.
 * ERR_INPUT, ERR_SYSTEM, ERR_INTERRUPTED. */
int range_head(struct client *client, struct remote_file *file, struct err *err);

/* Reads exactly n bytes, which the file has, at offset first.  Any thread. */
int range_read(struct client *client, struct remote_file *file, uint64_t first, size_t n,
	       char *data, struct err *err);

/* Reads a whole text, such as a list of the Hub, of at most limit bytes.  ERR_INPUT, with the
 * status, where the server has none. */
int range_text(struct client *client, const char *url, size_t limit, struct buf *text,
	       struct err *err);

void remote_file_release(struct remote_file *file);

#endif
