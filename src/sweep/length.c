/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/length.h"

#include <stdatomic.h>

#define SWEEP_SECONDS 60.0
#define LOADING_SHARE 0.25 /* of a sweep, at most */

double pace_now(const struct pace *pace)
{
	return pace->now ? pace->now() : 0;
}

static size_t within(const struct pace *pace, size_t n)
{
	return n < 1 ? 1 : n < pace->most ? n : pace->most;
}

size_t pace_begin(struct pace *pace, size_t most)
{
	pace->most = most;
	pace->began = pace_now(pace);
	atomic_store(&pace->loading, 0);
	return within(pace, pace->first);
}

void pace_loaded(struct pace *pace, double since, int n_threads)
{
	double seconds = (pace_now(pace) - since) * n_threads, before = atomic_load(&pace->loading);

	while (!atomic_compare_exchange_weak(&pace->loading, &before, before + seconds))
		;
}

size_t pace_next(struct pace *pace, size_t n, int n_threads)
{
	double ended = pace_now(pace), taken = ended - pace->began;
	double loading = atomic_load(&pace->loading) / n_threads;
	double computing = taken > loading ? taken - loading : 0;
	double wanted = SWEEP_SECONDS - loading, amortized = loading / LOADING_SHARE - loading;

	pace->began = ended;
	atomic_store(&pace->loading, 0);
	if (!pace->now)
		return within(pace, pace->first);
	wanted = wanted > amortized ? wanted : amortized;
	if (computing * (double)pace->most <= wanted * (double)n)
		return pace->most;
	return within(pace, (size_t)(wanted * (double)n / computing));
}
