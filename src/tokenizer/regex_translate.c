/* SPDX-License-Identifier: Apache-2.0
 *
 * Oniguruma's Ruby syntax to PCRE2's.  Constructs of equal meaning are copied, constructs of
 * different meaning are rewritten, all others are errors: a pattern that splits elsewhere would
 * silently give wrong tokens.
 *
 * Sources: Oniguruma 6.9 doc/RE, doc/SYNTAX.md; pcre2pattern(3).
 */
#include <ctype.h>
#include <string.h>

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

#define HEX "0-9a-fA-F"
/* \w: letters, marks, decimal digits, letter numbers, connectors, other alphabetic characters, and
 * four of Latin-1. */
#define WORD                                                                                       \
	"\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}\\x{24b6}-\\x{24e9}" \
	"\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

struct translation {
	const char *pattern;
	size_t len, at;
	struct buf *out;
	struct err *err;
	bool in_class;
};

static int refuse(const struct translation *t, const char *what)
{
	return err_set(t->err, ERR_INPUT, "unsupported %s (byte %zu)", what, t->at);
}

static char next(const struct translation *t, size_t ahead)
{
	if (t->at + ahead >= t->len)
		return '\0';
	return t->pattern[t->at + ahead];
}

/* Adds a set of characters to the open class, or as a class. */
static void add_set(struct translation *t, const char *set)
{
	buf_printf(t->out, t->in_class ? "%s" : "[%s]", set);
}

static int add_negated(struct translation *t, const char *set)
{
	if (t->in_class)
		return refuse(t, "negated set in a class");
	buf_printf(t->out, "[^%s]", set);
	return 0;
}

/* Translates \x{HH...}, \xHH or \uHHHH from after the letter. */
static int add_code(struct translation *t, char letter)
{
	bool braces = letter == 'x' && next(t, 0) == '{';
	size_t max = braces ? 6 : letter == 'u' ? 4 : 2, n = 0;
	uint32_t c = 0;

	t->at += braces;
	for (; n < max && isxdigit((unsigned char)next(t, 0)); n++, t->at++) {
		char digit = next(t, 0);

		c = c * 16 + (uint32_t)(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
	}
	if (!n || (letter == 'u' && n != 4) || (braces && next(t, 0) != '}') || c >= UNICODE_END ||
	    (letter == 'x' && !braces && c >= 0x80))
		return refuse(t, "character escape");
	t->at += braces;
	buf_printf(t->out, "\\x{%x}", c);
	return 0;
}

/* Adds a property.  Some have different names in PCRE2; the others are categories of one or two
 * letters, or scripts. */
static void add_property(struct translation *t, const char *name, bool negated)
{
	static const char *const names[][2] = {
		{ "letter", "L" },	  { "mark", "M" },	    { "number", "N" },
		{ "punctuation", "P" },	  { "symbol", "S" },	    { "separator", "Z" },
		{ "other", "C" },	  { "any", "Any" },	    { "alphabetic", "Alphabetic" },
		{ "uppercase", "Upper" }, { "lowercase", "Lower" }, { "whitespace", "White_Space" },
	};
	const char *known = strlen(name) <= 2 ? name : NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(name, names[i][0]))
			known = names[i][1];
	buf_printf(t->out, known ? "\\%c{%s}" : "\\%c{sc:%s}", negated ? 'P' : 'p',
		   known ? known : name);
}

/* Translates \p{Name}, \p{^Name} or \P{Name} from after the letter. */
static int read_property(struct translation *t, bool negated)
{
	char name[32];
	size_t n = 0;

	if (next(t, 0) != '{')
		return refuse(t, "property without braces");
	t->at++;
	if (next(t, 0) == '^') {
		negated = !negated;
		t->at++;
	}
	for (; isalpha((unsigned char)next(t, 0)) || strchr("_- ", next(t, 0)); t->at++) {
		if (!next(t, 0) || n == sizeof name - 1)
			return refuse(t, "property");
		if (isalpha((unsigned char)next(t, 0)))
			name[n++] = (char)tolower((unsigned char)next(t, 0));
	}
	if (!n || next(t, 0) != '}')
		return refuse(t, "property");
	t->at++;
	name[n] = '\0';
	add_property(t, name, negated);
	return 0;
}

static int add_letter_escape(struct translation *t, char letter)
{
	switch (letter) {
	case 's':
	case 'S':
	case 'd':
	case 'D':
	case 't':
	case 'n':
	case 'r':
	case 'f':
	case 'a':
	case 'e':
		buf_printf(t->out, "\\%c", letter);
		return 0;
	case 'v':
		buf_puts(t->out, "\\x0b");
		return 0;
	case 'w':
		add_set(t, WORD);
		return 0;
	case 'W':
		return add_negated(t, WORD);
	case 'h':
		add_set(t, HEX);
		return 0;
	case 'H':
		return add_negated(t, HEX);
	case 'p':
	case 'P':
		return read_property(t, letter == 'P');
	case 'x':
	case 'u':
		return add_code(t, letter);
	default:
		break;
	}
	if (t->in_class || !strchr("AzZbB", letter))
		return refuse(t, "escape");
	if (letter == 'b')
		buf_puts(t->out, "(?:(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))");
	else if (letter == 'B')
		buf_puts(t->out, "(?:(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))");
	else
		buf_printf(t->out, "\\%c", letter);
	return 0;
}

