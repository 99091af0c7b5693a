/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds, replaces, appends or removes one member of an object in the text itself.  A config file
 * contains things of other programs (order, NaN, spacing, numbers that no double holds), so bytes
 * outside the edit are copied and never parsed.
 */
#include "base/json.h"

#include <string.h>

/* The positions in an object's text, as byte offsets. */
struct edit_site {
	size_t n_members;
	size_t open, close;	      /* after '{', and at '}' */
	struct json_text first_colon; /* between the first key and its value: ": " */
	size_t first_begin, first_end;
	size_t second_begin;
	size_t last_end;
	bool found;
	size_t begin, end;	/* of the member, with its key */
	size_t value;		/* of its value */
	size_t previous_end;	/* of the member before, 0 if none */
	size_t following_begin; /* of the member after, 0 if none */
};

/* The layout of the object: one member a line, or all on one line. */
struct style {
	bool lines;
	const char *newline;
	struct json_text indent; /* of a member */
	struct json_text unit;	 /* of one more level */
	struct json_text colon;
	struct json_text gap; /* after a comma, where all is on one line */
};

static struct json_text piece(struct json_text text, size_t from, size_t to)
{
	return (struct json_text){ text.data + from, to - from };
}

static struct json_text literal(const char *text)
{
	return (struct json_text){ text, strlen(text) };
}

static void add(struct buf *out, struct json_text text)
{
	buf_add(out, text.data, text.len);
}

static void site_add(struct edit_site *site, struct json_text text,
		     const struct json_member *member, bool is_it)
{
	size_t value = (size_t)(member->value.data - text.data);
	size_t end = value + member->value.len;
	struct json_text token;

	if (site->n_members == 0) {
		size_t at = member->begin;

		json_token(text, &at, &token); /* the key */
		site->first_colon = piece(text, at, value);
		site->first_begin = member->begin;
		site->first_end = end;
	} else if (site->n_members == 1) {
		site->second_begin = member->begin;
	}
	if (is_it) {
		site->begin = member->begin;
		site->value = value;
		site->end = end;
		site->previous_end = site->last_end;
	} else if (site->found && !site->following_begin) {
		site->following_begin = member->begin;
	}
	site->found |= is_it;
	site->last_end = end;
	site->n_members++;
}

static int site_find(struct edit_site *site, struct json_text text, const char *key,
		     struct err *err)
{
	struct json_members walk = { .text = text };
	struct json_member member;
	struct json_text token;
	int rc;

	*site = (struct edit_site){ 0 };
	while ((rc = json_members_next(&walk, &member, err)) > 0) {
		bool is_it =
			member.key_len == strlen(key) && !memcmp(member.key, key, member.key_len);

		if (is_it && site->found) {
			rc = err_set(err, ERR_INPUT, "duplicate member '%s'", key);
			break;
		}
		site_add(site, text, &member, is_it);
	}
	json_members_release(&walk);
	if (rc)
		return -1;
	json_token(text, &site->open, &token);
	site->close = site->n_members ? site->last_end : site->open;
	json_token(text, &site->close, &token);
	site->close--;
	return 0;
}

int json_find(struct json_text object, const char *key, struct json_text *value, struct err *err)
{
	struct edit_site site;

	*value = (struct json_text){ 0 };
	if (site_find(&site, object, key, err))
		return -1;
	if (site.found)
		*value = piece(object, site.value, site.end);
	return 0;
}

/* Returns the text after the last newline of text, or all of it. */
static struct json_text last_line(struct json_text text)
{
	const char *newline = text.len ? memrchr(text.data, '\n', text.len) : NULL;
	size_t skip = newline ? (size_t)(newline + 1 - text.data) : 0;

	return (struct json_text){ text.data + skip, text.len - skip };
}

static struct style style_of(struct json_text text, const struct edit_site *site)
{
	struct json_text before_first = piece(text, site->open, site->first_begin);
	struct json_text behind_last = piece(text, site->last_end, site->close);
	struct style style = { .newline = "\n", .colon = literal(": ") };
	struct json_text outer;

