/* SPDX-License-Identifier: Apache-2.0
 *
 * Work for several threads: items 0 .. n-1, handed out in order.
 */
#ifndef FP8CONV_BASE_POOL_H
#define FP8CONV_BASE_POOL_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/err.h"

/* Does item `item` on worker `worker` (0 .. n_threads - 1): 0, or -1 with *err set. */
typedef int pool_fn(void *context, int worker, size_t item, struct err *err);

/* Runs all items and returns when the last one ended.  After a failure no further item begins;
 * since items begin in order, the error returned, that of the lowest item that failed, is the same
 * at any number of threads.  A value in *stop (a signal number; stop may be NULL) ends the run
 * before the next item with ERR_INTERRUPTED.  Where threads cannot be had, fewer do the work: the
 * calling thread is always one of them. */
int pool_run(int n_threads, size_t n_items, pool_fn *fn, void *context, const atomic_int *stop,
	     struct err *err);

#endif
