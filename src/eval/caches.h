/* SPDX-License-Identifier: Apache-2.0
 *
 * The scales that a checkpoint has for an engine's cache in FP8: of keys and values, or one of what
 * latent attention caches.
 *
 * Order: cache_scales_read(); cache_scales_send() when the executor is open; cache_scales_set() for
 * each loaded layer; cache_scales_release().
 */
#ifndef FP8CONV_EVAL_CACHES_H
#define FP8CONV_EVAL_CACHES_H

#include "forward/forward.h"
#include "source/source.h"

/* A zeroed struct is empty. */
struct cache_scales {
	const struct model *model;
	bool *found; /* (n_layers) */
	/* (n_layers, 2, kv heads): of keys, then of values; of a latent cache the first one */
	float *values;
	size_t n_found; /* layers with scales */
};

/* Reads the scales of all layers, one for all heads or one for each.  ERR_INPUT, with the tensor,
 * for a scale that is not positive, or of another shape; ERR_USAGE where no layer has one. */
int cache_scales_read(struct cache_scales *scales, const struct model *model, struct source *source,
		      struct err *err);
void cache_scales_release(struct cache_scales *scales);

/* Copies the values to *sent, which the caller frees as executor memory; NULL if there are none. */
int cache_scales_send(const struct cache_scales *scales, struct executor_stream *stream,
		      float **sent, struct err *err);

/* Gives a layer its scales in `sent`, if it has any. */
void cache_scales_set(const struct cache_scales *scales, const float *sent, struct layer *layer);

#endif
