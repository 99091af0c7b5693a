/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts arrays that are mostly in order, such as names: the names of one file are in order, and
 * a checkpoint's are the names of its files concatenated.
 */
#ifndef FP8CONV_BASE_SORT_H
#define FP8CONV_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

/* As qsort(), but stable: n elements that are k ascending runs cost n log k. */
void sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *));

/* The same, of elements that mean something in a context, such as indices. */
typedef int compare_in_fn(const void *a, const void *b, const void *context);
void sort_in(void *array, size_t n, size_t size, compare_in_fn *compare_in, const void *context);

/* Compares elements that begin with a uint64_t by it. */
static inline int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

#endif
