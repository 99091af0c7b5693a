/* SPDX-License-Identifier: Apache-2.0
 *
 * The causal convolution, and the gates and the scan of gated DeltaNet.
 *
 * In the scan, 4 threads keep a column of a state in registers, a chain of features each, and go
 * through all tokens; a block has 32 columns of a head.  Each key and each query is read once for
 * 32 columns of values, from the caches.
 */
#include <math.h>

#include "kernels/gpu/forward/forward.h"
#include "kernels/gpu/forward/float4_rows.h"
#include "kernels/gpu/reduce.h"
#include "num/softplus.h"

#define TAPS	      4 /* that a thread reads before it adds them */
#define CHAINS	      4
#define COLUMNS	      32 /* of a block */
#define DELTA_THREADS (CHAINS * COLUMNS)

struct convolve {
	struct convolve_args a;

	__device__ void operator()(const struct fours &at) const
	{
		size_t first = at.row + 1 < a.width ? a.width - 1 - at.row : 0;
		float4 sum = { 0, 0, 0, 0 };

		if (a.bias)
			sum = fours_load(a.bias + at.col, at.n, at.aligned);
		for (size_t i = first; i < a.width; i += TAPS) {
			float4 v[TAPS], w[TAPS];

			GPU_UNROLL
			for (int k = 0; k < TAPS; k++) {
				if (i + k >= a.width)
					break;
				const float *x =
					a.x.data + (at.row + 1 + i + k - a.width) * a.x.stride;
				const float *weight = a.weight.data + (i + k) * a.weight.stride;

				v[k] = fours_load(x + at.col, at.n, at.aligned);
				w[k] = fours_load(weight + at.col, at.n, at.aligned);
			}
			GPU_UNROLL
			for (int k = 0; k < TAPS; k++) {
				if (i + k >= a.width)
					break;
				sum = { sum.x + w[k].x * v[k].x, sum.y + w[k].y * v[k].y,
					sum.z + w[k].z * v[k].z, sum.w + w[k].w * v[k].w };
			}
		}
		enum activation activation = a.activation;

		fours_store(a.y.data + at.row * a.y.stride + at.col,
			    fours_each(sum,
				       [activation](float v) {
					       return activation_apply(activation, v);
				       }),
			    at.n, at.aligned);
	}
};

/* A row is a pool. */
struct convolve_pools {
	struct convolve_args a;

	__device__ float mean(size_t pool, size_t col) const
	{
		float max = -INFINITY, total = 0, sum = 0;

		for (int round = 0; round < 2; round++) {
			for (size_t i = pool ? 0 : a.width - a.pool; i < a.width; i++) {
				bool before = i + a.pool < a.width;
				size_t token = pool * a.pool + i + a.pool - a.width;
				size_t at = col + (a.width > a.pool && !before ? a.n_cols : 0);
				float score = 0, share;

				if (a.gates.data)
					score = a.gates.data[token * a.gates.stride + at] +
						a.weight.data[i % a.pool * a.weight.stride + at];
				if (round == 0) {
					max = larger(score, max);
					continue;
				}
				share = f32_exp(score - max);
				total += share;
				sum += share * a.x.data[token * a.x.stride + at];
			}
		}
		return sum / total;
	}

	__device__ void operator()(const struct fours &at) const
	{
		for (int i = 0; i < at.n; i++)
			a.y.data[at.row * a.y.stride + at.col + i] = mean(at.row, at.col + i);
	}
};

void gpu_convolve(struct device_stream *stream, const struct convolve_args *args)
{
	if (args->pool) {
		fours_launch(stream, "convolve_pools", convolve_pools{ *args },
			     args->n_tokens / args->pool, args->n_cols, false);
		return;
	}
	fours_launch(stream, "convolve", convolve{ *args }, args->n_tokens, args->n_cols,
		     rows_aligned(args->x) && rows_aligned(args->weight) && rows_aligned(args->y) &&
			     fours_aligned(args->bias, 0));
}

struct delta_gates {
	struct delta_args a;

	__device__ void operator()(const struct fours &at) const
	{
		for (int i = 0; i < at.n; i++) {
			size_t decay = at.col + i, head = decay / a.n_decays;
			size_t to = at.row * a.n_heads * a.n_decays + decay;
			float x = a.a[to] + a.dt_bias[decay], rate = f32_exp(a.a_log[head]);

			a.a[to] = f32_exp(a.lower_bound < 0 ? a.lower_bound * sigmoid(rate * x)
							    : -rate * f32_softplus(x));
			if (decay % a.n_decays == 0)
				a.b[at.row * a.n_heads + head] =
					sigmoid(a.b[at.row * a.n_heads + head]);
		}
	}
};

/* Of a chain, with room so that the chains of a column lie in different banks. */
#define CHAIN_FOURS (DELTA_MAX_KEY_DIM / CHAINS / 4 + 1)

/* Values of the features of a token and of the next one.  Those of a chain lie together. */
union delta_features {
	float4 fours[2][CHAINS][CHAIN_FOURS];
	float values[2][CHAINS][4 * CHAIN_FOURS];
};

struct delta_tokens {
	union delta_features k, q, decays;
};

/* Returns the place of a feature. */
static __device__ inline float *feature_of(union delta_features *of, size_t token, size_t i)
{
	return &of->values[token % 2][i % CHAINS][i / CHAINS];
}

