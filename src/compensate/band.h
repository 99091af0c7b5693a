/* SPDX-License-Identifier: Apache-2.0
 *
 * Bands of rows of a unit, in memory: the values of the source, their scales by the recipe, and
 * their codes by rounding to nearest.  A band has whole tiles, or one matrix of a tile has all
 * bands.
 *
 * Order: bands_open(); bands_take_amax() for each stage; band_read() from any thread;
 * bands_close(), bands_release().
 */
#ifndef FP8CONV_COMPENSATE_BAND_H
#define FP8CONV_COMPENSATE_BAND_H

#include <pthread.h>

#include "compensate/compensate.h"
#include "compensate/round.h"
#include "num/scale.h"
#include "source/source.h"

#define BAND_ROWS 128 /* the largest block */

/* The memory of a thread, and the band that it has read. */
struct band_memory {
	const struct compensate_job *job;
	uint64_t row, n_rows; /* of the job */
	const struct qspec *spec;
	struct matrix x;	  /* of the source */
	struct matrix values;	  /* x in fp32: band_values() */
	struct scaling *scalings; /* (tiles of the band) */
	void *scale_inv;	  /* (tiles of the band), in the spec's type */
	size_t tile_cols;	  /* columns of that grid */
	uint8_t *nearest;	  /* (n_rows, cols): codes */
	uint8_t *codes;		  /* (n_rows, cols): for its user */
	float *decoded;		  /* (n_rows, cols): for its user */
	float *amax;		  /* (tiles) */
	struct source_buffers buffers;
	void *memory;
};

/* A zeroed struct is safe to release. */
struct bands {
	const struct compensate_plan *plan;
	struct source source;
	float *amax; /* by scale group: of whole tensors; NaN: not known yet */
	pthread_mutex_t lock;
	struct band_memory *workers; /* by thread */
};

/* Returns the bytes of all threads' bands. */
uint64_t bands_size(const struct compensate_plan *plan);

/* ERR_SYSTEM without memory. */
int bands_open(struct bands *bands, const struct compensate_plan *plan, struct err *err);
void bands_release(struct bands *bands);

/* ERR_INPUT if a file of the source was changed since its header was read. */
int bands_close(struct bands *bands, struct err *err);

/* Takes the amaxes of whole tensors that the jobs of a stage need. */
int bands_take_amax(struct bands *bands, const struct compensate_stage *stage, struct err *err);

/* Returns the number of bands of a job. */
static inline uint64_t bands_of_job(const struct compensate_job *job)
{
	return (job->n_rows + BAND_ROWS - 1) / BAND_ROWS;
}

/* Reads band i of a job into the thread's memory, and computes its scales and nearest codes.
 * Returns NULL on failure. */
struct band_memory *band_read(struct bands *bands, int worker, const struct compensate_job *job,
			      uint64_t i, struct err *err);

/* Returns the values of a band in fp32. */
const struct matrix *band_values(struct band_memory *band);

/* Returns codes of a band, and their scales, to read. */
struct quant_in band_codes(const struct band_memory *band, const uint8_t *codes);

/* Returns the place in the store of a band's codes. */
struct store_span band_span(const struct compensate_plan *plan, const struct band_memory *band,
			    size_t rho);

#endif
