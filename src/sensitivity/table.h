/* SPDX-License-Identifier: Apache-2.0
 *
 * What `fp8conv sensitivity` measures: for groups of matrices, the divergence of the model in which
 * one group alone is quantized.  In memory a table, on disk one JSON object:
 *
 *     { "fp8conv_sensitivity": 1, "tool", "model" (fingerprint), "by", "precision", "backend",
 *       "data_sha256", "sequences", "seq_len", "tokens",
 *       "recipes": [ { "recipe", "options": {...}, "kld_sum", "unmeasured": [ NAME... ],
 *                      "unmeasured_bytes": { "bf16", "fp8" } } ],
 *       "groups": [ { "recipe", "group", "layer", "modules": [ { "name", "shape" } ],
 *                     "bytes": { "bf16", "fp8" }, "kld": { "mean", "se" } } ] }
 *
 * "unmeasured_bytes" is left out where all is measured.  "layer" of the head is null, so is "se"
 * with one sequence; "kld" is null while a measurement is unfinished.
 *
 * Order, to make one: fill a zeroed struct by kld_table_add_recipe() and kld_table_add_group();
 * kld_table_text().  To read one: kld_table_read().  kld_table_release().
 */
#ifndef FP8CONV_SENSITIVITY_TABLE_H
#define FP8CONV_SENSITIVITY_TABLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "ckpt/checksum.h"

#define KLD_TABLE_LIMIT ((size_t)256 << 20) /* bytes of a file */

/* A matrix of a group. */
struct kld_module {
	char *name; /* of the weight in the output, without ".weight" */
	uint64_t rows, cols;
};

/* Matrices that are kept or quantized together. */
struct kld_group {
	size_t recipe; /* in recipes */
	char *name;    /* "layers.3.qkv" */
	size_t layer;  /* SIZE_MAX: the head */
	struct kld_module *modules;
	size_t n;
	uint64_t bf16_bytes, fp8_bytes; /* of its weights, with their scales */
	bool measured;
	double mean, se; /* nats per token; se NAN: unknown */
};

struct kld_recipe {
	char *name;
	json_t *options;   /* all that decide what is quantized and how */
	char **unmeasured; /* modules that are quantized, but not multiplied as one matrix */
	size_t n_unmeasured;
	uint64_t unmeasured_bf16, unmeasured_fp8; /* bytes of them, as of a group */
};

struct kld_table {
	char *model;	 /* fingerprint */
	char *by;	 /* "layer" or "expert": the groups of experts */
	char *precision; /* of the products */
	char *backend;
	char *data_sha256; /* of the token ids */
	uint64_t n_sequences, seq_len, n_tokens;
	struct kld_recipe *recipes;
	size_t n_recipes;
	struct kld_group *groups; /* by layer, then by recipe */
	size_t n_groups;
	char file_sha256[SHA256_HEX]; /* of the file that was read */
};

/* Add a copy of the name, without modules; the table owns what the result points to. */
struct kld_recipe *kld_table_add_recipe(struct kld_table *table, const char *name);
struct kld_group *kld_table_add_group(struct kld_table *table, const char *name);
void kld_group_add(struct kld_group *group, const char *module, uint64_t rows, uint64_t cols);

/* Returns the index of a recipe, or SIZE_MAX. */
size_t kld_table_find(const struct kld_table *table, const char *recipe);

/* Writes the text of the file to an empty buf. */
void kld_table_text(const struct kld_table *table, struct buf *text);

/* Reads a file below dirfd; path is its name, in messages too.  unfinished: groups may be without
 * their divergence.  ERR_INPUT, with the member, for a file that is not such a table. */
int kld_table_read(struct kld_table *table, const struct io *io, int dirfd, const char *path,
		   bool unfinished, struct err *err);
void kld_table_release(struct kld_table *table);

#endif