/* Loads the key, query and decays of a token of a value head to their places. */
static __device__ inline void token_load(struct delta_tokens *to, const struct delta_args *a,
					 size_t token, size_t head)
{
	size_t key_head = head / (a->n_heads / a->n_key_heads);
	size_t from = (token * a->n_key_heads + key_head) * a->key_dim;

	for (unsigned i = threadIdx.x; i < a->key_dim; i += DELTA_THREADS) {
		*feature_of(&to->k, token, i) = a->k[from + i];
		*feature_of(&to->q, token, i) = a->q[from + i];
		if (a->n_decays > 1)
			*feature_of(&to->decays, token, i) =
				a->a[(token * a->n_heads + head) * a->key_dim + i];
	}
}

/* Returns the sum of q k in 16 lanes, to all threads. */
static __device__ inline float token_product(struct delta_tokens *tokens, size_t token, size_t n)
{
	float sum = 0;

	for (size_t i = threadIdx.x % SUM_LANES; i < n; i += SUM_LANES)
		sum += *feature_of(&tokens->q, token, i) * *feature_of(&tokens->k, token, i);
	return lanes_sum(sum);
}

/* Returns the sum of the chains of a column to its threads. */
static __device__ inline float chains_sum(float chain)
{
	chain += shuffle_xor(chain, 2);
	return chain + shuffle_xor(chain, 1);
}

/* Returns the i-th of four values, or of each four. */
static __device__ inline float one_of(float4 v, int i)
{
	return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
}

/* A thread has the OWN features of its chain.  With decays of FEATURES, the state that it keeps
 * is decayed to the next token. */
template <int OWN, bool FEATURES> static __global__ void delta_scan(struct delta_args a)
{
	__shared__ struct delta_tokens tokens;
	size_t n_across = (a.value_dim + COLUMNS - 1) / COLUMNS, head = blockIdx.x / n_across;
	size_t col = blockIdx.x % n_across * COLUMNS + threadIdx.x / CHAINS;
	unsigned chain = threadIdx.x % CHAINS;
	float state[OWN] = {}, sum_k = 0, sum_q = 0;

	token_load(&tokens, &a, 0, head);
	for (size_t t = 0; t < a.n_tokens; t++) {
		size_t at = (t * a.n_heads + head) * a.value_dim + col;
		float decay = FEATURES ? 1 : a.a[t * a.n_heads + head];
		float rate = a.b[t * a.n_heads + head];
		float v = col < a.value_dim ? a.v[at] : 0, d, product;
		const float4 *k = tokens.k.fours[t % 2][chain],
			     *next_k = tokens.k.fours[(t + 1) % 2][chain],
			     *next_q = tokens.q.fours[(t + 1) % 2][chain],
			     *next_decays = tokens.decays.fours[(t + 1) % 2][chain];

		__syncthreads(); /* all threads have used the token before */
		if (t + 1 < a.n_tokens)
			token_load(&tokens, &a, t + 1, head);
		__syncthreads(); /* of no use to the last token, whose sums are dropped */
		product = token_product(&tokens, t, a.key_dim);
		d = rate * (v - decay * chains_sum(sum_k));
		sum_q = decay * chains_sum(sum_q) + product * d;
		if (chain == 0 && col < a.value_dim)
			a.y[at] = sum_q;
		sum_k = sum_q = 0;
		GPU_UNROLL
		for (int i = 0; i < OWN; i += 4) {
			float4 k_own = k[i / 4], k_next = next_k[i / 4], q_next = next_q[i / 4];
			float4 decays = { 1, 1, 1, 1 };

			if (FEATURES)
				decays = next_decays[i / 4];
			GPU_UNROLL
			for (int j = 0; j < 4; j++) {
				if (chain + (unsigned)(i + j) * CHAINS >= a.key_dim)
					continue;
				state[i + j] = fmaf(one_of(k_own, j), d, decay * state[i + j]);
				if (FEATURES)
					state[i + j] *= one_of(decays, j);
				sum_k = fmaf(one_of(k_next, j), state[i + j], sum_k);
				sum_q = fmaf(one_of(q_next, j), state[i + j], sum_q);
			}
		}
	}
}

using delta_kernel = void (*)(struct delta_args);

/* Returns the smallest kernel whose threads have room for the features. */
template <bool FEATURES> static delta_kernel delta_choose(size_t key_dim)
{
	if (key_dim <= 64)
		return delta_scan<64 / CHAINS, FEATURES>;
	if (key_dim <= 128)
		return delta_scan<128 / CHAINS, FEATURES>;
	return delta_scan<DELTA_MAX_KEY_DIM / CHAINS, FEATURES>;
}

void gpu_delta(struct device_stream *stream, const struct delta_args *args)
{
	size_t n_blocks = args->n_heads * ((args->value_dim + COLUMNS - 1) / COLUMNS);
	delta_kernel kernel = args->n_decays > 1 ? delta_choose<true>(args->key_dim)
						 : delta_choose<false>(args->key_dim);

	if (args->a_log)
		fours_launch(stream, "delta_gates", delta_gates{ *args }, args->n_tokens,
			     args->n_heads * args->n_decays, false);
	if (args->n_tokens == 0 || n_blocks == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(kernel, n_blocks, DELTA_THREADS, device_stream_native(stream), *args);
	device_launched(stream, "delta");
}
