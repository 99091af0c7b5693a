/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps themselves.
 */
#include "tokenizer/step.h"

#include <stdlib.h>
#include <string.h>

#include <unicase.h>
#include <uninorm.h>

#include "tokenizer/unicode.h"

void steps_release(struct steps *steps)
{
	for (size_t i = 0; i < steps->n; i++) {
		regex_free(steps->step[i].regex);
		buf_release(&steps->step[i].content);
	}
	steps->n = 0;
}

void step_state_release(struct step_state *state)
{
	regex_search_release(&state->search);
	buf_release(&state->out);
}

/* Returns the number of ASCII bytes at p.  Normalization keeps all of them but perhaps the last,
 * which may combine with the text after it. */
static size_t ascii_prefix(const char *p, size_t len)
{
	size_t n = 0;
	uint64_t eight;

	for (; len - n >= sizeof eight; n += sizeof eight) {
		memcpy(&eight, p + n, sizeof eight);
		if (eight & 0x8080808080808080u)
			break;
	}
	while (n < len && (unsigned char)p[n] < 0x80)
		n++;
	return n;
}

/* Returns the length of text up to the first character that is ASCII or newer than Unicode 14. */
static size_t normal_prefix(const char *text, size_t len)
{
	size_t n = 0, size;
	uint32_t c;

	for (; n < len && (unsigned char)text[n] >= 0x80; n += size) {
		size = utf8_decode(text + n, &c);
		if (unicode_is_newer(c))
			break;
	}
	return n;
}

static int add_normalized(uninorm_t form, const char *text, size_t len, struct buf *out,
			  struct err *err)
{
	uint8_t *result;
	size_t n;

	result = u8_normalize(form, (const uint8_t *)text, len, NULL, &n);
	if (!result)
		return err_errno(err, "cannot normalize %zu bytes of text", len);
	buf_add(out, result, n);
	free(result);
	return 0;
}

int step_normalize(const struct step *step, struct step_state *state,
		   const struct text_range *range, struct buf *out, struct err *err)
{
	const char *text = range->text, *end = text + range->len;

	(void)state;
	while (text < end) {
		size_t ascii = ascii_prefix(text, (size_t)(end - text));
		const char *p = text + ascii;

		if (p < end && ascii)
			ascii--;
		buf_add(out, text, ascii);
		text += ascii;
		p += normal_prefix(p, (size_t)(end - p));
		if (p > text && add_normalized(step->form, text, (size_t)(p - text), out, err))
			return -1;
		text = p;
		if (p < end && (unsigned char)*p >= 0x80) { /* newer: nothing joins it */
			text += utf8_size(*p);
			buf_add(out, p, (size_t)(text - p));
		}
	}
	return 0;
}

int step_lowercase(const struct step *step, struct step_state *state,
		   const struct text_range *range, struct buf *out, struct err *err)
{
	uint32_t c;

	(void)step;
	(void)state;
	(void)err;
	for (const char *text = range->text, *end = text + range->len; text < end;) {
		text += utf8_decode(text, &c);
		utf8_add(out, uc_tolower(c));
		if (c == 0x130) /* becomes two characters */
			utf8_add(out, 0x307);
	}
	return 0;
}

int step_strip(const struct step *step, struct step_state *state, const struct text_range *range,
	       struct buf *out, struct err *err)
{
	const char *text = range->text, *end = text + range->len;
	uint32_t c;
	size_t n;

	(void)state;
	(void)err;
	while (step->left && text < end && (n = utf8_decode(text, &c), unicode_is_space(c)))
		text += n;
	while (step->right && end > text && (n = utf8_decode_back(end, &c), unicode_is_space(c)))
		end -= n;
	buf_add(out, text, (size_t)(end - text));
	return 0;
}

int step_strip_marks(const struct step *step, struct step_state *state,
		     const struct text_range *range, struct buf *out, struct err *err)
{
	uint32_t c;
	size_t n;

	(void)step;
	(void)state;
	(void)err;
	for (const char *text = range->text, *end = text + range->len; text < end; text += n) {
		n = utf8_decode(text, &c);
		if (!unicode_is_mark(c))
			buf_add(out, text, n);
	}
	return 0;
}

int step_too_much(struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "the steps of the tokenizer produce more than %d times the text",
		       MAX_GROWTH);
}

/* Appends a text of the file, before there is memory for it. */
static int add_content(const struct step *step, const struct step_state *state, struct buf *out,
		       struct err *err)
{
	if (out->len > state->room || step->content.len > state->room - out->len)
		return step_too_much(err);
	buf_add(out, step->content.data, step->content.len);
	return 0;
}

