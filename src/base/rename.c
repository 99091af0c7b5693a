/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rename.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define OPTION "--rename"

/* Returns the slash that ends a part of the expression, or NULL. */
static const char *part_end(const char *text)
{
	while (*text && *text != '/')
		text += text[0] == '\\' && text[1] ? 2 : 1;
	return *text ? text : NULL;
}

/* Returns NAME for PCRE2, where $ alone is special: \1 becomes ${1}, and \ goes before others. */
static char *replacement(const char *text, const char *end)
{
	struct buf name = { 0 };

	for (; text < end; text++) {
		if (*text != '\\' || text + 1 == end) {
			buf_putc(&name, *text);
		} else if (*++text >= '0' && *text <= '9') {
			buf_printf(&name, "${%c}", *text);
		} else {
			buf_puts(&name, *text == '$' ? "$" : "");
			buf_putc(&name, *text);
		}
	}
	buf_puts(&name, "");
	return name.data;
}

int rename_compile(struct rename *rename, const char *text, struct err *err)
{
	bool has_start = text[0] == 's' && text[1] == '/';
	const char *middle = has_start ? part_end(text + 2) : NULL;
	const char *end = middle ? part_end(middle + 1) : NULL;

	*rename = (struct rename){ .text = text };
	if (!end || middle == text + 2 || (end[1] && strcmp(end + 1, "g") != 0))
		return err_set(err, ERR_USAGE,
			       "option '" OPTION "': '%s' is not s/RE/NAME/ or s/RE/NAME/g", text);
	rename->all = end[1];
	rename->expression = xstrndup(text + 2, (size_t)(middle - text - 2));
	rename->name = replacement(middle + 1, end);
	return pattern_compile(&rename->pattern, OPTION, rename->expression, err);
}

void rename_release(struct rename *rename)
{
	pattern_release(&rename->pattern);
	free(rename->expression);
	free(rename->name);
	*rename = (struct rename){ 0 };
}

int rename_apply(const struct rename *rename, const char *name, struct buf *renamed, bool *changed,
		 struct err *err)
{
	uint32_t options =
		PCRE2_SUBSTITUTE_OVERFLOW_LENGTH | (rename->all ? PCRE2_SUBSTITUTE_GLOBAL : 0);
	PCRE2_UCHAR message[256];
	PCRE2_SIZE n;
	int rc;

	buf_reserve(renamed, strlen(name) + 1);
	do {
		n = renamed->cap;
		rc = pcre2_substitute(rename->pattern.code, (PCRE2_SPTR)name, strlen(name), 0,
				      options, rename->pattern.match, NULL,
				      (PCRE2_SPTR)rename->name, PCRE2_ZERO_TERMINATED,
				      (PCRE2_UCHAR *)renamed->data, &n);
		if (rc == PCRE2_ERROR_NOMEMORY)
			buf_reserve(renamed, n);
	} while (rc == PCRE2_ERROR_NOMEMORY);
	*changed = rc > 0;
	if (rc >= 0)
		return 0;
	pcre2_get_error_message(rc, message, sizeof message);
	return err_set(err, ERR_USAGE, "option '" OPTION "': '%s' on tensor '%s': %s", rename->text,
		       name, (const char *)message);
}
