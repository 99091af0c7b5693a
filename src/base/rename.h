/* SPDX-License-Identifier: Apache-2.0
 *
 * New names for tensors by 's/RE/NAME/' or 's/RE/NAME/g' of option '--rename', as sed writes it: RE
 * is a PCRE2 expression on the bytes of the full name; in NAME, $1 and \1 are its groups.
 */
#ifndef FP8CONV_BASE_RENAME_H
#define FP8CONV_BASE_RENAME_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/pattern.h"

struct rename {
	const char *text;
	struct pattern pattern;
	char *expression, *name; /* RE, and NAME as PCRE2 takes it */
	bool all;		 /* every match in a name, not the first one */
};

/* Reads text, which must outlive the rename.  ERR_USAGE for another form, and for an expression
 * that PCRE2 does not take.  The caller calls rename_release(), also on failure. */
int rename_compile(struct rename *rename, const char *text, struct err *err);
void rename_release(struct rename *rename);

/* *changed: does the expression match?  Then renamed becomes the new name.  ERR_USAGE for a group
 * that RE does not have. */
int rename_apply(const struct rename *rename, const char *name, struct buf *renamed, bool *changed,
		 struct err *err);

#endif
