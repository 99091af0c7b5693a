/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of experts, a warp for each token, and the choices sorted by expert, a block for each
 * expert: 4 bytes read for each choice and expert, from a cache.
 */
#include "kernels/gpu/forward/forward.h"

#include "backend/routing.h"
#include "kernels/gpu/reduce.h"

#define ROUTE_THREADS 128
#define TAKEN	      0xFFFFFFFFu /* in the place of a score; a NaN that no score becomes */

/* A token, for its warp.  Each lane writes the scores of every 32nd expert, and reads others after
 * __syncwarp(). */
struct token {
	const struct route_args *a;
	float *scores, *biased; /* (n_experts + n_shared) */
	unsigned lane;
};

/* Replaces the scores by their softmax, in the order of the CPU's sums. */
static __device__ inline void softmax(const struct token &t)
{
	size_t n = t.a->n_experts;
	float max = -INFINITY, sum = 0, all;

	for (size_t e = t.lane; e < n; e += 32)
		max = larger(t.scores[e], max);
	max = lanes_largest(max, 32);
	for (size_t e = t.lane % SUM_LANES; e < n; e += SUM_LANES)
		sum += f32_exp(t.scores[e] - max);
	all = max + logf(lanes_sum(sum));
	__syncwarp(); /* a score is read by two lanes above */
	for (size_t e = t.lane; e < n; e += 32)
		t.scores[e] = f32_exp(t.scores[e] - all);
}

static __device__ inline void make_scores(const struct token &t)
{
	size_t n_all = t.a->n_experts + t.a->n_shared;

	for (size_t e = t.lane; t.a->softcap > 0 && e < n_all; e += 32)
		t.scores[e] = routing_logit(t.a, t.scores[e]);
	__syncwarp();
	if (t.a->kind == ROUTE_SOFTMAX)
		softmax(t);
	for (size_t e = t.lane; e < n_all; e += 32) {
		float score = t.scores[e];

		if (t.a->kind != ROUTE_SOFTMAX)
			t.scores[e] = score = routing_score(t.a->kind, score);
		if (t.a->bias && e < t.a->n_experts)
			score = score + t.a->bias[e];
		t.biased[e] = f32_is_nan(score) ? f32_from_bits(F32_NAN) : score;
	}
	__syncwarp();
}

/* Returns the open group with the smallest score, of equal ones the last; -1: none. */
static __device__ inline int worst_group(const struct token &t, size_t size)
{
	float min = INFINITY;
	int worst = -1;

	for (size_t g = t.lane; g < t.a->n_groups; g += 32) {
		float score = routing_group_score(t.a, t.biased + g * size, size);

		if (score > -INFINITY && score <= min) {
			min = score;
			worst = (int)g;
		}
	}
	for (int step = 16; step > 0; step /= 2) {
		float score = shuffle_xor(min, step);
		int group = (int)__shfl_xor_sync(GPU_ALL_LANES, (unsigned)worst, step);

		if (group >= 0 && (worst < 0 || score < min || (score == min && group > worst))) {
			min = score;
			worst = group;
		}
	}
	return worst;
}

static __device__ inline void mask_groups(const struct token &t)
{
	size_t size = t.a->n_experts / t.a->n_groups;

	for (size_t n_open = t.a->n_groups; n_open > t.a->top_groups; n_open--) {
		int worst = worst_group(t, size);

		__syncwarp(); /* all lanes have read the scores */
		for (size_t e = t.lane; worst >= 0 && e < t.a->n_experts; e += 32) {
			if (e / size == (size_t)worst)
				t.biased[e] = -INFINITY;
		}
		__syncwarp();
	}
}

/* Returns the expert with the largest score of those that are not taken, of equal ones the first,
 * and takes it.  As in a plain loop, a NaN is larger than all if it comes first, and else
 * smaller. */
static __device__ inline unsigned take_best(const struct token &t)
{
	unsigned best = UINT32_MAX, first = UINT32_MAX; /* first: twice the expert, + 1 for a NaN */
	float max = -INFINITY;

	for (size_t e = t.lane; e < t.a->n_experts; e += 32) {
		float score = t.biased[e];
		bool nan = f32_is_nan(score);

		if (f32_bits(score) == TAKEN)
			continue;
		if (first == UINT32_MAX)
			first = 2 * (unsigned)e + nan;
		if (!nan && (best == UINT32_MAX || score > max)) {
			best = (unsigned)e;
			max = score;
		}
	}
	for (int step = 16; step > 0; step /= 2) {
		float score = shuffle_xor(max, step);
		unsigned expert = __shfl_xor_sync(GPU_ALL_LANES, best, step);
		unsigned other = __shfl_xor_sync(GPU_ALL_LANES, first, step);

		if (score > max || (score == max && expert < best)) {
			best = expert;
			max = score;
		}
		first = other < first ? other : first;
	}
	if (first % 2 && first != UINT32_MAX)
		best = first / 2;
	if (best % 32 == t.lane)
		t.biased[best] = f32_from_bits(TAKEN);
	return best;
}

