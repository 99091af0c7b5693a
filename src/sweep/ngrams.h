/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-gram embeddings of a sequence: ids are hashed, and the rows of the hashes are read from the
 * file, for a table may have far more than memory.
 */
#ifndef FP8CONV_SWEEP_NGRAMS_H
#define FP8CONV_SWEEP_NGRAMS_H

#include "sweep/weights.h"

/* Fills values (n_tokens, ngrams.dim) with embedding `number`, from 0 on.  ERR_INPUT, with the
 * tensor, where the integers of the hash do not fit the table, or it cannot be read. */
int ngrams_read(struct weights *weights, size_t number, const struct sequence *sequence,
		float *values, struct err *err);

#endif
