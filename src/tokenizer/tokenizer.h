/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's own tokenizer: text to token ids as its tokenizer.json says.
 *
 * Byte-level BPE (GPT-2, Llama 3, Qwen, GPT-OSS) and byte-fallback BPE (Llama 2, Mistral, Gemma),
 * with their normalizers, pre-tokenizers, added tokens and post-processors; the ids are those of
 * the tokenizers package (huggingface/tokenizers 0.23).  Truncation and padding are not applied.
 * Its normalizers and its Punctuation know an older Unicode (9, Lowercase a newer one): some rare
 * characters that came later, mostly marks, are treated here as Unicode 14 says.
 */
#ifndef FP8CONV_TOKENIZER_TOKENIZER_H
#define FP8CONV_TOKENIZER_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "tokenizer/token_ids.h"

struct tokenizer;

/* From the text of a tokenizer.json; file is its name for messages.  ERR_INPUT with the file, the
 * key and what is wrong there: bad JSON, another model than BPE, a component or a construct of a
 * pattern that is not known here, a merge of what is not in the vocabulary.  Linear in the text. */
int tokenizer_new(struct tokenizer **tokenizer, const struct buf *json, const char *file,
		  struct err *err);
void tokenizer_free(struct tokenizer *tokenizer);

/* Appends the ids of text, len bytes (at most 2^31 - 1), to out.  What is not UTF-8 is read as
 * Python's errors="replace" reads it: one U+FFFD for each longest stretch that could begin a
 * character.  Names of special tokens in the text become those tokens.  add_special_tokens: with
 * what the post-processor puts around it (BOS, EOS).  ERR_INPUT where a pattern exceeds its limit
 * of steps, or a character has no token and unk_token none either; out is then longer by an unknown
 * part.  Thread-safe; n log n at worst for text without a place to split. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
		     bool add_special_tokens, struct token_ids *out, struct err *err);

/* One more than the largest id that encoding can give. */
size_t tokenizer_vocab_size(const struct tokenizer *tokenizer);

#endif
