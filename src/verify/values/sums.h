/* SPDX-License-Identifier: Apache-2.0
 *
 * The CRC-32 of files of weights that the manifest records.  Bytes that are read for their values
 * are summed at the same time; only what lies between them is read for the sum alone.
 *
 * Order: sums_init(); sums_add() from any thread, for the first reading of any bytes;
 * sums_finish(); then sums_are_right() and sums_report(); sums_release().
 */
#ifndef FP8CONV_VERIFY_VALUES_SUMS_H
#define FP8CONV_VERIFY_VALUES_SUMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "ckpt/checkpoint.h"

struct verify;

/* The CRC-32 of bytes [begin, end) of a file. */
struct sum_piece {
	uint64_t begin, end;
	uint32_t crc;
};

/* A file of weights. */
struct file_sum {
	bool recorded, right; /* in the manifest; equal to what it says */
	size_t n;
	struct sum_piece *pieces;
	uint32_t crc; /* of all of the file */
};

/* Zeroed: of no file. */
struct sums {
	pthread_mutex_t lock;
	struct file_sum *files; /* by shard */
};

void sums_init(struct sums *sums, const struct verify *verify);

/* Adds the n bytes of a tensor from byte `offset` of it on. */
void sums_add(struct sums *sums, const struct verify *verify, const struct tensor_ref *ref,
	      uint64_t offset, const void *data, uint64_t n);

/* Computes the sum of each recorded file.  ERR_INPUT where a file is truncated. */
int sums_finish(struct sums *sums, struct verify *verify, struct err *err);

/* Reports files whose sum is not that in the manifest. */
void sums_report(const struct sums *sums, struct verify *verify);

/* Is the file of that shard what the conversion wrote, by its manifest? */
bool sums_are_right(const struct sums *sums, size_t shard);

void sums_release(struct sums *sums, const struct verify *verify);

#endif
