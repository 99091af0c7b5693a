/* SPDX-License-Identifier: Apache-2.0 */
#include "model/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/forward_internal.h"

int forward_init(struct forward *forward, const struct model *model, bool precision_f32, struct err *err)
{
	*forward = (struct forward){ .model = model, .compute = compute_select(), .round = !precision_f32 };
	forward->input = precision_f32 ? DT_F32 : gemm_bf16_type();
	return gemm_open(&forward->gemm, err);
}

void forward_release(struct forward *forward)
{
	gemm_close(forward->gemm);
	*forward = (struct forward){ 0 };
}

/* The widest of something over the layers. */
struct widths {
	size_t mlp, experts, fused, q, narrow, expanded;
};

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

static struct widths widths_of(const struct model *model)
{
	struct widths widths = { .q = model->n_heads * model->head_dim };

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		widths.mlp = larger(widths.mlp, larger(larger(layer->width, layer->shared_width), layer->expert_width));
		widths.narrow = larger(widths.narrow, larger(layer->linear[LINEAR_Q_A].n, layer->linear[LINEAR_KV_A].n));
		widths.expanded = larger(widths.expanded, layer->linear[LINEAR_KV_B].n);
		widths.experts = larger(widths.experts, layer->n_experts);
		widths.fused = larger(widths.fused, layer->linear[LINEAR_GATE_UP].n);
		widths.fused = larger(widths.fused, layer->n_experts ? layer->experts[0][EXPERT_ROLE_GATE_UP].n : 0);
		widths.q = larger(widths.q, layer->linear[LINEAR_QKV].n);
	}
	return widths;
}

/* The arrays of a lane, and their lengths. */
#define N_ARRAYS 17
struct lane_array {
	void **place;
	size_t n, size;
};

static void lane_arrays(struct forward_lane *lane, const struct model *model, struct lane_array arrays[N_ARRAYS])
{
	struct widths widths = widths_of(model);
	size_t t = lane->max_tokens, mixed = model->n_heads * model->value_dim;
	size_t scores = larger(ATTENTION_QUERIES * attention_stride(t), larger(HEAD_BLOCK * gemm_most_part_rows(model->vocab_size), (t + 1) * widths.experts));
	size_t widest = larger(larger(larger(mixed, widths.mlp), model->hidden), widths.narrow);
	size_t wide = attention_wide(model->value_dim);
	bool experts = widths.experts > 0;
	const struct lane_array all[N_ARRAYS] = {
		{ (void **)&lane->normed, t * model->hidden, sizeof(float) },
		{ (void **)&lane->q, t * widths.q, sizeof(float) },
		{ (void **)&lane->k, t * model->n_kv_heads * model->head_dim, sizeof(float) },
		{ (void **)&lane->v, t * model->n_kv_heads * model->value_dim, sizeof(float) },
		{ (void **)&lane->narrow, t * widths.narrow, sizeof(float) },
		{ (void **)&lane->expanded, t * widths.expanded, sizeof(float) },
		{ (void **)&lane->mixed, t * mixed, sizeof(float) },
		{ (void **)&lane->out, t * model->hidden, sizeof(float) },
		{ (void **)&lane->gate, t * larger(widths.mlp, widths.fused), sizeof(float) },
		{ (void **)&lane->up, t * widths.mlp, sizeof(float) },
		{ (void **)&lane->keys, attention_whole(t) * model->head_dim, sizeof(float) },
		{ (void **)&lane->values, t * wide, sizeof(float) },
		{ (void **)&lane->mixing, ATTENTION_QUERIES * wide, sizeof(float) },
		{ (void **)&lane->scores, scores, sizeof(float) },
		{ (void **)&lane->gathered, experts ? t * model->hidden : 0, sizeof(float) },
		{ (void **)&lane->expert_out, experts ? t * model->hidden : 0, sizeof(float) },
		{ (void **)&lane->rounded, t * widest, sizeof(uint16_t) },
	};

	memcpy(arrays, all, sizeof all);
}

uint64_t forward_lane_size(const struct model *model, size_t max_tokens)
{
	struct forward_lane lane = { .max_tokens = max_tokens };
	struct lane_array arrays[N_ARRAYS];
	uint64_t size = 0;

	lane_arrays(&lane, model, arrays);
	for (int i = 0; i < N_ARRAYS; i++)
		size += (uint64_t)arrays[i].n * arrays[i].size;
	return size;
}

int forward_lane_new(struct forward_lane **result, const struct forward *forward, size_t max_tokens, int number,
		     struct err *err)
{
	const struct model *model = forward->model;
	struct forward_lane *lane = xcalloc(1, sizeof *lane);
	size_t n_chosen = widths_of(model).experts ? model->routing.top_k : 0;
	struct lane_array arrays[N_ARRAYS];

