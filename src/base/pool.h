/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs items 0 .. n-1 on several threads, handed out in order.
 */
#ifndef FP8CONV_BASE_POOL_H
#define FP8CONV_BASE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/err.h"

/* Does item `item` on worker `worker` (0 .. n_threads - 1).  Returns 0, or -1 with *err set. */
typedef int pool_fn(void *context, int worker, size_t item, struct err *err);

/* Runs all items, and returns after the last one has ended.  After a failure no further item
 * begins.  Items begin in order, so the returned error, that of the lowest failed item, does not
 * depend on the number of threads.  A value in *stop (a signal number; stop may be NULL) ends the
 * run before the next item with ERR_INTERRUPTED.  The calling thread is one of the workers; if the
 * system refuses threads, fewer do the work. */
int pool_run(int n_threads, size_t n_items, pool_fn *fn, void *context, const atomic_int *stop,
	     struct err *err);

/* The same for several queues, each with items 0 .. n_items[queue] - 1, which the workers take in
 * turn: worker i does the items of queue i % n_queues alone.  n_threads is at least n_queues.
 * Where the system refuses threads, the calling one does the work of their workers. */
struct pool_queues {
	size_t n;
	const size_t *n_items; /* (n) */
};

int pool_run_queues(int n_threads, const struct pool_queues *queues, pool_fn *fn, void *context,
		    const atomic_int *stop, struct err *err);

#endif
