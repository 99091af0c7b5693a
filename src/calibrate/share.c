/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/share.h"

#include <endian.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"

int share_open(struct share *share, const struct dataset *data, size_t batch, struct rank rank,
	       struct err *err)
{
	*share = (struct share){ .rank = rank,
				 .batch = batch < data->n ? batch : data->n,
				 .n_sequences = data->n,
				 .own = { .ids = data->ids } };
	if (rank.n > data->n)
		return err_set(err, ERR_USAGE,
			       "option '--ranks': %zu ranks have %zu sequence%s: use at most %zu "
			       "rank%s, or more data",
			       rank.n, data->n, data->n == 1 ? "" : "s", data->n,
			       data->n == 1 ? "" : "s");
	share->own.n = (data->n - rank.index + rank.n - 1) / rank.n;
	share->own.sequences = xreallocarray(NULL, share->own.n, sizeof *share->own.sequences);
	for (size_t i = 0; i < share->own.n; i++)
		share->own.sequences[i] = data->sequences[share_sequence(share, i)];
	return 0;
}

void share_release(struct share *share)
{
	free(share->own.sequences);
	*share = (struct share){ 0 };
}

size_t share_n_passes(const struct share *share)
{
	return (share->n_sequences + share->batch - 1) / share->batch;
}

size_t share_unit(const struct share *share)
{
	size_t a = share->batch, b = share->rank.n;

	while (b) {
		size_t rest = a % b;

		a = b;
		b = rest;
	}
	return share->batch / a;
}

size_t share_sequence(const struct share *share, size_t i)
{
	return share->rank.index + i * share->rank.n;
}

size_t share_pass(const struct share *share, size_t i)
{
	return share_sequence(share, i) / share->batch;
}

size_t share_passes_done(const struct share *share, size_t i)
{
	return i < share->own.n ? i * share->rank.n / share->batch : share_n_passes(share);
}

size_t share_sequences_of(const struct share *share, uint64_t n_passes)
{
	size_t n = n_passes < share_n_passes(share) ? (size_t)n_passes * share->batch
						    : share->n_sequences;

	return n > share->rank.index ? (n - share->rank.index + share->rank.n - 1) / share->rank.n
				     : 0;
}

static void put_number(struct buf *buf, uint64_t number)
{
	number = htole64(number);
	buf_add(buf, &number, sizeof number);
}

void share_place(const struct share *share, const struct dataset *data, uint64_t history_len,
		 struct amax_rank *place)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	struct buf all = { 0 };

	*place = (struct amax_rank){ 0 };
	if (share->rank.n == 1)
		return;
	put_number(&all, share->rank.n);
	put_number(&all, share->batch);
	put_number(&all, history_len);
	for (size_t i = 0; i < data->n; i++) {
		const struct dataset_sequence *sequence = &data->sequences[i];

		SHA256((const unsigned char *)(data->ids.ids + sequence->begin),
		       sequence->len * sizeof(uint32_t), digest);
		put_number(&all, sequence->len);
		buf_add(&all, digest, sizeof digest);
	}
	SHA256((const unsigned char *)all.data, all.len, digest);
	place->index = share->rank.index + 1;
	place->n = share->rank.n;
	text_hex(place->job, digest, (sizeof place->job - 1) / 2);
	buf_release(&all);
}
