/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's own tokenizer: turns text into token ids by a tokenizer.json.
 *
 * Byte-level BPE (GPT-2, Llama 3, Qwen, GPT-OSS) and byte-fallback BPE (Llama 2, Mistral, Gemma),
 * with their normalizers, pre-tokenizers, added tokens and post-processors; the ids are as by
 * the tokenizers package (huggingface/tokenizers 0.23).  Truncation and padding are not applied.
 * The normalizers and Punctuation of the package use Unicode 9 (Lowercase a newer version).  Here
 * they use Unicode 14, which differs in some rare characters, mainly marks.
 */
#ifndef FP8CONV_TOKENIZER_TOKENIZER_H
#define FP8CONV_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tokenizer/regex.h"
#include "tokenizer/token_ids.h"

struct tokenizer;

/* Reads the text of a tokenizer.json, in linear time; file is its name for messages.  The caller
 * frees *tokenizer.  ERR_INPUT, with the file, the key and the reason, for invalid JSON, a model
 * other than BPE, an unsupported component or construct of a pattern, and a merge of a token that
 * is not in the vocabulary. */
int tokenizer_new(struct tokenizer **tokenizer, const struct buf *json, const char *file,
		  struct err *err);
void tokenizer_free(struct tokenizer *tokenizer);

/* A text to encode. */
struct tokenizer_text {
	const char *text;
	size_t len;		 /* bytes, at most 2^31 - 1 */
	bool add_special_tokens; /* the post-processor's (BOS, EOS) */
	/* of all texts of the caller, and what ends it; NULL: of this one */
	struct regex_work *patterns;
};

/* Appends the ids of a text to out.  Reads invalid UTF-8 as Python's errors="replace" does: one
 * U+FFFD for each longest sequence that could begin a character.  Names of special tokens in the
 * text become these tokens.  ERR_INPUT where a pattern or all patterns exceed their limit of steps,
 * where the steps produce more than MAX_GROWTH times the text, or where neither a character nor
 * unk_token has a token; out may have grown then.  ERR_INTERRUPTED.  Thread-safe, but for
 * `patterns`.  Takes O(len log len) for text without a place to split, else linear time. */
int tokenizer_encode(const struct tokenizer *tokenizer, const struct tokenizer_text *text,
		     struct token_ids *out, struct err *err);

/* Does a text of these ids, with the post-processor's, have the first special token twice, because
 * the text itself begins with its name? */
bool tokenizer_repeats(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n);

/* Returns the largest id that tokenizer_encode() can give, plus 1. */
size_t tokenizer_vocab_size(const struct tokenizer *tokenizer);

#endif
