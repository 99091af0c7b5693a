/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of the command line (--tensor, --include, --exclude): PCRE2 on the bytes of a tensor's
 * full name.  A pattern matches anywhere in the name unless it is anchored.
 */
#ifndef FP8CONV_BASE_PATTERN_H
#define FP8CONV_BASE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct pattern {
	const char *option; /* for messages: "--include" */
	const char *text;
	void *code;
	void *match;
};

/* Compiles text, which must outlive the pattern.  ERR_USAGE with the option, the pattern and
 * PCRE2's message. */
int pattern_compile(struct pattern *pattern, const char *option, const char *text, struct err *err);

/* Sets *matches.  ERR_USAGE if matching needs more work than PCRE2 allows. */
int pattern_match(const struct pattern *pattern, const char *name, bool *matches, struct err *err);

void pattern_release(struct pattern *pattern);

#endif
