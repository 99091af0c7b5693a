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

/* Compares two numbers, or pointers into one array.  By several keys: ORDER(...) ?: ORDER(...). */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Defines a comparison of two elements, *x and *y, for sort(), qsort() and bsearch(). */
#define COMPARISON(name, type, order)                              \
	static inline int name(const void *one, const void *other) \
	{                                                          \
		const type *x = one;                               \
		const type *y = other;                             \
                                                                   \
		return order;                                      \
	}

/* Compares elements that begin with a uint64_t by it. */
COMPARISON(compare_u64, uint64_t, ORDER(*x, *y))

/* Binary search: sets i to the first index below n for which the expression `before` is false, or
 * to n.  It is true of all indices in front of that one. */
#define SEARCH(i, n, before)                                \
	do {                                                \
		size_t begin_ = 0, end_ = (n);              \
                                                            \
		while (begin_ < end_) {                     \
			(i) = begin_ + (end_ - begin_) / 2; \
			if (before)                         \
				begin_ = (i) + 1;           \
			else                                \
				end_ = (i);                 \
		}                                           \
		(i) = begin_;                               \
	} while (0)

#endif
