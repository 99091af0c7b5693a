/* SPDX-License-Identifier: Apache-2.0
 *
 * What a running command tells to whoever watches it, at any moment, from another thread; and the
 * one test for a signal that ends it.
 */
#ifndef FP8CONV_BASE_PROGRESS_H
#define FP8CONV_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* What the command does now. */
enum progress_phase {
	PROGRESS_WORK,	/* what it was asked for: convert, verify, inspect */
	PROGRESS_SPOOL, /* copies standard input to a temporary file */
	PROGRESS_CHECK, /* reads finished files back, for their checksums */
	PROGRESS_HASH,	/* reads inputs and outputs, for the SHA-256 of --manifest */
	PROGRESS_SEND,	/* copies the result to standard output */
};

/* done and total are bytes of this phase alone: a rate is taken from the moment when the phase
 * changes. */
struct progress {
	_Atomic enum progress_phase phase;
	_Atomic uint64_t done;
	_Atomic uint64_t total;	    /* 0: not known */
	_Atomic(const char *) name; /* of the file at hand, or NULL; outlives the watcher */
	const atomic_int *stop; /* not NULL: a signal number there ends the job at the next chunk */
};

/* A phase of `total` bytes begins, with none done and no file at hand. */
void progress_begin(struct progress *progress, enum progress_phase phase, uint64_t total);

/* Returns -1 with ERR_INTERRUPTED if *stop holds the number of a signal; stop may be NULL. */
int progress_stopped(const atomic_int *stop, struct err *err);

#endif
