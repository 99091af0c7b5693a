/* SPDX-License-Identifier: Apache-2.0
 *
 * A configuration against the source's, key by key.
 */
#ifndef FP8CONV_VERIFY_CONFIG_DIFF_H
#define FP8CONV_VERIFY_CONFIG_DIFF_H

#include <jansson.h>
#include <stdbool.h>

#include "verify/problem.h"

/* The text that both files have; file: its name.  The trees are borrowed. */
struct config_pair {
	const char *file;
	const json_t *was, *is; /* in the source, in the checkpoint */
	bool rewritten;		/* by transformers: defaults come and go, and keys have moved */
};

/* Did transformers write the configuration anew?  It then says so by its version. */
bool config_is_rewritten(const json_t *was, const json_t *is);

/* Reports every key whose value is another one, with its path and both values.  Keys that describe
 * the quantization or say nothing of the model are passed over.  What a rewritten file only adds or
 * leaves out is a note. */
void config_diff(struct problems *problems, const struct config_pair *pair);

/* The same for the given members alone, where both files have them: texts, or added tokens. */
void config_diff_members(struct problems *problems, const struct config_pair *pair,
			 const char *const *members, size_t n);

#endif
