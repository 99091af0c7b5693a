/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of the command line (--tensor, --include, --exclude): PCRE2 on the bytes of a tensor's
 * full name, anywhere in it unless anchored.
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

/* text must outlive the pattern.  ERR_USAGE with option, pattern and what PCRE2 says. */
int pattern_compile(struct pattern *pattern, const char *option, const char *text, struct err *err);

/* ERR_USAGE if matching needs more work than PCRE2 allows. */
int pattern_match(const struct pattern *pattern, const char *name, bool *matches, struct err *err);

void pattern_release(struct pattern *pattern);

#endif
