/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of a cast: the elements of a matrix, or the values of a norm (num/norm.h) or an
 * activation (num/activation.h) of them.  The kernel looks at the kind when it runs:
 * kernels for each would be three times as many, and each takes seconds to compile.
 */
#ifndef FP8CONV_KERNELS_GPU_CAST_SOURCE_H
#define FP8CONV_KERNELS_GPU_CAST_SOURCE_H

#include "num/norm.h"
#include "num/scale.h"
#include "kernels/gpu/activate.h"
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

	__device__ bool packs(void) const
	{
		return gamma.aligned && (!has_beta || beta.aligned);
	}

	/* As source::make_below(): all groups have the same gamma and beta. */
	template <int N>
	__device__ void load_below(float v[N][GROUP], const struct elements &x, size_t row,
				   size_t col, size_t rows) const
	{
		float g[GROUP], b[GROUP] = {}, mu[N], rsigma[N];
		uint4 packed[N];

		x.load_packed<N>(packed, row * x.stride + col, { rows * x.stride, N });
		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			rsigma[k] = m.rsigma[row + (size_t)k * rows];
			mu[k] = m.kind == NORM_LAYER ? m.mu[row + (size_t)k * rows] : 0;
		}
		factors(g, b, col);
		x.unpack_groups<N>(v, packed);
		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			GPU_UNROLL
			for (int i = 0; i < GROUP; i++)
				v[k][i] = norm_apply(v[k][i], mu[k], rsigma[k], g[i]);
			if (has_beta) {
				GPU_UNROLL
				for (int i = 0; i < GROUP; i++)
					v[k][i] = v[k][i] + b[i];
			}
		}
	}

	/* As source::make_beside().  A gamma of 16 bits is loaded with x; for one of fp32, and for
	 * beta, there are no registers: each group loads its own. */
	template <int N>
	__device__ void load_beside(float v[N][GROUP], const struct elements &x, size_t row,
				    size_t col, struct group_spread by) const
	{
		const struct one_row of = { m.kind == NORM_LAYER ? m.mu[row] : 0, m.rsigma[row],
					    x.dtype == DT_BF16 };
		uint4 of_x[N], of_gamma[N];
		float g[GROUP];

		x.load_packed<N>(of_x, row * x.stride + col, by);
		if (gamma.dtype != DT_F32) {
			gamma.load_shared<N>(of_gamma, col, by);
			GPU_UNROLL
			for (int k = 0; k < N; k++) {
				unpack_either(g, of_gamma[k], gamma.dtype == DT_BF16);
				make_group(v[k], of_x[k], g, of, col + by.at(k));
			}
		} else {
			GPU_UNROLL
			for (int k = 0; k < N; k++) {
				gamma.load_whole(g, 0, col + by.at(k));
				make_group(v[k], of_x[k], g, of, col + by.at(k));
			}
		}
	}

	/* What all groups of a row share. */
	struct one_row {
		float mu, rsigma;
		bool x_is_bf16;
	};

	/* v = the norm of x, of the columns from col on.  g: gamma, overwritten. */
	__device__ void make_group(float v[GROUP], const uint4 &x, float g[GROUP],
				   const struct one_row &of, size_t col) const
	{
		if (zero_centered_gamma) {
			GPU_UNROLL
			for (int i = 0; i < GROUP; i++)
				g[i] = 1 + g[i];
		}
		unpack_either(v, x, of.x_is_bf16);
		GPU_UNROLL
		for (int i = 0; i < GROUP; i++)
			v[i] = norm_apply(v[i], of.mu, of.rsigma, g[i]);
		if (!has_beta)
			return;
		beta.load_whole(g, 0, col);
		GPU_UNROLL
		for (int i = 0; i < GROUP; i++)
			v[i] = v[i] + g[i];
	}

	/* What a whole group of columns is multiplied by, and beta if there is one. */
	__device__ void factors(float g[GROUP], float b[GROUP], size_t col) const
	{
		gamma.load_whole(g, 0, col);
		if (has_beta)
			beta.load_whole(b, 0, col);
		if (zero_centered_gamma) {
			GPU_UNROLL
			for (int i = 0; i < GROUP; i++)
				g[i] = 1 + g[i];
		}
	}
};

/* Eight elements of 16 bits of each matrix, and what they are. */
struct activated_args {
	uint4 x, up;
	enum activation activation;
	bool x_is_bf16, up_is_bf16, gated;
};

static __device__ GPU_CALL struct element_group activated_group(struct activated_args a)
{
	struct element_group of;
	float by[GROUP];

	unpack_either(of.v, a.x, a.x_is_bf16);
	activate_each<GROUP>(a.activation, of.v);
	if (!a.gated)
		return of;
	unpack_either(by, a.up, a.up_is_bf16);
	GPU_UNROLL
	for (int i = 0; i < GROUP; i++)
		of.v[i] = of.v[i] * by[i];
	return of;
}

