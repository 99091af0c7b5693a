/* SPDX-License-Identifier: Apache-2.0
 *
 * words_nearest(): optimal string alignment distance (Damerau-Levenshtein without edits inside a
 * swap), three rows of the table.
 */
#include "base/words.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define LENGTH_MAX 63 /* longer words are not compared */

int words_find(const char *words, const char *word)
{
	size_t n = word ? strlen(word) : 0;
	bool more = word && *words;

	for (int i = 0; more; i++) {
		size_t len = strcspn(words, "|");

		if (len == n && !memcmp(words, word, n))
			return i;
		more = words[len];
		words += len + more;
	}
	return -1;
}

const char *words_get(const char *words, int index, char word[WORD_SIZE])
{
	size_t len;

	for (; index > 0; index--)
		words += strcspn(words, "|") + 1;
	len = strcspn(words, "|");
	assert(len < WORD_SIZE);
	memcpy(word, words, len);
	word[len] = '\0';
	return word;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned min = a < b ? a : b;

	return min < c ? min : c;
}

static unsigned distance(const char *a, size_t n_a, const char *b, size_t n_b)
{
	unsigned rows[3][LENGTH_MAX + 1];

	for (size_t j = 0; j <= n_b; j++)
		rows[0][j] = (unsigned)j;
	for (size_t i = 1; i <= n_a; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3],
			 *second = rows[(i + 1) % 3];

		row[0] = (unsigned)i;
		for (size_t j = 1; j <= n_b; j++) {
			row[j] = min3(above[j] + 1, row[j - 1] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = min3(row[j], row[j], second[j - 2] + 1);
		}
	}
	return rows[n_a % 3][n_b];
}

const char *words_nearest(const char *word, const char *const *names)
{
	size_t n = strlen(word);
	unsigned best = n > 3 ? (unsigned)(n / 3) : 1;
	const char *found = NULL;

	if (n > LENGTH_MAX)
		return NULL;
	for (; *names; names++) {
		size_t n_name = strlen(*names);
		unsigned d = n_name > LENGTH_MAX ? LENGTH_MAX : distance(word, n, *names, n_name);

		if (n > 2 && !strncmp(word, *names, n))
			return *names;
		/* A name that needs as many edits as either text has bytes is not near. */
		if (d < n && d < n_name && (d < best || (d == best && !found))) {
			best = d;
			found = *names;
		}
	}
	return found;
}

int words_unknown(const char *noun, const char *word, const char *const *names, const char *list,
		  struct err *err)
{
	const char *near = words_nearest(word, names);

	if (near)
		return err_set(err, ERR_USAGE, "unknown %s '%s' (did you mean '%s'?)", noun, word,
			       near);
	return err_set(err, ERR_USAGE, "unknown %s '%s' (see '%s')", noun, word, list);
}
