/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a conversion.  Windows of extents; each extent a few bands that are read,
 * converted while they are in the cache, and written at once.  Where a tile is larger than a
 * band, the amax of a window's units is taken first; the second look then comes from the page
 * cache.  No byte depends on the order in which workers come by.
 */
#ifndef FP8CONV_CONVERT_PIPELINE_H
#define FP8CONV_CONVERT_PIPELINE_H

#include <pthread.h>

#include "ckpt/write_queue.h"
#include "convert/bands.h"
#include "convert/convert.h"
#include "source/source.h"

#define DEFAULT_MAX_MEMORY ((uint64_t)192 << 20)

struct unit_stats {
	double signal, noise;
};

struct pipeline_worker {
	void *memory;
	struct source_buffers buffers;
	struct write_queue queue; /* codes, and scales where they fit */
	void *scales;
};

struct pipeline {
	const struct plan *plan;
	const struct convert_params *params;
	const struct backend *backend;
	struct progress *progress;
	struct band_limits limits;
	struct source source;
	int n_workers;
	struct pipeline_worker *workers;
	pthread_mutex_t lock;	   /* of stats, counts and amax */
	struct unit_stats *stats;  /* by unit */
	struct quant_stats counts; /* of all */
	uint64_t bytes;		   /* of the source, in shards that are done */
	float *group_amax; /* by group: tiles of a whole tensor, shared by what engines fuse */
	bool *group_known;
	float **unit_amax; /* by unit: rows that are longer than a band */
	bool *nonfinite;   /* by unit, while looking for what to skip */
	const struct output_shard
		*shard;	       /* that is being made; NULL while looking for what to skip */
	struct band_list list; /* what the pool works on */
	const struct extent *extents;
	size_t n_extents;
	struct writer *writer;
	struct writer *preserved;
};

/* Bytes of buffers for these parameters: what the plan prints, what pipeline_new() takes. */
int pipeline_memory(const struct convert_params *params, struct band_limits *limits,
		    uint64_t *bytes, struct err *err);

/* A pipeline for the plan; *out is NULL on failure. */
int pipeline_new(struct pipeline **out, const struct plan *plan,
		 const struct convert_params *params, struct progress *progress, struct err *err);
void pipeline_free(struct pipeline *pipeline);

/* Fills one output shard, and (unless NULL) the shard of preserved sources. */
int pipeline_shard(struct pipeline *pipeline, size_t shard, struct writer *writer,
		   struct writer *preserved, struct err *err);

/* Saturated and non-finite values so far, and the worst SQNR. */
void pipeline_result(const struct pipeline *pipeline, struct convert_result *result);

/* pipeline_amax.c: the first look. */

/* Takes the amax that extents [first, end) of the work need and that is not known yet. */
int pipeline_amax(struct pipeline *pipeline, const struct band_list *work, size_t first, size_t end,
		  struct err *err);

/* Has the kernel read what a band is made of, where that lies together. */
int band_read_ahead(struct pipeline *pipeline, const struct band *band, struct err *err);

/* Where a quantized unit has its amax from before: one value, or one for each row. */
float *pipeline_known_amax(const struct pipeline *pipeline, size_t u);

/* The refusal of a rect with NaN or inf: names the first such value.  Returns -1. */
int pipeline_refuse_nonfinite(const struct pipeline *pipeline, const struct unit *unit,
			      const struct rect *rect, const struct matrix *x, struct err *err);

/* Keeps what has non-finite values (--on-nonfinite skip). */
int pipeline_skip_nonfinite(struct pipeline *pipeline, struct selection *selection,
			    struct err *err);

/* pipeline_cast.c: the second look, a pool_fn: extent `item` of pipeline->extents to codes and
 * scales in the file. */
int pipeline_cast(void *context, int worker, size_t item, struct err *err);

#endif
