/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's own tokenizer: text to token ids as its tokenizer.json says.
 *
 * Byte-level BPE (GPT-2, Llama 3, Qwen, GPT-OSS) and byte-fallback BPE (Llama 2, Mistral, Gemma),
 * with their normalizers, pre-tokenizers, added tokens and post-processors; the ids are those of
 * the tokenizers package (huggingface/tokenizers 0.23).  Truncation and padding are not applied.
 * The normalizers and Punctuation of the package use Unicode 9 (Lowercase a newer one); here they
 * use Unicode 14, which differs for some rare characters, mostly marks.
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

/* Reads the text of a tokenizer.json; file is its name for messages.  ERR_INPUT with the file, the
 * key and the reason: bad JSON, a model other than BPE, an unsupported component or construct of a
 * pattern, a merge of a token that is not in the vocabulary.  Linear in the text. */
int tokenizer_new(struct tokenizer **tokenizer, const struct buf *json, const char *file,
		  struct err *err);
void tokenizer_free(struct tokenizer *tokenizer);

/* Appends the ids of text, len bytes (at most 2^31 - 1), to out.  Invalid UTF-8 is read as by
 * Python's errors="replace": one U+FFFD for each longest stretch that could begin a character.
 * Names of special tokens in the text become those tokens.  add_special_tokens: with the tokens of
 * the post-processor (BOS, EOS).  ERR_INPUT where a pattern exceeds its limit of steps, or where
 * neither a character nor unk_token has a token; out may then have grown.  Thread-safe; n log n at
 * worst, for text without a place to split. */
int tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t len,
		     bool add_special_tokens, struct token_ids *out, struct err *err);

/* The largest id that encoding can give, plus 1. */
size_t tokenizer_vocab_size(const struct tokenizer *tokenizer);

#endif
