/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/ngrams.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"

/* A table, with the integers of its hash. */
struct hash {
	const struct ngrams *ngrams;
	const struct ngram_table *table;
	int64_t multipliers[MAX_NGRAM];
	int64_t *sizes, *offsets; /* (n_heads) */
};

/* Reads n integers of 64 bits. */
static int read_integers(struct weights *weights, const struct tensor_ref *ref, size_t n,
			 int64_t *values, struct err *err)
{
	return source_read_bytes(&weights->source, ref, 0, n * sizeof *values, values, err);
}

/* Fails unless the rows of all heads are in the table. */
static int check_rows(const struct hash *hash, struct err *err)
{
	const struct ngram_table *table = hash->table;
	uint64_t n_rows = 0;

	for (size_t i = 0; i < table->n_shards; i++)
		n_rows += table->shards[i]->tensor->shape[0];
	for (size_t i = 0; i < hash->ngrams->n_heads; i++) {
		if (hash->sizes[i] > 0 && hash->offsets[i] >= 0 &&
		    (uint64_t)hash->sizes[i] <= n_rows &&
		    (uint64_t)hash->offsets[i] <= n_rows - (uint64_t)hash->sizes[i])
			continue;
		return err_set(err, ERR_INPUT,
			       "tensors '%s' and '%s' give head %zu %" PRId64 " rows from %" PRId64
			       " on, but the parts of '%s' have %" PRIu64,
			       table->sizes->tensor->name, table->offsets->tensor->name, i,
			       hash->sizes[i], hash->offsets[i], table->shards[0]->tensor->name,
			       n_rows);
	}
	return 0;
}

static void hash_release(struct hash *hash)
{
	free(hash->sizes);
	free(hash->offsets);
}

static int hash_init(struct hash *hash, struct weights *weights, size_t number, struct err *err)
{
	const struct ngrams *ngrams = &weights->forward->model->ngrams;
	const struct ngram_table *table = &ngrams->tables[number];

	*hash = (struct hash){ .ngrams = ngrams, .table = table };
	hash->sizes = xcalloc(ngrams->n_heads, sizeof *hash->sizes);
	hash->offsets = xcalloc(ngrams->n_heads, sizeof *hash->offsets);
	if (read_integers(weights, table->multipliers, ngrams->size, hash->multipliers, err) ||
	    read_integers(weights, table->sizes, ngrams->n_heads, hash->sizes, err) ||
	    read_integers(weights, table->offsets, ngrams->n_heads, hash->offsets, err))
		return -1;
	return check_rows(hash, err);
}

/* Fills mixed[g] with the hash of the g + 1 tokens up to t: the exclusive or of products in 64
 * bits, which may wrap.  Before the first token, and from one before t that ends a text, going
 * back, all tokens are that token. */
static void mix_tokens(const struct hash *hash, const uint32_t *tokens, size_t t, int64_t *mixed)
{
	int64_t eos = hash->ngrams->eos;
	bool ended = false;
	uint64_t sum = 0;

	for (size_t i = 0; i < hash->ngrams->size; i++) {
		ended = ended || i > t || (i && tokens[t - i] == eos);
		sum ^= (uint64_t)(ended ? eos : tokens[t - i]) * (uint64_t)hash->multipliers[i];
		mixed[i] = (int64_t)sum;
	}
}

/* Reads a row of the parts, one below another. */
static int read_row(struct weights *weights, const struct ngram_table *table, uint64_t row,
		    size_t n, float *values, struct err *err)
{
	size_t i = 0;

	for (; row >= table->shards[i]->tensor->shape[0]; i++)
		row -= table->shards[i]->tensor->shape[0];
	return weights_read_row(weights, &(struct table_row){ table->shards[i], row, n }, values,
				err);
}

/* The rows of all heads of token t. */
static int read_token(struct weights *weights, const struct hash *hash, const int64_t *mixed,
		      float *values, struct err *err)
{
	const struct ngrams *ngrams = hash->ngrams;
	size_t n, per_ngram;

	assert(ngrams->size > 1); /* or model_open() fails */
	n = ngrams->dim / ngrams->n_heads;
	per_ngram = ngrams->n_heads / (ngrams->size - 1);
	for (size_t head = 0; head < ngrams->n_heads; head++) {
		int64_t size = hash->sizes[head], rest = mixed[1 + head / per_ngram] % size;
		uint64_t row = (uint64_t)(rest < 0 ? rest + size : rest);

		if (read_row(weights, hash->table, row + (uint64_t)hash->offsets[head], n,
			     values + head * n, err))
			return -1;
	}
	return 0;
}

int ngrams_read(struct weights *weights, size_t number, const struct sequence *sequence,
		float *values, struct err *err)
{
	struct hash hash;
	int rc = hash_init(&hash, weights, number, err);

	for (size_t t = 0; t < sequence->n_tokens && !rc; t++) {
		int64_t mixed[MAX_NGRAM] = { 0 };

		mix_tokens(&hash, sequence->tokens, t, mixed);
		rc = read_token(weights, &hash, mixed, values + t * hash.ngrams->dim, err);
	}
	hash_release(&hash);
	return rc;
}
