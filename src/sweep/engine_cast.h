/* SPDX-License-Identifier: Apache-2.0
 *
 * The casts of an engine that multiplies in FP8: it quantizes the input of every quantized matrix
 * by the granularity of the weight's scales, and multiplies codes.  Here the values of the codes
 * take the place of the input.
 *
 * Order: engine_casts_init(); engine_casts_add() for each cast; engine_casts_filter() for the
 * forward pass, in which linear.module is one of the list; engine_casts_release().
 *
 * Source: vLLM's Fp8LinearMethod and CompressedTensorsW8A8Fp8, per_token_group_quant_fp8(),
 * mxfp8_quantize(); SGLang has the same casts.
 */
#ifndef FP8CONV_SWEEP_ENGINE_CAST_H
#define FP8CONV_SWEEP_ENGINE_CAST_H

#include "backend/backend.h"
#include "base/mem.h"
#include "forward/forward.h"

/* How an input is cast. */
struct engine_cast {
	struct qspec spec;
	float scale_inv; /* static, of the checkpoint; 0: each tile has its own */
};

/* Values that were cast: all, those beyond the largest code, and those that became zero and were
 * none. */
struct cast_counts {
	uint64_t n, saturated, zeros;
};

/* The memory of one worker.  A zeroed struct is empty. */
struct cast_lane {
	struct buffer codes, scales, values;
	struct cast_counts counts;
};

/* A zeroed struct is empty. */
struct engine_casts {
	struct engine_cast *list;
	size_t n;
	const struct backend *backend;
	struct cast_lane *lanes; /* by worker */
	int n_lanes;
};

/* backend must outlive the casts. */
void engine_casts_init(struct engine_casts *casts, const struct backend *backend, int n_lanes);
void engine_casts_release(struct engine_casts *casts);

/* Sets the spec of the cast that engines make for inputs of weights with such scales: of a
 * granularity, codes of a format, tiles of so many columns, all scales powers of two or not, and of
 * MX the rule of exponents. */
void engine_cast_dynamic(struct engine_cast *cast, enum granularity granularity,
			 enum fp8_format format, size_t cols, bool pow2, enum mx_rule mx_rule);

/* Makes the cast of a granularity static: with this scale of the whole input, above 0. */
void engine_cast_static(struct engine_cast *cast, float scale_inv);

/* Returns the index of an equal cast among the last ones, or else of a new one: matrices with equal
 * casts share one, so that an input of several matrices is cast once.  The list may move. */
size_t engine_casts_add(struct engine_casts *casts, const struct engine_cast *cast);

/* Returns the filter; casts must not move, nor get another member. */
struct input_filter engine_casts_filter(struct engine_casts *casts);

/* What becomes of a matrix in FP8. */
struct cast_request {
	const struct matrix *x;
	const struct qspec *spec;
	const float *amax;	/* of each tile; NULL: to be found.  ARITH_GIVEN: scales instead */
	const float *scale_inv; /* of the codes, where it is known better than from amax; or NULL */
	const char *name;	/* for messages */
};

/* Quantizes x and sets *values to the values of its codes: (rows, cols) in the lane, until its next
 * use.  Counts saturated values.  ERR_SYSTEM without memory. */
int cast_lane_run(struct cast_lane *lane, const struct backend *backend,
		  const struct cast_request *request, const float **values, struct err *err);
void cast_lane_release(struct cast_lane *lane);

#endif
