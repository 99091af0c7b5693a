/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration data: a file as sequences of token ids.
 *
 *  .txt          one document
 *  .jsonl        a line each: {"text": "..."} a document; {"messages": [{"role": "...",
 *                "content": "..."}, ...]} a document of lines "role: content\n" (content may be a
 *                list of {"type": "text", "text": "..."} parts, joined; no chat template is
 *                applied); {"input_ids": [...]} one sequence as it is, of any length.  Lines of ids
 *                and lines of text do not mix; empty lines are passed over.
 *  .npy          integers of 1, 2, 4 or 8 bytes, little-endian, C order: 1-D, or 2-D with one
 *                sequence a row
 *  .safetensors  the tensor input_ids, I32 or I64: 1-D, or 2-D with one sequence a row
 *
 * A document has the special tokens that the tokenizer's post-processor puts around it.  Documents,
 * or 1-D ids, are joined and cut into consecutive sequences of seq_len tokens from the start; a
 * last short one is dropped.
 */
#ifndef FP8CONV_DATASET_DATASET_H
#define FP8CONV_DATASET_DATASET_H

#include "base/io.h"
#include "tokenizer/tokenizer.h"

struct dataset_sequence {
	size_t begin; /* in ids */
	size_t len;   /* tokens, at least 1 */
};

struct dataset {
	struct token_ids ids; /* of all sequences, one behind the other */
	struct dataset_sequence *sequences;
	size_t n; /* at least 1 */
};

/* Reads at most max_sequences (SIZE_MAX: all), and no more of the file than they need: of a text
 * about 64 bytes a token.  tokenizer may be NULL, then text is ERR_INPUT.  seq_len is at least 1.
 * ERR_INPUT with the file and the line or element: data shorter than one sequence, ids that are not
 * below vocab_size, lines or headers that are not as above, another extension.  On failure data is
 * empty again. */
int dataset_open(struct dataset *data, const struct io *io, const char *path,
		 const struct tokenizer *tokenizer, size_t seq_len, size_t vocab_size,
		 size_t max_sequences, struct err *err);
void dataset_release(struct dataset *data);

/* Shuffles the sequences and keeps the first n of them, n >= 1: always the same ones for a seed
 * (fp8conv-calibrate(1)). Fisher-Yates from the last one down, with splitmix64 (Steele, Lea and
 * Flood, "Fast splittable pseudorandom number generators", 2014). */
void dataset_draw(struct dataset *data, uint64_t seed, size_t n);

#endif
