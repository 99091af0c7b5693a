/* SPDX-License-Identifier: Apache-2.0 */
#include "tokenizer/unicode.h"

#include <unictype.h>
#include <unistr.h>

#include "base/json.h"
#include "base/sort.h"

static uint32_t known_char(uint32_t c)
{
	size_t i;

	SEARCH(i, n_unicode_newer, unicode_newer[i].last < c);
	return i < n_unicode_newer && c >= unicode_newer[i].first ? unicode_newer[i].known : c;
}

void utf8_add(struct buf *out, uint32_t c)
{
	uint8_t bytes[6] = { 0 };

	if (c < 0x80)
		buf_putc(out, (char)c);
	else
		buf_add(out, bytes, (size_t)u8_uctomb(bytes, c, sizeof bytes));
}

/* Returns how many of the n bytes at p could begin a character (at least 1).  Source: Unicode,
 * table 3-7. */
static size_t bad_stretch(const unsigned char *p, size_t n)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t length, i;

	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 1;
	length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	for (i = 1; i < length && i < n; i++, low = 0x80, high = 0xbf)
		if (p[i] < low || p[i] > high)
			break;
	return i;
}

void utf8_add_repaired(struct buf *out, const char *text, size_t len)
{
	for (;;) {
		size_t good = json_utf8_prefix((struct json_text){ text, len });

		buf_add(out, text, good);
		text += good;
		len -= good;
		if (!len)
			return;
		good = bad_stretch((const unsigned char *)text, len);
		utf8_add(out, 0xfffd);
		text += good;
		len -= good;
	}
}

const char *unicode_known(const char *text, size_t len, struct buf *copy)
{
	const char *end = text + len;
	size_t done = 0;
	uint32_t c;

	copy->len = 0;
	for (const char *p = text; p < end;) {
		if ((unsigned char)*p < 0xe0) { /* all newer characters are longer */
			p++;
			continue;
		}
		size_t n = utf8_decode(p, &c);
		uint32_t known = known_char(c);

		if (known != c) {
			buf_add(copy, text + done, (size_t)(p - text) - done);
			utf8_add(copy, known);
			done = (size_t)(p - text) + n;
		}
		p += n;
	}
	if (!done)
		return text;
	buf_add(copy, text + done, len - done);
	return copy->data;
}

bool unicode_is_newer(uint32_t c)
{
	return known_char(c) != c;
}

bool unicode_is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || c == ' ' ||
	       (c >= 0x85 &&
		(c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
		 c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000));
}

bool unicode_is_mark(uint32_t c)
{
	return uc_is_general_category(known_char(c), UC_MARK);
}

bool unicode_is_word(uint32_t c)
{
	c = known_char(c);
	return uc_is_property_alphabetic(c) || c == 0x200c || c == 0x200d ||
	       uc_is_general_category_withtable(c, UC_CATEGORY_MASK_M | UC_CATEGORY_MASK_Nd |
							   UC_CATEGORY_MASK_Pc);
}
