/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a cast: the elements of a matrix, or the values of a norm (num/norm.h) or an
 * activation (num/activation.h) of them.  The kernel looks at the kind when it runs:
 * kernels for each would be three times as many, and each takes seconds to compile.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_SOURCE_H
#define FP8CONV_KERNELS_GPU_CAST_SOURCE_H

#include "num/activation.h"
#include "num/norm.h"
#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/load.h"

/* Of each row: the mean, which NORM_LAYER alone has, and the reciprocal of the root mean square. */
struct moments {
	enum norm_kind kind;
	float epsilon;
	float *mu, *rsigma; /* (rows) */
};

/* A norm of rows whose moments are known. */
struct normed {
	struct elements gamma, beta; /* one row */
	struct moments m;
	bool zero_centered_gamma, has_beta;

	__device__ void apply(float v[GROUP], size_t row, size_t col, int n) const
	{
		float g[GROUP], b[GROUP], mu = m.kind == NORM_LAYER ? m.mu[row] : 0;

		gamma.load(g, 0, col, n);
		if (has_beta)
			beta.load(b, 0, col, n);
		for (int i = 0; i < GROUP; i++) {
			v[i] = norm_apply(v[i], mu, m.rsigma[row],
					  zero_centered_gamma ? 1 + g[i] : g[i]);
			if (has_beta)
				v[i] = v[i] + b[i];
			if (i >= n)
				v[i] = 0;
		}
	}
};

static __device__ GPU_CALL float activated_element(enum activation activation, float x)
{
	return activation_apply(activation, x);
}

/* An activation, gated or not. */
struct activated {
	struct elements up;
	enum activation activation;
	bool gated;

	__device__ void apply(float v[GROUP], size_t row, size_t col, int n) const
	{
		float by[GROUP];

		for (int i = 0; i < GROUP; i++)
			v[i] = i < n ? activated_element(activation, v[i]) : 0;
		if (!gated)
			return;
		up.load(by, row, col, n);
		for (int i = 0; i < GROUP; i++)
			v[i] = v[i] * by[i];
	}
};

enum source_kind {
	SOURCE_ELEMENTS,
	SOURCE_NORM,
	SOURCE_ACTIVATION,
};

/* Zeroed but for x is the elements of x. */
struct source {
	struct elements x; /* (rows, cols) */
	enum source_kind kind;
	struct normed norm;
	struct activated activation;

	/* v[0 .. n-1] = values (row, col ...); the rest of v is 0. */
	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		struct group made;

		if (kind == SOURCE_ELEMENTS && x.aligned && n == GROUP) {
			x.load_whole(v, row, col);
			return;
		}
		made = make(row, col, n);
		for (int i = 0; i < GROUP; i++)
			v[i] = made.v[i];
	}

	__device__ GPU_CALL struct group make(size_t row, size_t col, int n) const
	{
		struct group made;

		x.load(made.v, row, col, n);
		if (kind == SOURCE_NORM && n)
			norm.apply(made.v, row, col, n);
		else if (kind == SOURCE_ACTIVATION)
			activation.apply(made.v, row, col, n);
		return made;
	}
};

static inline struct source source_of_elements(const struct matrix *x)
{
	struct source source = {};

	source.x = elements_of(x);
	return source;
}

/* norm.cu: writes mu and rsigma of each row to the arrays of args.  activation.cu. */
struct source source_of_norm(struct device_stream *stream, const struct norm_args *args);
struct source source_of_activation(const struct activation_args *args);

/* How a source is cast. */
struct cast_args {
	size_t rows, cols; /* of the source */
	struct qspec spec;
	float limit;	    /* scale_limit() */
	struct fp8_out out; /* stats is ignored */
	/* of each tile of the rowwise copy, or the scales for ARITH_GIVEN; NULL if a region holds
	 * its tiles */
	const float *amax;
	const float *amax_turned;   /* of the columnwise copy; NULL for callers */
	unsigned long long *counts; /* (N_COUNTS) */
};

/* cast.cu: puts the kernels that cast a source into the stream. */
void gpu_cast_source(struct device_stream *stream, const struct source *x, struct cast_args a);

#endif