static __global__ void route_tokens(struct route_args a)
{
	size_t i = (size_t)blockIdx.x * (ROUTE_THREADS / 32) + threadIdx.x / 32;
	size_t n = a.n_experts + a.n_shared, k = a.top_k;
	struct token t = { &a, a.scores + i * n, a.scores + (a.n_tokens + i) * n,
			   threadIdx.x % 32 };

	if (i >= a.n_tokens)
		return;
	make_scores(t);
	if (a.n_groups > 1)
		mask_groups(t);
	for (size_t j = 0; j < k && !a.are_chosen; j++) {
		unsigned best = take_best(t);

		if (t.lane == 0)
			a.chosen[i * k + j] = best;
	}
	if (t.lane == 0)
		routing_end(&a, t.scores, i);
}

void gpu_route(struct device_stream *stream, const struct route_args *args)
{
	size_t n_warps = ROUTE_THREADS / 32;

	if (args->n_tokens == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(route_tokens, (args->n_tokens + n_warps - 1) / n_warps, ROUTE_THREADS,
		   device_stream_native(stream), *args);
	device_launched(stream, "route");
}

/* Returns how many threads of the block before this one have `is`; *total becomes how many of all
 * have it. */
static __device__ inline unsigned block_rank(unsigned *of_warp, bool is, unsigned *total)
{
	unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned all = __ballot_sync(GPU_ALL_LANES, is), rank = __popc(all & ((1u << lane) - 1));

	__syncthreads(); /* threads may still read the counts before */
	if (lane == 0)
		of_warp[warp] = __popc(all);
	__syncthreads();
	*total = 0;
	for (unsigned w = 0; w < N_WARPS; w++) {
		rank += w < warp ? of_warp[w] : 0;
		*total += of_warp[w];
	}
	return rank;
}

static __device__ inline void choice_put(const struct sort_choices_args &a, size_t i,
					 unsigned place, unsigned expert, unsigned *counts)
{
	size_t token = i / a.top_k;
	unsigned s = 0;

	while (token >= a.ends[s])
		s++;
	atomicAdd(&counts[s], 1u);
	a.rows[place] = (uint32_t)token;
	a.factors[place] = a.weights[i];
	if (a.segments)
		a.segments[place] = expert * (uint32_t)a.n_sequences + s;
	if (a.places)
		a.places[i] = place;
}

static __global__ void sort_choices(struct sort_choices_args a)
{
	__shared__ unsigned of_warp[N_WARPS], counts[SORT_MAX_SEQUENCES];
	__shared__ unsigned n_before;
	unsigned expert = blockIdx.x, place = 0, total;
	size_t n = a.n_tokens * a.top_k;

	if (threadIdx.x == 0)
		n_before = 0;
	if (threadIdx.x < SORT_MAX_SEQUENCES)
		counts[threadIdx.x] = 0;
	__syncthreads();
	for (size_t i = threadIdx.x; i < n; i += THREADS)
		place += a.chosen[i] < expert;
	if (place)
		atomicAdd(&n_before, place);
	__syncthreads();
	place = n_before;
	for (size_t first = 0; first < n; first += THREADS) {
		size_t i = first + threadIdx.x;
		bool mine = i < n && a.chosen[i] == expert;
		unsigned rank = block_rank(of_warp, mine, &total);

		if (mine)
			choice_put(a, i, place + rank, expert, counts);
		place += total;
	}
	__syncthreads();
	if (threadIdx.x < a.n_sequences)
		a.counts[expert * a.n_sequences + threadIdx.x] = counts[threadIdx.x];
}

void gpu_sort_choices(struct device_stream *stream, const struct sort_choices_args *args)
{
	if (args->n_experts == 0 || device_stream_stopped(stream))
		return;
	GPU_LAUNCH(sort_choices, args->n_experts, THREADS, device_stream_native(stream), *args);
	device_launched(stream, "sort_choices");
}
