/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of a conversion.  Windows of runs; each run a few bands that are read, converted while
 * they are in the cache, and written at once.  Where a tile is larger than a band, the amax of a
 * window's units is taken first; the second look then comes from the page cache.  No byte depends
 * on the order in which workers come by.
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

struct worker {
	void *memory;
	struct source_buffers buffers;
	struct write_queue queue; /* codes, and scales where they fit */
	void *scales;
};

struct converter {
	const struct plan *plan;
	const struct convert_params *params;
	const struct backend *backend;
	struct progress *progress;
	struct band_limits limits;
	struct source source;
	int n_workers;
	struct worker *workers;
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
	const struct run *runs;
	size_t n_runs;
	struct writer *writer;
	struct writer *preserved;
};

/* Bytes of buffers for these parameters: what the plan prints, what converter_new() takes. */
int converter_memory(const struct convert_params *params, struct band_limits *limits,
		     uint64_t *bytes, struct err *err);

/* A converter for the plan; *out is NULL on failure. */
int converter_new(struct converter **out, const struct plan *plan,
		  const struct convert_params *params, struct progress *progress, struct err *err);
void converter_free(struct converter *converter);

/* Fills one output shard, and (unless NULL) the shard of preserved sources. */
int converter_shard(struct converter *converter, size_t shard, struct writer *writer,
		    struct writer *preserved, struct err *err);

/* Saturated and non-finite values so far, and the worst SQNR. */
void converter_result(const struct converter *converter, struct convert_result *result);

/* converter_amax.c: the first look. */

/* Takes the amax that runs [first, end) of the work need and that is not known yet. */
int converter_amax(struct converter *converter, const struct band_list *work, size_t first,
		   size_t end, struct err *err);

/* Has the kernel read what a band is made of, where that lies together. */
int band_read_ahead(struct converter *converter, const struct band *band, struct err *err);

/* Where a quantized unit has its amax from before: one value, or one for each row. */
float *unit_known_amax(const struct converter *converter, size_t u);

/* The refusal of a rect with NaN or inf: names the first such value.  Returns -1. */
int refuse_nonfinite(const struct converter *converter, const struct unit *unit,
		     const struct rect *rect, const struct matrix *x, struct err *err);

/* Keeps what has non-finite values (--on-nonfinite skip). */
int converter_skip_nonfinite(struct converter *converter, struct selection *selection,
			     struct err *err);

/* converter_run.c: the second look, a pool_fn: run `item` of converter->runs to codes and scales in
 * the file. */
int converter_run(void *context, int worker, size_t item, struct err *err);

#endif
