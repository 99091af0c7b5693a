/* SPDX-License-Identifier: Apache-2.0 */
#include "expect/name.h"

#include <string.h>

/* Does the segment of n bytes name a list of layers? */
static bool is_stack_word(const char *text, size_t n)
{
	static const char *const ends[] = { "layers", "layer", "blocks", "block" };

	if (n == 1)
		return *text == 'h';
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		size_t len = strlen(ends[i]);

		if (n >= len && !memcmp(text + n - len, ends[i], len))
			return true;
	}
	return false;
}

static bool ends_in_experts(const char *text, size_t n)
{
	return n >= 7 && !memcmp(text + n - 7, "experts", 7);
}

/* Returns false unless the n bytes are a number of at most 9 digits. */
static bool read_number(const char *text, size_t n, uint32_t *number)
{
	*number = 0;
	if (!n || n > 9)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		*number = 10 * *number + (uint32_t)(text[i] - '0');
	}
	return true;
}

/* Reads the segments from `at` on, before which `word` ends with a dot. */
static void read_segments(struct layer_name *split, const char *name, const char *at,
			  const char *word)
{
	size_t n_word = at > word ? (size_t)(at - word) - 1 : 0;

	for (const char *end; at; at = *end ? end + 1 : NULL) {
		uint32_t number;
		size_t n;

		end = strchrnul(at, '.');
		n = (size_t)(end - at);
		if (*end && *at <= '9' && n_word && read_number(at, n, &number)) {
			if (ends_in_experts(word, n_word)) {
				split->expert_at = (size_t)(at - name);
				split->expert = number;
				split->routed = n_word == 7;
			} else if (is_stack_word(word, n_word)) {
				*split = (struct layer_name){ .stack_len = (size_t)(at - name),
							      .rest = (size_t)(end + 1 - name),
							      .layer = number };
			}
		}
		word = at;
		n_word = n;
	}
}

void layer_name_split(struct layer_name *split, const char *name)
{
	*split = (struct layer_name){ 0 };
	read_segments(split, name, name, name);
}

void layer_name_next(struct layer_name *split, const char *before, const char *name)
{
	if (!split->rest || strncmp(before, name, split->rest) != 0) {
		layer_name_split(split, name);
		return;
	}
	*split = (struct layer_name){ .stack_len = split->stack_len,
				      .rest = split->rest,
				      .layer = split->layer };
	read_segments(split, name, name + split->rest, name + split->stack_len);
}

void layer_name_template(const struct layer_name *split, const char *name, struct buf *buf)
{
	const char *rest = name + split->rest;

	if (!split->expert_at) {
		buf_puts(buf, rest);
		return;
	}
	buf_add(buf, rest, split->expert_at - split->rest);
	buf_putc(buf, '*');
	rest = name + split->expert_at;
	buf_puts(buf, rest + strcspn(rest, "."));
}
