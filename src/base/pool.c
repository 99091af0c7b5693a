/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/progress.h"

struct pool {
	pool_fn *fn;
	void *context;
	const atomic_int *stop;
	const struct pool_queues *queues;
	_Atomic size_t *next; /* by queue */
	atomic_bool failed;
	pthread_mutex_t lock; /* of the two members below */
	size_t failed_item;
	struct err *err;
};

struct pool_worker {
	struct pool *pool;
	int number;
	pthread_t thread;
};

static void pool_fail(struct pool *pool, size_t item, const struct err *err)
{
	pthread_mutex_lock(&pool->lock);
	if (!atomic_load(&pool->failed) || err->follows < pool->err->follows ||
	    (err->follows == pool->err->follows && item < pool->failed_item)) {
		pool->failed_item = item;
		*pool->err = *err;
	}
	atomic_store(&pool->failed, true);
	pthread_mutex_unlock(&pool->lock);
}

static void pool_work(struct pool *pool, int worker)
{
	size_t queue = (size_t)worker % pool->queues->n;
	struct err err = { 0 };

	while (!atomic_load(&pool->failed)) {
		size_t item = atomic_fetch_add(&pool->next[queue], 1);

		if (item >= pool->queues->n_items[queue])
			return;
		if (progress_stopped(pool->stop, &err)) {
			pool_fail(pool, SIZE_MAX, &err);
		} else if (pool->fn(pool->context, worker, item, &err)) {
			pool_fail(pool, item, &err);
		}
	}
}

static void *pool_thread(void *argument)
{
	struct pool_worker *worker = argument;

	pool_work(worker->pool, worker->number);
	return NULL;
}

/* Returns the workers that have items: the longest queue needs one for each of its items. */
static int workers_of(int n_threads, const struct pool_queues *queues)
{
	size_t most = 0;

	for (size_t i = 0; i < queues->n; i++)
		most = queues->n_items[i] > most ? queues->n_items[i] : most;
	return (size_t)n_threads / queues->n < most ? n_threads : (int)(most * queues->n);
}

int pool_run(int n_threads, size_t n_items, pool_fn *fn, void *context, const atomic_int *stop,
	     struct err *err)
{
	const struct pool_queues queues = { 1, &n_items };

	return pool_run_queues(n_threads, &queues, fn, context, stop, err);
}

int pool_run_queues(int n_threads, const struct pool_queues *queues, pool_fn *fn, void *context,
		    const atomic_int *stop, struct err *err)
{
	struct pool pool = { .fn = fn,
			     .context = context,
			     .stop = stop,
			     .queues = queues,
			     .next = xcalloc(queues->n, sizeof *pool.next),
			     .lock = PTHREAD_MUTEX_INITIALIZER,
			     .err = err };
	int n_workers = workers_of(n_threads, queues);
	struct pool_worker *workers = xcalloc((size_t)n_workers, sizeof *workers);
	int n_started = 1;

	for (; n_started < n_workers; n_started++) {
		workers[n_started] = (struct pool_worker){ .pool = &pool, .number = n_started };
		if (pthread_create(&workers[n_started].thread, NULL, pool_thread,
				   &workers[n_started]))
			break;
	}
	pool_work(&pool, 0);
	for (int i = n_started; i < n_workers; i++)
		pool_work(&pool, i);
	for (int i = 1; i < n_started; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	free(pool.next);
	pthread_mutex_destroy(&pool.lock);
	if (atomic_load(&pool.failed))
		return -1;
	return 0;
}
