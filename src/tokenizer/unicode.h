/* SPDX-License-Identifier: Apache-2.0
 *
 * Characters: UTF-8 in and out, and their properties as the tokenizers package sees them.
 */
#ifndef FP8CONV_TOKENIZER_UNICODE_H
#define FP8CONV_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define UNICODE_END 0x110000

/* The character at p, of valid UTF-8; returns its length in bytes. */
static inline size_t utf8_decode(const char *p, uint32_t *c)
{
	const unsigned char *s = (const unsigned char *)p;

	if (s[0] < 0x80) {
		*c = s[0];
		return 1;
	}
	if (s[0] < 0xe0) {
		*c = (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
		return 2;
	}
	if (s[0] < 0xf0) {
		*c = (s[0] & 0xfu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
		return 3;
	}
	*c = (s[0] & 7u) << 18 | (s[1] & 0x3fu) << 12 | (s[2] & 0x3fu) << 6 | (s[3] & 0x3fu);
	return 4;
}

/* The character that ends at p (of valid UTF-8, p is not its beginning); returns its length in
 * bytes. */
static inline size_t utf8_decode_back(const char *p, uint32_t *c)
{
	size_t n = 1;

	while (((unsigned char)p[-(ptrdiff_t)n] & 0xc0) == 0x80)
		n++;
	return utf8_decode(p - n, c);
}

/* The length of the character whose first byte is given. */
static inline size_t utf8_size(char first)
{
	unsigned char c = (unsigned char)first;

	return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

void utf8_add(struct buf *out, uint32_t c);

/* Appends text with U+FFFD for each longest stretch that could begin a character but does not
 * become one. */
void utf8_add_repaired(struct buf *out, const char *text, size_t len);

/* Text in which every character that is newer than Unicode 14 (what PCRE2 and libunistring of
 * Debian 12 know) is replaced by an older one of the same general category and length, and U+180E
 * by another one of its category that no library calls a space: what patterns are matched against.
 * Returns text itself where it has none, else copy's. */
const char *unicode_known(const char *text, size_t len, struct buf *copy);

/* Characters first to last, by character, and an older one for all of them. */
struct unicode_newer {
	uint32_t first, last, known;
};
extern const struct unicode_newer unicode_newer[];
extern const size_t n_unicode_newer;

/* Newer than Unicode 14: in no form of tokenizers does it become another, whatever libunistring
 * knows of it. */
bool unicode_is_newer(uint32_t c);

bool unicode_is_space(uint32_t c); /* White_Space */
bool unicode_is_word(uint32_t c);  /* Alphabetic, a mark, a decimal digit, connecting or joining */
bool unicode_is_mark(uint32_t c);

#endif
