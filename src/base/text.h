/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons of texts, and lists of them.
 */
#ifndef FP8CONV_BASE_TEXT_H
#define FP8CONV_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Texts of somebody else.  A zeroed list is empty; list is freed by free(). */
struct texts {
	const char **list;
	size_t n;
};

/* Do the first n bytes of a text end so? */
static inline bool text_n_ends(const char *text, size_t n, const char *end)
{
	size_t n_end = strlen(end);

	return n >= n_end && !memcmp(text + n - n_end, end, n_end);
}

static inline bool text_ends(const char *text, const char *end)
{
	return text_n_ends(text, strlen(text), end);
}

/* Returns what follows the last such byte of a text, or all of it. */
static inline const char *text_after(const char *text, char byte)
{
	const char *last = strrchr(text, byte);

	return last ? last + 1 : text;
}

/* Compares two elements of an array of texts, for qsort(). */
static inline int text_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

#endif
