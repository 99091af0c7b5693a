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

struct progress {
	_Atomic uint64_t done;	/* source bytes */
	_Atomic uint64_t total; /* source bytes; 0 until known */
	_Atomic size_t shard;	/* index in the plan's shards */
	const atomic_int *stop; /* not NULL: a signal number there ends the job at the next chunk */
};

/* Returns -1 with ERR_INTERRUPTED if *stop holds the number of a signal; stop may be NULL. */
int progress_stopped(const atomic_int *stop, struct err *err);

#endif