	*lane = (struct forward_lane){ .number = number, .max_tokens = max_tokens };
	lane_arrays(lane, model, arrays);
	for (int i = 0; i < N_ARRAYS; i++) {
		if (buffer_alloc(arrays[i].place, arrays[i].n * arrays[i].size, "the values of a sequence", err)) {
			forward_lane_free(lane, forward);
			return -1;
		}
	}
	lane->chosen = xcalloc(max_tokens * n_chosen + 1, sizeof *lane->chosen);
	lane->weights = xcalloc(max_tokens * n_chosen + 1, sizeof *lane->weights);
	lane->cosines = xcalloc(max_tokens * model->head_dim, sizeof *lane->cosines);
	lane->sines = xcalloc(max_tokens * model->head_dim, sizeof *lane->sines);
	*result = lane;
	return 0;
}

void forward_lane_free(struct forward_lane *lane, const struct forward *forward)
{
	struct lane_array arrays[N_ARRAYS];

	if (!lane)
		return;
	lane_arrays(lane, forward->model, arrays);
	for (int i = 0; i < N_ARRAYS; i++)
		free(*arrays[i].place);
	free(lane->chosen);
	free(lane->weights);
	free(lane->cosines);
	free(lane->sines);
	gemm_lane_release(forward->gemm, &lane->gemm);
	free(lane);
}

static int observe(const struct forward *forward, const struct sighting *sighting, struct err *err)
{
	for (size_t i = 0; i < forward->n_observers; i++)
		if (forward->observers[i].see(forward->observers[i].context, sighting, err))
			return -1;
	return 0;
}

int forward_show(const struct forward *forward, struct sighting *sighting, struct err *err)
{
	sighting->n_nonfinite = 0;
	sighting->amax = forward->compute->amax(sighting->values, sighting->n_rows * sighting->n_cols,
						&sighting->n_nonfinite);
	return observe(forward, sighting, err);
}

/* What is multiplied with a matrix; x: what observers see of it. */
static int linear_input(const struct forward *forward, struct forward_lane *lane, const struct linear *linear,
			const struct sighting *x, const void **input, struct err *err)
{
	const float *values = x->values;

	if (observe(forward, x, err) ||
	    (linear->module && forward->filter.apply(forward->filter.context, linear, lane->number, x->values, x->n_rows,
						     &values, err)))
		return -1;
	*input = values;
	if (linear->input == DT_BF16) {
		forward->compute->round_bf16(values, x->n_rows * x->n_cols, lane->rounded);
		*input = lane->rounded;
	}
	return 0;
}

/* n columns of a product, from `first` on. */
static int linear_output(const struct forward *forward, const struct linear *linear, struct sighting sighting, float *y,
			 size_t first, size_t n, struct err *err)
{
	if (linear->bias)
		forward->compute->add_row(y, linear->bias + first, sighting.n_rows, n);
	sighting.what = SIGHT_Y;
	sighting.values = y;
	sighting.n_cols = n;
	return forward_show(forward, &sighting, err);
}

/* Rounds x, and looks at it. */
static struct sighting sighting_of(const struct forward *forward, const struct forward_lane *lane,
				   const struct layer *layer, const struct sequence *sequence, float *x, size_t m, size_t k)
{
	struct sighting sighting = { .what = SIGHT_X, .layer = layer ? layer->ref : NULL, .lane = lane->number,
				     .sequence = sequence->index, .values = x, .n_rows = m, .n_cols = k };

	sighting.amax = forward->round ? forward->compute->round_amax(x, m * k, &sighting.n_nonfinite)
				       : forward->compute->amax(x, m * k, &sighting.n_nonfinite);
	return sighting;
}

int linears_run(const struct forward *forward, struct forward_lane *lane, const struct layer *layer, size_t n,
		const struct linear *const linears[], const struct sequence *sequence, float *x, size_t m,
		float *const ys[], struct err *err)
{
	struct sighting sighting;
	const void *input;

	if (m == 0)
		return 0;
	sighting = sighting_of(forward, lane, layer, sequence, x, m, linears[0]->ref->k);
	for (size_t i = 0; i < n; i++) {
		sighting.linear = linears[i]->ref;
		if (linear_input(forward, lane, linears[i], &sighting, &input, err) ||
		    gemm_run(linears[i]->weight, &lane->gemm, input, m, ys[i], err) ||
		    linear_output(forward, linears[i], sighting, ys[i], 0, linears[i]->ref->n, err))
			return -1;
	}
	return 0;
}

int linear_run(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
	       const struct linear *linear, const struct sequence *sequence, float *x, size_t m, float *y,
	       struct err *err)
{
	return linears_run(forward, lane, layer, 1, &linear, sequence, x, m, &y, err);
}

/* normed = norm(x), (tokens, hidden). */
static void norm(const struct forward *forward, const float *x, const float *weight, size_t n_tokens, float *normed)
{
	const struct model *model = forward->model;

	forward->compute->rms_norm(x, model->hidden, weight, model->norm_offset, model->norm_eps, n_tokens, model->hidden,
				   normed, model->hidden);
}

