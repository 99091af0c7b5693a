/* SPDX-License-Identifier: Apache-2.0
 *
 * Characters: UTF-8 in and out, and their properties as in the tokenizers package.
 */
#ifndef FP8CONV_TOKENIZER_UNICODE_H
#define FP8CONV_TOKENIZER_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define UNICODE_END 0x110000

/* Sets *c to the character at p, of valid UTF-8, and returns its length in bytes. */
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

/* Sets *c to the character that ends at p, and returns its length in bytes.  p points into valid
 * UTF-8, after its beginning. */
static inline size_t utf8_decode_back(const char *p, uint32_t *c)
{
	size_t n = 1;

	while (((unsigned char)p[-(ptrdiff_t)n] & 0xc0) == 0x80)
		n++;
	return utf8_decode(p - n, c);
}

/* Returns the length in bytes of the character whose first byte is given. */
static inline size_t utf8_size(char first)
{
	unsigned char c = (unsigned char)first;

	return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Appends the character in UTF-8. */
void utf8_add(struct buf *out, uint32_t c);

/* Appends text, with one U+FFFD in place of each longest sequence of bytes that could begin a
 * character but does not complete it. */
void utf8_add_repaired(struct buf *out, const char *text, size_t len);

/* Returns the text that patterns are matched against.  In it an older character of the same general
 * category and length replaces each character that is newer than Unicode 14, the version that PCRE2
 * and libunistring of Debian 12 have.  Another character of its category replaces U+180E, which not
 * all libraries call a space.  Returns text itself where nothing changes, else the text in copy. */
const char *unicode_known(const char *text, size_t len, struct buf *copy);

/* Characters first to last, by character, and an older one for all of them. */
struct unicode_newer {
	uint32_t first, last, known;
};
extern const struct unicode_newer unicode_newer[];
extern const size_t n_unicode_newer;

/* Whether c is newer than Unicode 14.  Normal forms of the tokenizers package keep these
 * characters; a newer libunistring's might not. */
bool unicode_is_newer(uint32_t c);

bool unicode_is_space(uint32_t c); /* White_Space */
bool unicode_is_word(uint32_t c);  /* Alphabetic, a mark, a decimal digit, connecting or joining */
bool unicode_is_mark(uint32_t c);

#endif
