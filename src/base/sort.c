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
	compare_in_fn *compare;
	const void *context;
	char *left;  /* room for the first of two runs */
	size_t room; /* bytes */
};

static int in_order(const struct order *order, const char *a, const char *b)
{
	return order->compare(a, b, order->context);
}

/* Returns the end of the elements, from begin on, that are below `key`, or also equal to it if
 * `equal`.  Searches in doubling steps, so that long runs cost little. */
static const char *find_end(const struct order *order, const char *begin, const char *end,
			    const char *key, bool equal)
{
	size_t low = 0, high, n = (size_t)(end - begin) / order->size, step = 1;

	while (low + step <= n &&
	       in_order(order, begin + (low + step - 1) * order->size, key) < equal) {
		low += step;
		step *= 2;
	}
	high = low + step <= n ? low + step - 1 : n;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (in_order(order, begin + middle * order->size, key) < equal)
			low = middle + 1;
		else
			high = middle;
	}
	return begin + low * order->size;
}

/* Copies n bytes to order->left, which grows. */
static void keep_left(struct order *order, const char *from, size_t n)
{
	if (!n)
		return;
	if (order->room < n) {
		free(order->left);
		order->left = xmalloc(n);
		order->room = n;
	}
	memcpy(order->left, from, n);
}

/* Merges [begin .. middle) and [middle .. end), each in order. */
static void merge(struct order *order, char *begin, const char *middle, const char *end)
{
	const char *left, *left_end, *stop;

	begin += find_end(order, begin, middle, middle, true) - begin;
	keep_left(order, begin, (size_t)(middle - begin));
	left = order->left;
	left_end = left + (middle - begin);
	while (left < left_end) {
		stop = find_end(order, middle, end, left, false);
		memmove(begin, middle, (size_t)(stop - middle));
		begin += stop - middle;
		middle = stop;
		stop = middle < end ? find_end(order, left, left_end, middle, true) : left_end;
		memcpy(begin, left, (size_t)(stop - left));
		begin += stop - left;
		left += stop - left;
	}
}

void sort_in(void *array, size_t n, size_t size, compare_in_fn *compare_in, const void *context)
{
	struct order order = { .size = size, .compare = compare_in, .context = context };
	char *base = array;
	size_t *ends = NULL; /* of runs, in bytes */
	size_t n_runs = 0;

	for (size_t i = 1; i <= n; i++) {
		if (i < n && in_order(&order, base + (i - 1) * size, base + i * size) <= 0)
			continue;
		ARRAY_GROW(ends, n_runs);
		ends[n_runs++] = i * size;
	}
	for (; n_runs > 1; n_runs = (n_runs + 1) / 2)
		for (size_t r = 0, begin = 0; r < n_runs; r += 2) {
			size_t end = ends[r + 1 < n_runs ? r + 1 : r];

			if (ends[r] < end)
				merge(&order, base + begin, base + ends[r], base + end);
			ends[r / 2] = begin = end;
		}
	free(order.left);
	free(ends);
}

struct plain {
	int (*compare)(const void *, const void *);
};

static int compare_plain(const void *a, const void *b, const void *plain)
{
	return ((const struct plain *)plain)->compare(a, b);
}

void sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	sort_in(array, n, size, compare_plain, &(struct plain){ compare });
}
