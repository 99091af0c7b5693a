/* SPDX-License-Identifier: Apache-2.0
 *
 * Natural merge sort (Knuth, The Art of Computer Programming, volume 3, 5.2.4): finds ascending
 * runs, and merges neighbors until one is left.  Elements that are already in place do not move, as
 * in Python's listsort.txt, so two runs that hardly mix cost little.
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

/* Returns the ends of the runs of n > 0 elements, in bytes; *n_runs becomes their number. */
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

/* Returns the end of the elements, from begin on, that are below `key`, or also equal to it if
 * `equal`.  Searches in doubling steps, so that long runs cost little. */
static const char *find_end(const struct order *order, const char *begin, const char *end,
			    const char *key, bool equal)
{
	size_t low = 0, high, n = (size_t)(end - begin) / order->size, step = 1;

	while (low + step <= n &&
	       order->compare(begin + (low + step - 1) * order->size, key) < equal) {
		low += step;
		step *= 2;
	}
	high = low + step <= n ? low + step - 1 : n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (order->compare(begin + middle * order->size, key) < equal)
			low = middle + 1;
		else
			high = middle;
	}
	return begin + low * order->size;
}

/* Merges left[0 .. n_left) and [right .. end), each in order, to `to`, which is n_left elements
 * before right. */
static void merge(const struct order *order, const char *left, size_t n_left, const char *right,
		  const char *end, char *to)
{
	const char *left_end = left + n_left, *stop;

	while (left < left_end && right < end) {
		stop = find_end(order, right, end, left, false);
		memmove(to, right, (size_t)(stop - right));
		to += stop - right;
		right = stop;
		if (right == end)
			break;
		stop = find_end(order, left, left_end, right, true);
		memcpy(to, left, (size_t)(stop - left));
		to += stop - left;
		left = stop;
	}
	memcpy(to, left, (size_t)(left_end - left));
}

/* Memory for the elements that a merge moves away. */
struct sort_scratch {
	char *data;
	size_t size;
};

/* Merges [begin .. middle) and [middle .. end), each in order.  Elements in place at both ends are
 * left out. */
static void merge_runs(const struct order *order, char *begin, char *middle, const char *end,
		       struct sort_scratch *scratch)
{
	size_t n;

	begin += find_end(order, begin, middle, middle, true) - begin;
	n = (size_t)(middle - begin);
	if (!n)
		return;
	end = find_end(order, middle, end, middle - order->size, false);
	if (n > scratch->size) {
		free(scratch->data);
		scratch->data = xmalloc(n);
		scratch->size = n;
	}
	memcpy(scratch->data, begin, n);
	merge(order, scratch->data, n, middle, end, begin);
}

void sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	const struct order order = { size, compare };
	struct sort_scratch scratch = { 0 };
	size_t *ends = NULL;
	size_t n_runs = 0;
	char *base = array;

	if (n)
		ends = find_runs(&order, array, n, &n_runs);
	while (n_runs > 1) {
		size_t begin = 0, n_merged = 0;

		for (size_t r = 0; r < n_runs; r += 2) {
			size_t end = ends[r + 1 < n_runs ? r + 1 : r];

			if (r + 1 < n_runs)
				merge_runs(&order, base + begin, base + ends[r], base + end,
					   &scratch);
			ends[n_merged++] = begin = end;
		}
		n_runs = n_merged;
	}
	free(scratch.data);
	free(ends);
}
