/* SPDX-License-Identifier: Apache-2.0
 *
 * What attention caches, told from the names of its projections: keys and values, or, in latent
 * attention, one vector of which both are made.
 */
#ifndef FP8CONV_NAMES_CACHED_H
#define FP8CONV_NAMES_CACHED_H

#include <stdbool.h>
#include <stddef.h>

#include "ckpt/checkpoint.h"

/* Returns the length of "A" where attention A of a language model caches what the tensor gives:
 * "A.k_proj.weight", or, in latent attention, "A.kv_a_proj_with_mqa.weight"; 0 for other tensors.
 * *latent: it is the latter.  The keys of a recurrence, which has A.A_log, go into its state, and
 * an indexer's into a cache without such scales. */
size_t cached_projection(const struct checkpoint *checkpoint, const char *name, bool *latent);

/* Whether the attention of that name is latent attention. */
bool cached_latent(const struct checkpoint *checkpoint, const char *attention);

#endif