static int add_escape(struct translation *t)
{
	char c = next(t, 1);

	if (t->at + 2 > t->len)
		return refuse(t, "backslash at the end");
	if (isdigit((unsigned char)c))
		return refuse(t, "backreference or octal number");
	t->at += 2;
	if (isalpha((unsigned char)c))
		return add_letter_escape(t, c);
	if (ispunct((unsigned char)c))
		buf_putc(t->out, '\\');
	buf_putc(t->out, c); /* the rest of a longer character follows by itself */
	return 0;
}

/* Returns the length of "{n}", "{n,}", "{,m}" or "{n,m}" at `at`; 0 for other text. */
static size_t interval_size(const struct translation *t, bool *fixed)
{
	size_t n = 1, digits = 0;

	for (; isdigit((unsigned char)next(t, n)); n++)
		digits++;
	*fixed = next(t, n) != ',';
	if (!*fixed)
		for (n++; isdigit((unsigned char)next(t, n)); n++)
			digits++;
	return digits && next(t, n) == '}' ? n + 1 : 0;
}

/* Translates an interval.  In Ruby "{,m}" means {0,m}; a '+' after an interval repeats it again,
 * and a '?' after "{n}" makes it optional. */
static int add_interval(struct translation *t)
{
	bool fixed;
	size_t n = interval_size(t, &fixed);

	if (!n) {
		buf_puts(t->out, "\\{");
		t->at++;
		return 0;
	}
	if (next(t, n) == '+' || (fixed && next(t, n) == '?'))
		return refuse(t, "sign after an interval");
	buf_puts(t->out, next(t, 1) == ',' ? "{0" : "{");
	buf_add(t->out, t->pattern + t->at + 1, n - 1);
	t->at += n;
	return 0;
}

/* Translates "(?i)" or "(?im-x:".  Ruby's m is dotall.  The form without a colon is supported only
 * at the beginning, where it applies to the whole pattern in both syntaxes. */
static int add_options(struct translation *t)
{
	size_t begin = t->at;

	buf_puts(t->out, "(?");
	for (t->at += 2; next(t, 0) && strchr("im-", next(t, 0)); t->at++)
		buf_puts(t->out, next(t, 0) == 'm' ? "s" : next(t, 0) == 'i' ? "i" : "-");
	if (next(t, 0) != ':' && (next(t, 0) != ')' || begin))
		return refuse(t, "option");
	buf_putc(t->out, next(t, 0));
	t->at++;
	return 0;
}

static int add_group(struct translation *t)
{
	static const char *const known[] = { "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!" };

	if (next(t, 1) == '*')
		return refuse(t, "verb");
	if (next(t, 1) != '?') {
		buf_putc(t->out, '(');
		t->at++;
		return 0;
	}
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		size_t n = strlen(known[i]);

		if (t->len - t->at >= n && !memcmp(t->pattern + t->at, known[i], n)) {
			buf_puts(t->out, known[i]);
			t->at += n;
			return 0;
		}
	}
	return add_options(t);
}

static int open_class(struct translation *t)
{
	t->in_class = true;
	buf_putc(t->out, '[');
	t->at++;
	if (next(t, 0) == '^') {
		buf_putc(t->out, '^');
		t->at++;
	}
	if (next(t, 0) == ']')
		return refuse(t, "class that begins with ']'");
	return 0;
}

static int add_in_class(struct translation *t, char c)
{
	if (c == '[')
		return refuse(t, "class in a class");
	if (c == '&' && next(t, 1) == '&')
		return refuse(t, "intersection of classes");
	if (c == ']')
		t->in_class = false;
	buf_putc(t->out, c);
	t->at++;
	return 0;
}

static int add_one(struct translation *t)
{
	char c = t->pattern[t->at];

	if (c == '\\')
		return add_escape(t);
	if (t->in_class)
		return add_in_class(t, c);
	if (c == '[')
		return open_class(t);
	if (c == '(')
		return add_group(t);
	if (c == '{')
		return add_interval(t);
	buf_putc(t->out, c);
	t->at++;
	return 0;
}

int regex_translate(const char *pattern, size_t len, struct buf *out, struct err *err)
{
	struct translation t = { .pattern = pattern, .len = len, .out = out, .err = err };

	if (len > REGEX_MAX_PATTERN)
		return err_set(err, ERR_INPUT, "%zu bytes exceed the limit of %d", len,
			       REGEX_MAX_PATTERN);
	buf_puts(out, "");
	while (t.at < len)
		if (add_one(&t))
			return -1;
	return 0;
}

void regex_quote(const char *text, size_t len, struct buf *out)
{
	buf_puts(out, "");
	for (size_t i = 0; i < len; i++) {
		if (ispunct((unsigned char)text[i]))
			buf_putc(out, '\\');
		buf_putc(out, text[i]);
	}
}
