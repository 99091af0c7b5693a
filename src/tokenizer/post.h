/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens that the post-processor puts around a text's.
 */
#ifndef FP8CONV_TOKENIZER_POST_H
#define FP8CONV_TOKENIZER_POST_H

#include "base/json.h"
#include "tokenizer/token_ids.h"

struct post_processor {
	struct token_ids before, after;
};

/* Reads the value of "post_processor"; NULL or null adds no tokens.  The caller releases post, also
 * on failure.  ERR_INPUT with the key. */
int post_read(struct post_processor *post, const json_t *json, struct err *err);
void post_release(struct post_processor *post);

#endif
