/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorts arrays that are mostly in order, such as names: the names of one file are in order, and
 * a checkpoint's are the names of its files concatenated.
 */
#ifndef FP8CONV_BASE_SORT_H
#define FP8CONV_BASE_SORT_H

#include <stddef.h>

/* As qsort(), but stable: n elements that are k ascending runs cost n log k. */
void sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