/* A half of a layer: its input normed, its output in lane->out, normed too where the layer says so, added to the stream. */
static int half(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		struct sequence *sequence, enum vector_role before, enum vector_role after,
		int (*run)(const struct forward *, struct forward_lane *, const struct layer *, const struct sequence *,
			   struct err *),
		struct err *err)
{
	norm(forward, sequence->residual, layer->vector[before], sequence->n_tokens, lane->normed);
	if (run(forward, lane, layer, sequence, err))
		return -1;
	if (layer->vector[after])
		norm(forward, lane->out, layer->vector[after], sequence->n_tokens, lane->out);
	forward->compute->add(sequence->residual, lane->out, sequence->n_tokens * forward->model->hidden);
	return 0;
}

int forward_layer(const struct forward *forward, struct forward_lane *lane, const struct layer *layer,
		  struct sequence *sequence, struct err *err)
{
	return half(forward, lane, layer, sequence, VECTOR_NORM_ATTENTION, VECTOR_NORM_ATTENTION_OUT, forward_attention,
		    err) ||
			       half(forward, lane, layer, sequence, VECTOR_NORM_MLP, VECTOR_NORM_MLP_OUT, forward_mlp, err)
		       ? -1
		       : 0;
}

/* log(exp(a) + exp(b)). */
static double log_add(double a, double b)
{
	double most = a > b ? a : b;

	return most + log(exp(a - most) + exp(b - most));
}

/* Some columns of the logits of a few tokens, after which the labels come. */
struct logits {
	const float *values; /* (tokens, n), of columns from col on */
	size_t n, col;
	const uint32_t *labels; /* none of the last token of a sequence */
	size_t n_labels;
};

/* Takes them into the sum over all columns, log(sum exp), of each token, and the labels' own into *nll. */
static void logits_add(const struct compute *compute, const struct logits *logits, double *sums, double *nll)
{
	for (size_t i = 0; i < logits->n_labels; i++) {
		const float *row = logits->values + i * logits->n;
		size_t label = logits->labels[i];

		sums[i] = log_add(sums[i], (double)compute->log_sum_exp(row, logits->n));
		if (label >= logits->col && label < logits->col + logits->n)
			*nll -= (double)row[label - logits->col];
	}
}

static void cap_logits(float softcap, float *x, size_t n)
{
	for (size_t i = 0; softcap > 0 && i < n; i++)
		x[i] = softcap * tanhf(x[i] / softcap);
}

/* Tokens [first, first + m), m <= HEAD_BLOCK. */
static int head_block(const struct forward *forward, struct forward_lane *lane, const struct linear *head,
		      const struct sequence *sequence, size_t first, size_t m, double *nll, float *logits, struct err *err)
{
	const struct model *model = forward->model;
	struct sighting sighting = sighting_of(forward, lane, NULL, sequence, lane->normed + first * model->hidden, m,
					       model->hidden);
	struct logits part = { .values = lane->scores, .labels = sequence->tokens + first + 1,
			       .n_labels = first + m < sequence->n_tokens ? m : m - 1 };
	double sums[HEAD_BLOCK];
	const void *input;

	sighting.linear = head->ref;
	if (linear_input(forward, lane, head, &sighting, &input, err))
		return -1;
	for (size_t i = 0; i < m; i++)
		sums[i] = -INFINITY;
	for (size_t p = 0; p < gemm_parts(head->weight); p++, part.col += part.n) {
		part.n = gemm_part_rows(head->weight, p);
		if (gemm_run_part(head->weight, p, &lane->gemm, input, m, lane->scores, err) ||
		    linear_output(forward, head, sighting, lane->scores, part.col, part.n, err))
			return -1;
		cap_logits(model->logit_softcap, lane->scores, m * part.n);
		for (size_t i = 0; logits && i < m; i++)
			memcpy(logits + (first + i) * model->vocab_size + part.col, lane->scores + i * part.n,
			       part.n * sizeof *logits);
		logits_add(forward->compute, &part, sums, nll);
	}
	for (size_t i = 0; i < part.n_labels; i++)
		*nll += sums[i];
	return 0;
}

int forward_head(const struct forward *forward, struct forward_lane *lane, const float *weight, const struct linear *head,
		 struct sequence *sequence, double *nll, float *logits, struct err *err)
{
	size_t n = sequence->n_tokens;

	*nll = 0;
	norm(forward, sequence->residual, weight, n, lane->normed);
	for (size_t first = 0; first < n; first += HEAD_BLOCK)
		if (head_block(forward, lane, head, sequence, first, n - first < HEAD_BLOCK ? n - first : HEAD_BLOCK, nll,
			       logits, err))
			return -1;
	return 0;
}
