/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a running command, which another thread may read at any moment; and the one test
 * for a signal that ends the command.
 */
#ifndef FP8CONV_BASE_PROGRESS_H
#define FP8CONV_BASE_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* The activity of the command. */
enum progress_phase {
	PROGRESS_WORK,	/* the job itself: convert, verify, inspect */
	PROGRESS_ROUND, /* finds codes with compensated errors */
	PROGRESS_SPOOL, /* copies standard input to a temporary file */
	PROGRESS_CHECK, /* reads finished files again, for their checksums */
	PROGRESS_HASH,	/* reads inputs and outputs, for the SHA-256 of --manifest */
	PROGRESS_SEND,	/* copies the result to standard output */
};

/* done and total are bytes of this phase alone.  A rate is measured from the change of the
 * phase. */
struct progress {
	_Atomic enum progress_phase phase;
	_Atomic uint64_t done;
	_Atomic uint64_t total;	    /* 0: unknown */
	_Atomic(const char *) name; /* of the current file, or NULL; outlives the reader */
	_Atomic bool syncing;	    /* all bytes are written, and the storage has to store them */
	const atomic_int
		*stop; /* if not NULL, a signal number in it ends the job at the next chunk */
};

/* Begins a phase of `total` bytes, with done 0 and no current file. */
static inline void progress_begin(struct progress *progress, enum progress_phase phase,
				  uint64_t total)
{
	atomic_store(&progress->name, NULL);
	atomic_store(&progress->syncing, false);
	atomic_store(&progress->total, total);
	atomic_store(&progress->done, 0);
	atomic_store(&progress->phase, phase);
}

/* Returns -1 with ERR_INTERRUPTED if *stop holds the number of a signal; stop may be NULL. */
static inline int progress_stopped(const atomic_int *stop, struct err *err)
{
	int number = stop ? atomic_load(stop) : 0;

	if (number)
		return err_set(err, ERR_INTERRUPTED, "interrupted by signal %d", number);
	return 0;
}

#endif
