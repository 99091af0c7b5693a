/* SPDX-License-Identifier: Apache-2.0
 *
 * Calibration data: files as sequences of token ids.
 *
 *  .txt    one document
 *  .jsonl  an object on each line (below); empty lines are skipped
 *  .json   an array of such objects, or the same as .jsonl
 *  .npy    integers of 1, 2, 4 or 8 bytes, little-endian, C order: 1-D, or 2-D with one
 *          sequence a row
 *
 * Each of them may be compressed by gzip or zstd (.gz, .zst).  A directory means its files with
 * these extensions, in the byte order of their names.  "-" is standard input.  For standard input
 * and pipes the content decides between text, lines of JSON and an array of JSON.
 *
 * An object: {"text": "..."} is a document; so are {"prompt": "...", "completion": "..."}, joined;
 * {"messages": [{"role": "...", "content": "..."}, ...]} is a document of lines "role: content\n"
 * (content may be a list of {"type": "text", "text": "..."} parts, joined; no chat template is
 * applied), and {"conversations": [{"from": "...", "value": "..."}, ...]} is the same, with human
 * for user and gpt for assistant; {"input_ids": [...]} is one sequence of any length, unchanged.
 *
 * Text is UTF-8; a byte order mark at its start is skipped, and invalid bytes are read as Python
 * reads them (errors="replace").  A document has the special tokens that the tokenizer's
 * post-processor puts around it.  Documents and 1-D ids are joined over all files and cut into
 * sequences of seq_len tokens; a short last sequence is dropped.  Documents and
 * sequences of ids do not mix.
 *
 * Order: dataset_open(), dataset_draw() if the sequences are a sample, dataset_release().
 */
#ifndef FP8CONV_DATASET_DATASET_H
#define FP8CONV_DATASET_DATASET_H

#include <stdatomic.h>

#include "base/io.h"
#include "ckpt/checksum.h"
#include "tokenizer/tokenizer.h"

struct dataset_sequence {
	size_t begin; /* in ids */
	size_t len;   /* tokens, at least 1 */
};

struct dataset {
	struct token_ids ids; /* of all sequences, one after the other */
	struct dataset_sequence *sequences;
	size_t n;	/* at least 1 */
	size_t n_chats; /* documents that were made of messages, without a chat template */
	size_t n_twice; /* documents that begin with the tokenizer's first special token twice */
	/* the first text that is not UTF-8, and the offset of its first invalid byte; else NULL */
	char *invalid_name;
	size_t invalid_byte;
};

/* Opens tokenizer.json in the directory of a model; *tokenizer is NULL if there is none, or no
 * directory.  Fails as tokenizer_new() does. */
int dataset_tokenizer(struct tokenizer **tokenizer, const struct io *io, const char *directory,
		      struct err *err);

struct dataset_params {
	const struct io *io;
	const char *const *paths; /* files, directories, "-"; in this order */
	size_t n_paths;
	const struct tokenizer *tokenizer; /* NULL: text is ERR_INPUT */
	size_t seq_len;			   /* >= 1 */
	size_t stride; /* tokens from one cut sequence to the next; 0: seq_len */
	size_t vocab_size;
	size_t max_sequences;	/* SIZE_MAX: all */
	const atomic_int *stop; /* not NULL: a signal number there ends the reading */
};

/* Reads at most max_sequences, and no more of the files than they need: of a text about 64 bytes a
 * token.  Holds the ids (at most 2^28) and one document in memory: at most 64 MiB of JSON with at
 * most 2^20 values, at most 256 MiB of compressed or piped text; a sequence of ids has at most 2^20
 * tokens.  The caller releases data, which is empty after a failure.  ERR_INPUT, with the file and
 * the line, element or byte, for data shorter than one sequence, ids not below vocab_size, and
 * content other than above. */
int dataset_open(struct dataset *data, const struct dataset_params *params, struct err *err);
void dataset_release(struct dataset *data);

/* Moves the sequences of `from`, which becomes empty, behind data's.  ERR_INPUT where both
 * have more than 2^28 tokens. */
int dataset_append(struct dataset *data, struct dataset *from, struct err *err);

/* Shuffles the sequences and keeps the first n of them, n >= 1.  A seed always gives the same ones
 * (fp8conv-calibrate(1)).  Source: the Fisher-Yates shuffle from the last sequence down, with
 * splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
void dataset_draw(struct dataset *data, uint64_t seed, size_t n);

/* Writes the SHA-256 of all token ids, 4 bytes each. */
void dataset_sha256(const struct dataset *data, char text[SHA256_HEX]);

#endif