/* From one group of a thread to its next; the first n exist. */
struct spacing {
	size_t rows, cols;
	int n;

	__device__ struct group_spread in(const struct elements &x) const
	{
		return { rows * x.stride + cols, n };
	}
};

/* An activation, gated or not. */
struct activated {
	struct elements up;
	enum activation activation;
	bool gated;

	__device__ void apply(float v[GROUP], size_t row, size_t col, int n) const
	{
		float by[GROUP];

		for (int i = 0; i < GROUP; i++)
			v[i] = i < n ? activate_slowly(activation, v[i]) : 0;
		if (!gated)
			return;
		up.load(by, row, col, n);
		for (int i = 0; i < GROUP; i++)
			v[i] = v[i] * by[i];
	}

	__device__ bool packs(void) const
	{
		return !gated || up.packs();
	}

	/* v[k] = values (row + k * by.rows, col + k * by.cols ...), as spread: all loads before
	 * the first use. */
	template <int N>
	__device__ void load_groups(float v[N][GROUP], const struct elements &x, size_t row,
				    size_t col, struct spacing by) const
	{
		struct activated_args args = {
			{}, {}, activation, x.dtype == DT_BF16, false, gated
		};
		uint4 of_x[N], of_up[N] = {};

		x.load_packed<N>(of_x, row * x.stride + col, by.in(x));
		if (gated) {
			args.up_is_bf16 = up.dtype == DT_BF16;
			up.load_packed<N>(of_up, row * up.stride + col, by.in(up));
		}
		GPU_UNROLL
		for (int k = 0; k < N; k++) {
			struct element_group of;

			args.x = of_x[k];
			args.up = of_up[k];
			of = activated_group(args);
			GPU_UNROLL
			for (int i = 0; i < GROUP; i++)
				v[k][i] = of.v[i];
		}
	}
};

enum source_kind {
	SOURCE_ELEMENTS,
	SOURCE_NORM,
	SOURCE_ACTIVATION,
};

/* Zeroed but for x is the elements of x. */
struct gpu_source {
	struct elements x; /* (rows, cols) */
	enum source_kind kind;
	struct normed norm;
	struct activated activation;

	/* v[0 .. n-1] = values (row, col ...); the rest of v is 0. */
	__device__ void load(float v[GROUP], size_t row, size_t col, int n) const
	{
		struct element_group made;

		if (kind == SOURCE_ELEMENTS && x.aligned && n == GROUP) {
			x.load_whole(v, row, col);
			return;
		}
		made = make(row, col, n);
		for (int i = 0; i < GROUP; i++)
			v[i] = made.v[i];
	}

	/* Can make_below() and make_beside() make whole groups? */
	__device__ bool makes_packed(void) const
	{
		if (kind == SOURCE_ELEMENTS || !x.packs())
			return false;
		return kind == SOURCE_NORM ? norm.packs() : activation.packs();
	}

	/* v[k] = values (row + k * rows, col ...): all loads before the first use. */
	template <int N>
	__device__ void make_below(float v[N][GROUP], size_t row, size_t col, size_t rows) const
	{
		if (kind == SOURCE_NORM)
			norm.load_below<N>(v, x, row, col, rows);
		else
			activation.load_groups<N>(v, x, row, col, { rows, 0, N });
	}

	/* v[k] = values (row, col + by.at(k) ...), as make_below(). */
	template <int N>
	__device__ void make_beside(float v[N][GROUP], size_t row, size_t col,
				    struct group_spread by) const
	{
		if (kind == SOURCE_NORM)
			norm.load_beside<N>(v, x, row, col, by);
		else
			activation.load_groups<N>(v, x, row, col, { 0, by.step, by.n });
	}

	__device__ GPU_CALL struct element_group make(size_t row, size_t col, int n) const
	{
		struct element_group made;

		x.load(made.v, row, col, n);
		if (kind == SOURCE_NORM && n)
			norm.apply(made.v, row, col, n);
		else if (kind == SOURCE_ACTIVATION)
			activation.apply(made.v, row, col, n);
		return made;
	}
};

static inline struct gpu_source source_of_elements(const struct matrix *x)
{
	struct gpu_source source = {};

	source.x = elements_of(x);
	return source;
}

/* norm.cu: writes mu and rsigma of each row to the arrays of args.  activation.cu. */
struct gpu_source source_of_norm(struct device_stream *stream, const struct norm_args *args);
struct gpu_source source_of_activation(const struct activation_args *args);

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
void gpu_cast_source(struct device_stream *stream, const struct gpu_source *x, struct cast_args a);

#endif
