/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the data of a plan.  A shard is converted in windows of extents, and an extent in bands:
 * each band is read and converted while it is in the cache, and an extent is written at once.
 * Where a tile is larger than a band, the amax pass first takes the amax of a window's units; the
 * cast pass then reads them from the page cache.  No byte depends on the order in which workers
 * finish.
 *
 *    pipeline_new()
 *    pipeline_shard()   for each shard; pipeline_figures() after it
 *    pipeline_free()
 */
#ifndef FP8CONV_EXECUTE_PIPELINE_H
#define FP8CONV_EXECUTE_PIPELINE_H

#include <pthread.h>

#include "ckpt/write_queue.h"
#include "plan/bands.h"
#include "execute/execute.h"
#include "source/source.h"

struct pipeline_worker {
	void *memory;
	struct source_buffers buffers;
	struct write_queue queue; /* codes, and scales if they fit */
	void *scales;
};

/* The current shard, and the extents that the pool works on. */
struct shard_work {
	const struct output_shard *shard;
	struct writer *writer;
	struct writer *preserved;    /* NULL: not requested */
	const struct band_list *all; /* of the shard */
	const struct extent *extents;
	size_t n_extents;
};

/* The known amax of tiles that are larger than a band. */
struct known_amax {
	float *groups; /* by scale group: of whole tensors */
	bool *has_group;
	float **units; /* by unit: of rows longer than a band; NULL: unknown */
};

struct output_figures {
	struct error_stats error;
	uint64_t n_changed;   /* values of a low-bit weight that are not exact */
	uint64_t n_overflow;  /* values beyond the largest code */
	uint64_t n_underflow; /* values that become zero; with every_row */
};

/* What is done after each window, when the writer has all of it. */
struct window_end {
	uint64_t bytes; /* of the source, in a window */
	int (*done)(void *context, struct err *err);
	void *context;
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
	struct shard_work work;
	pthread_mutex_t lock;		/* of the members below */
	struct output_figures *outputs; /* of the shard */
	struct quant_stats counts;	/* of the shard */
	struct known_amax amax;
	bool every_row;			  /* figures are of all rows, not of some */
	struct store *store;		  /* of compensated codes; NULL: none */
	const struct store_place *places; /* by unit: in the store */
	uint64_t n_compensated, n_moved;  /* codes of the shard; see struct figures */
	struct window_end window_end;	  /* zeroed: nothing is done */
};

/* Makes a pipeline for the plan.  On failure *out is NULL. */
int pipeline_new(struct pipeline **out, const struct plan *plan,
		 const struct convert_params *params, struct progress *progress, struct err *err);
void pipeline_free(struct pipeline *pipeline);

/* Writes the data of one output shard, and (unless NULL) of the shard of preserved sources.
 * ERR_INPUT for non-finite values (unless params allow them) and a source that changed;
 * ERR_INTERRUPTED after a signal. */
int pipeline_shard(struct pipeline *pipeline, size_t shard, struct writer *writer,
		   struct writer *preserved, struct err *err);

/* Writes the data of some outputs of a shard, and takes nothing from calls before: since then, the
 * source may have got other values.  Else as pipeline_shard(). */
int pipeline_outputs(struct pipeline *pipeline, size_t shard, const struct output_set *set,
		     struct writer *writer, struct err *err);

/* Takes the codes of the units that are in the store from there, with the rho of its outcome. */
void pipeline_take_codes(struct pipeline *pipeline, struct store *store);

/* Returns in *figures the effect of rounding on the units of the last shard. */
void pipeline_figures(const struct pipeline *pipeline, size_t shard, struct figures *figures);

/* pipeline_amax.c: the amax pass. */

/* Takes the amax that extents [first, end) of the list need, unless it is known. */
int pipeline_amax(struct pipeline *pipeline, const struct band_list *list, size_t first, size_t end,
		  struct err *err);

/* Asks the kernel to read the source of a band ahead, if it is contiguous. */
int band_read_ahead(struct pipeline *pipeline, const struct band *band, struct err *err);

/* Returns the known amax of a quantized unit: one value for each matrix, or one for each row. */
float *pipeline_known_amax(const struct pipeline *pipeline, size_t u);

/* Fails with ERR_INPUT that names the first NaN or inf of a rect.  Returns -1. */
int pipeline_refuse_nonfinite(const struct pipeline *pipeline, const struct unit *unit,
			      const struct rect *rect, const struct matrix *x, struct err *err);

/* Keeps the units that have non-finite values (--on-nonfinite skip). */
int pipeline_skip_nonfinite(struct pipeline *pipeline, struct selection *selection,
			    struct err *err);

/* pipeline_check.c: what a conversion refuses in the values of its source. */

/* Counts codes that are NaN or infinite in a band of codes that are kept, or refuses them. */
int pipeline_check_codes(struct pipeline *pipeline, const struct band *band, const uint8_t *codes,
			 struct err *err);

/* Checks the scales of a band, which is copied as bytes and cut at elements, by
 * source_check_scales(). */
int pipeline_check_scales(const struct pipeline *pipeline, const struct band *band,
			  const void *scales, struct err *err);

/* ERR_INPUT for the first of the decoded values of a band that is NaN or infinite in its type. */
int pipeline_check_values(const struct pipeline *pipeline, const struct band *band,
			  enum dtype dtype, const void *values, struct err *err);

/* pipeline_cast.c: the cast pass, a pool_fn: converts extent `item` of pipeline->work to codes and
 * scales in the file. */
int pipeline_cast(void *context, int worker, size_t item, struct err *err);

#endif