	if (!site->n_members) { /* no example: the layout of Python's indent=2 */
		style.lines = true;
		style.indent = style.unit = literal("  ");
		return style;
	}
	if (!memchr(site->first_colon.data, '\n', site->first_colon.len))
		style.colon = site->first_colon;
	if (!before_first.len || !memchr(before_first.data, '\n', before_first.len)) {
		if (site->second_begin)
			style.gap = piece(text, site->first_end, site->second_begin);
		else
			style.gap = literal(style.colon.len > 1 ? ", " : ",");
		return style;
	}
	style.lines = true;
	if (memchr(before_first.data, '\r', before_first.len))
		style.newline = "\r\n";
	style.indent = style.unit = last_line(before_first);
	outer = last_line(behind_last);
	if (outer.len < style.indent.len && !memcmp(outer.data, style.indent.data, outer.len))
		style.unit = piece(style.indent, outer.len, style.indent.len);
	return style;
}

static void add_line(struct buf *out, const struct style *style, int depth)
{
	buf_puts(out, style->newline);
	add(out, style->indent);
	while (depth-- > 0)
		add(out, style->unit);
}

/* Writes a value in the layout of the object around it, whatever its own layout is. */
static void add_value(struct buf *out, struct json_text value, const struct style *style)
{
	struct json_text token;
	size_t at = 0;
	int depth = 0;
	int previous = 0;
	int kind;

	while ((kind = json_token(value, &at, &token)) > 0) {
		bool opened = previous == '{' || previous == '[';
		bool closes = kind == '}' || kind == ']';

		depth -= closes;
		if (style->lines && (previous == ',' || opened != closes))
			add_line(out, style, depth);
		if (kind == ':')
			add(out, style->colon);
		else if (kind == ',' && !style->lines)
			add(out, style->gap);
		else
			add(out, token);
		depth += kind == '{' || kind == '[';
		previous = kind;
	}
}

static void add_member(struct buf *out, const char *key, const char *value,
		       const struct style *style)
{
	config_add_json_string(out, key, strlen(key));
	add(out, style->colon);
	add_value(out, literal(value), style);
}

static void append_member(struct json_text text, const struct edit_site *site, const char *key,
			  const char *value, struct buf *out)
{
	struct style style = style_of(text, site);
	size_t from = site->n_members ? site->last_end : site->open;

	add(out, piece(text, 0, from));
	if (site->n_members && style.lines)
		buf_putc(out, ',');
	else if (site->n_members)
		add(out, style.gap);
	if (style.lines)
		add_line(out, &style, 0);
	add_member(out, key, value, &style);
	if (site->n_members)
		add(out, piece(text, from, text.len));
	else { /* an empty object has no closing line */
		buf_puts(out, style.newline);
		add(out, piece(text, site->close, text.len));
	}
}

/* Leaves out the member, and the comma that is no longer needed. */
static void remove_member(struct json_text text, const struct edit_site *site, struct buf *out)
{
	size_t from = site->begin, to = site->end;

	if (site->previous_end) {
		from = site->previous_end;
	} else if (site->following_begin) {
		to = site->following_begin;
	} else {
		from = site->open;
		to = site->close;
	}
	add(out, piece(text, 0, from));
	add(out, piece(text, to, text.len));
}

int json_edit(struct json_text text, const char *key, const char *value, struct buf *out,
	      struct err *err)
{
	struct style style;
	struct edit_site site;

	if (site_find(&site, text, key, err))
		return -1;
	if (value && json_balanced(literal(value), err))
		return err_wrap(err, "new value of '%s'", key);
	if (!value && !site.found) {
		add(out, text);
	} else if (!value) {
		remove_member(text, &site, out);
	} else if (!site.found) {
		append_member(text, &site, key, value, out);
	} else {
		style = style_of(text, &site);
		add(out, piece(text, 0, site.value));
		add_value(out, literal(value), &style);
		add(out, piece(text, site.end, text.len));
	}
	return 0;
}

int json_edit_path(struct json_text text, const char *const *path, size_t n, const char *value,
		   struct buf *out, struct err *err)
{
	struct json_text object = text;
	size_t begin, end, before = out->len;

	for (size_t i = 0; i + 1 < n; i++) {
		struct json_text inner;

		if (json_find(object, path[i], &inner, err))
			return -1;
		if (!inner.len)
			return err_set(err, ERR_INPUT, "missing member '%s'", path[i]);
		object = inner;
	}
	begin = (size_t)(object.data - text.data);
	end = begin + object.len;
	add(out, piece(text, 0, begin));
	if (json_edit(object, path[n - 1], value, out, err)) {
		out->len = before;
		return -1;
	}
	add(out, piece(text, end, text.len));
	return 0;
}
