/* SPDX-License-Identifier: Apache-2.0
 *
 * Sorting what mostly comes in order, as names do: those of one file are, and those of a checkpoint
 * are some files' behind each other.
 */
#ifndef FP8CONV_BASE_SORT_H
#define FP8CONV_BASE_SORT_H

#include <stddef.h>

/* qsort(), stable: n elements that are k ascending stretches cost n log k. */
void sort(void *array, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
