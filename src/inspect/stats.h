/* SPDX-License-Identifier: Apache-2.0
 *
 * What the values of a checkpoint's tensors are like: one look at every code and scale.
 */
#ifndef FP8CONV_INSPECT_STATS_H
#define FP8CONV_INSPECT_STATS_H

#include "backend/backend.h"
#include "inspect/inspect.h"

/* Of one tensor.  Zeroed: neither an FP8 weight with a scale nor BF16, F16 or F32. */
struct tensor_stats {
	bool known;
	/* of the values (of codes: times their scales); NaN is ignored, inf counts; 0 of none */
	float amax;
	uint64_t n_nonfinite; /* values, or codes, that are NaN or inf */

	/* Of FP8 weights. */
	bool fp8;
	float scale_least,
		scale_most; /* of those that are finite, as they multiply; 0: there is none */
	uint64_t n_codes;
	uint64_t n_saturated; /* codes of the largest finite magnitude */
	double signal,
		noise; /* as the codes let expect; 10 log10(signal / noise) is the SQNR in dB */
};

/* *stats: one for each of checkpoint.tensors, to be freed by the caller.  ERR_INPUT where a file is
 * cut short or changed. */
int inspect_stats(struct inspection *inspection, const struct backend *backend, int n_threads,
		  struct progress *progress, struct tensor_stats **stats, struct err *err);

/* dB; NAN of what is no FP8 weight, or holds zeros alone. */
double tensor_stats_sqnr(const struct tensor_stats *stats);

#endif
