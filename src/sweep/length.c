/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/length.h"

#include <stdatomic.h>

#define SWEEP_SECONDS 60.0
#define LOADING_SHARE 0.25 /* most of a sweep */

double sweep_length_now(const struct sweep_length *length)
{
	return length->now ? length->now() : 0;
}

double sweep_length_taken(const struct sweep_length *length)
{
	return sweep_length_now(length) - length->began;
}

static size_t within(const struct sweep_length *length, size_t n)
{
	size_t step = length->step ? length->step : 1,
	       even = n < 1 ? step : (n + step - 1) / step * step;

	return even < length->max ? even : length->max;
}

size_t sweep_length_begin(struct sweep_length *length, size_t max)
{
	length->max = max;
	length->began = sweep_length_now(length);
	atomic_store(&length->loading, 0);
	return within(length, length->first);
}

void sweep_length_loaded(struct sweep_length *length, double since, int n_threads)
{
	double seconds = (sweep_length_now(length) - since) * n_threads,
	       before = atomic_load(&length->loading);

	while (!atomic_compare_exchange_weak(&length->loading, &before, before + seconds))
		;
}

size_t sweep_length_next(struct sweep_length *length, size_t n, int n_threads)
{
	double ended = sweep_length_now(length), taken = ended - length->began;
	double loading = atomic_load(&length->loading) / n_threads;
	double computing = taken > loading ? taken - loading : 0;
	double target = SWEEP_SECONDS - loading, amortized = loading / LOADING_SHARE - loading;

	length->began = ended;
	atomic_store(&length->loading, 0);
	if (!length->now)
		return within(length, length->first);
	target = target > amortized ? target : amortized;
	if (computing * (double)length->max <= target * (double)n)
		return length->max;
	return within(length, (size_t)(target * (double)n / computing));
}