int step_prepend(const struct step *step, struct step_state *state, const struct text_range *range,
		 struct buf *out, struct err *err)
{
	if (add_content(step, state, out, err))
		return -1;
	buf_add(out, range->text, range->len);
	return 0;
}

int step_prepend_once(const struct step *step, struct step_state *state,
		      const struct text_range *range, struct buf *out, struct err *err)
{
	const struct buf *content = &step->content;
	bool there =
		range->len >= content->len && !memcmp(range->text, content->data, content->len);

	if (!there && (range->first || !step->only_first) && add_content(step, state, out, err))
		return -1;
	buf_add(out, range->text, range->len);
	return 0;
}

int step_replace(const struct step *step, struct step_state *state, const struct text_range *range,
		 struct buf *out, struct err *err)
{
	size_t begin, end, done = 0;
	int rc;

	regex_search_start(&state->search, step->regex, range->text, range->len);
	while ((rc = regex_search_next(&state->search, &begin, &end, err)) > 0) {
		if (begin == end)
			return err_set(err, ERR_INPUT,
				       "the pattern of a Replace normalizer matches an empty text, "
				       "which is unsupported");
		buf_add(out, range->text + done, begin - done);
		if (add_content(step, state, out, err))
			return -1;
		done = end;
	}
	buf_add(out, range->text + done, range->len - done);
	return rc;
}

/* Printable bytes of Latin-1 map to themselves, the others to U+0100 and up, in order.
 * Source: bytes_to_unicode() of GPT-2's encoder.py. */
static uint32_t byte_char(unsigned char byte)
{
	if ((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad))
		return byte;
	if (byte <= ' ')
		return 0x100u + byte;
	return byte == 0xad ? 0x143u : 0x100u + 33 + (byte - 0x7fu);
}

int step_bytes(const struct step *step, struct step_state *state, const struct text_range *range,
	       struct buf *out, struct err *err)
{
	(void)step;
	(void)state;
	(void)err;
	for (size_t i = 0; i < range->len; i++)
		utf8_add(out, byte_char((unsigned char)range->text[i]));
	return 0;
}

/* A split in progress.  It holds the last part back, because the next part may be merged with
 * it. */
struct split {
	const struct step *step;
	const char *text;
	const struct piece_taker *taker;
	size_t begin, end;
	bool held;
	bool held_match; /* whether the last part is a match */
};

static int give(struct split *split, size_t begin, size_t end, struct err *err)
{
	if (begin == end)
		return 0;
	return split->taker->take(split->taker->context, split->text + begin, end - begin, err);
}

static int give_held(struct split *split, struct err *err)
{
	bool held = split->held;

	split->held = false;
	return held ? give(split, split->begin, split->end, err) : 0;
}

static int hold(struct split *split, size_t begin, size_t end, struct err *err)
{
	if (give_held(split, err))
		return -1;
	split->held = true;
	split->begin = begin;
	split->end = end;
	return 0;
}

/* Adds the next part of the text: a match, or the text between two matches. */
static int add_stretch(struct split *split, size_t begin, size_t end, bool match, struct err *err)
{
	bool last_match = split->held_match, merges = false;

	match ^= split->step->invert;
	split->held_match = match;
	switch (split->step->behavior) {
	case REMOVED:
		return match ? 0 : give(split, begin, end, err);
	case ISOLATED:
		return give(split, begin, end, err);
	case CONTIGUOUS:
		merges = split->held && match == last_match;
		break;
	case MERGED_WITH_PREVIOUS:
		merges = split->held && match && !last_match;
		break;
	case MERGED_WITH_NEXT:
		merges = split->held && !match && last_match;
		break;
	}
	if (!merges)
		return hold(split, begin, end, err);
	split->end = end;
	return 0;
}

int step_split(const struct step *step, struct step_state *state, const struct text_range *range,
	       const struct piece_taker *taker, struct err *err)
{
	struct split split = { .step = step, .text = range->text, .taker = taker };
	size_t begin, end, done = 0;
	int rc;

	regex_search_start(&state->search, step->regex, range->text, range->len);
	while ((rc = regex_search_next(&state->search, &begin, &end, err)) > 0) {
		if ((begin > done && add_stretch(&split, done, begin, false, err)) ||
		    add_stretch(&split, begin, end, true, err))
			return -1;
		done = end;
	}
	if (rc < 0 || (done < range->len && add_stretch(&split, done, range->len, false, err)))
		return -1;
	return give_held(&split, err);
}
