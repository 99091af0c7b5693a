/* SPDX-License-Identifier: Apache-2.0
 *
 * Natural merge sort (Knuth, The Art of Computer Programming, volume 3, 5.2.4): stretches that
 * ascend are found, and neighbours merged until one is left.
 */
#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct order {
	size_t size; /* bytes of an element */
	int (*compare)(const void *, const void *);
};

/* Where the stretches of n > 0 elements end, in bytes; *n_runs is how many there are. */
static size_t *find_runs(const struct order *order, const char *array, size_t n, size_t *n_runs)
{
	size_t *ends = NULL;

	*n_runs = 0;
	for (size_t at = order->size; at <= n * order->size; at += order->size) {
		if (at < n * order->size &&
		    order->compare(array + at - order->size, array + at) <= 0)
			continue;
		ARRAY_GROW(ends, *n_runs);
		ends[(*n_runs)++] = at;
	}
	return ends;
}

/* Where, from begin on, the elements end that stand before `key`: those below it, and if `equal`
 * its equals.  Looked for in doubling steps, so that long stretches cost little. */
static size_t find_end(const struct order *order, const char *from, size_t begin, size_t end,
		       const char *key, bool equal)
{
	size_t low = 0, high, n = (end - begin) / order->size, step = 1;

	from += begin;
	while (low + step <= n &&
	       order->compare(from + (low + step - 1) * order->size, key) < equal) {
		low += step;
		step *= 2;
	}
	high = low + step <= n ? low + step - 1 : n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (order->compare(from + middle * order->size, key) < equal)
			low = middle + 1;
		else
			high = middle;
	}
	return begin + low * order->size;
}

/* from[begin .. middle) and from[middle .. end), each in order, into the same place of `to`. */
static void merge(const struct order *order, const char *from, size_t begin, size_t middle,
		  size_t end, char *to)
{
	size_t left = begin, right = middle;

	for (bool is_left = true; left < middle && right < end; is_left = !is_left) {
		size_t at = is_left ? left : right, stop;

		stop = is_left ? find_end(order, from, left, middle, from + right, true)
			       : find_end(order, from, right, end, from + left, false);
		memcpy(to + begin, from + at, stop - at);
		begin += stop - at;
		*(is_left ? &left : &right) = stop;
	}
	memcpy(to + begin, from + left, middle - left);
	memcpy(to + begin + middle - left, from + right, end - right);
}

/* Merges neighbours: half as many runs. */
static size_t merge_runs(const struct order *order, const char *from, size_t *ends, size_t n_runs,
			 char *to)
{
	size_t begin = 0, n = 0;

	for (size_t r = 0; r < n_runs; r += 2) {
		size_t end = ends[r + 1 < n_runs ? r + 1 : r];

		merge(order, from, begin, ends[r], end, to);
		ends[n++] = begin = end;
	}
	return n;
}

void sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	const struct order order = { size, compare };
	char *from = array, *to = NULL;
	size_t *ends = NULL;
	size_t n_runs = 0;

	if (n)
		ends = find_runs(&order, array, n, &n_runs);
	if (n_runs > 1)
		to = xreallocarray(NULL, n, size);
	while (n_runs > 1) {
		char *sorted = to;

		n_runs = merge_runs(&order, from, ends, n_runs, to);
		to = from;
		from = sorted;
	}
	if (from != array) {
		memcpy(array, from, n * size);
		to = from;
	}
	free(to);
	free(ends);
}
