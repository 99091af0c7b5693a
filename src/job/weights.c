/* SPDX-License-Identifier: Apache-2.0 */
#include "job/weights.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/pool.h"
#include "job/fp8_source.h"
#include "num/float16.h"

int weights_open(struct weights *weights, const struct forward *forward, const struct io *io,
		 const struct backend *backend, int n_threads, const atomic_int *stop, struct err *err)
{
	const struct checkpoint *checkpoint = forward->model->checkpoint;

	*weights = (struct weights){ .forward = forward, .n_threads = n_threads, .stop = stop };
	source_init(&weights->source, io, checkpoint, backend, -1);
	return fp8_source_recognise(&weights->recognition, checkpoint, io, err);
}

int weights_close(struct weights *weights, struct err *err)
{
	return source_close(&weights->source, err);
}

void weights_release(struct weights *weights)
{
	source_release(&weights->source);
	recognition_release(&weights->recognition);
}

static void widen(const struct matrix *x, float *values)
{
	size_t n = x->rows * x->cols;
	const uint16_t *halves = x->data;

	if (x->dtype == DT_F32)
		memcpy(values, x->data, n * sizeof *values);
	else
		for (size_t i = 0; i < n; i++)
			values[i] = x->dtype == DT_BF16 ? bf16_to_f32(halves[i]) : f16_to_f32(halves[i]);
}

/* What a matrix needs while it is loaded. */
struct staging {
	struct source_buffers buffers;
	float *values;
	uint16_t *halves;
};

static void staging_release(struct staging *staging)
{
	free(staging->buffers.matrix);
	free(staging->buffers.raw);
	free(staging->values);
	free(staging->halves);
}

static int staging_alloc(struct staging *staging, const struct linear_ref *ref, struct err *err)
{
	uint64_t n = (uint64_t)ref->n * ref->k;

	staging->buffers.size = n * sizeof(float);
	return buffer_alloc(&staging->buffers.matrix, n * sizeof(float), "a weight", err) ||
			       buffer_alloc(&staging->buffers.raw, n * sizeof(float), "a weight as it is stored", err) ||
			       buffer_alloc((void **)&staging->values, n * sizeof(float), "the values of a weight", err) ||
			       buffer_alloc((void **)&staging->halves, n * 2, "the values of a weight", err)
		       ? -1
		       : 0;
}

/* The matrix as it stands in the checkpoint; of FP8, its values as fp32. */
static int read_matrix(struct weights *weights, const struct linear_ref *ref, const struct staging *staging,
		       struct matrix *x, struct err *err)
{
	struct unit unit = { .source = ref->weight, .rows = ref->n, .cols = ref->k, .slice = ref->slice };
	const struct region whole = { .n_rows = ref->n, .n_cols = ref->k };
	const struct source_tee nowhere = { 0 };
	enum dtype dtype = ref->weight->tensor->dtype;

	if (recognition_is_weight(ref->weight)) {
		if (fp8_source_scale(&weights->recognition, ref->weight, &unit.source_scale, err))
			return -1;
	} else if (dtype != DT_BF16 && dtype != DT_F16 && dtype != DT_F32) {
		return err_set(err, ERR_INPUT, "tensor '%s' is %s: weights of BF16, F16, F32 and FP8 can be read",
			       ref->weight->tensor->name, dtype_name(dtype));
	}
	return source_read(&weights->source, &unit, &whole, &staging->buffers, &nowhere, x, err);
}

/* Elements [first, first + n) of a tensor. */
static int load_floats(struct weights *weights, const struct tensor_ref *ref, size_t first, size_t n, float **values,
		       struct err *err)
{
	enum dtype dtype = ref->tensor->dtype;

	if (dtype != DT_BF16 && dtype != DT_F16 && dtype != DT_F32)
		return err_set(err, ERR_INPUT, "tensor '%s' is %s: vectors of BF16, F16 and F32 can be read",
			       ref->tensor->name, dtype_name(dtype));
	if (buffer_alloc((void **)values, n * sizeof **values, "a vector", err))
		return -1;
	return source_read_floats(&weights->source, ref, false, first, n, *values, err);
}

/* The matrix, finite, and its amax. */
static int read_finite(struct weights *weights, const struct linear_ref *ref, const struct staging *staging,
		       struct matrix *x, float *amax, struct err *err)
{
	const struct tile whole = { WHOLE, WHOLE };
	uint64_t n_nonfinite = 0;

	*amax = 0;
	if (read_matrix(weights, ref, staging, x, err))
		return -1;
	backend_amax(weights->source.backend, x, whole, amax, 1, &n_nonfinite);
	if (n_nonfinite)
		return err_set(err, ERR_INPUT, "tensor '%s' has %llu values that are NaN or infinite",
			       ref->weight->tensor->name, (unsigned long long)n_nonfinite);
	return 0;
}

/* Values in fp32 become what the library multiplies by. */
static int make_weight(const struct forward *forward, struct linear *linear, const struct staging *staging, struct err *err)
{
	size_t n = linear->ref->n * linear->ref->k;
	const void *data = staging->values;

	if (forward->round && !linear->module)
		forward->compute->round_bf16_f32(staging->values, n, staging->values);
	if (linear->input == DT_BF16) {
		forward->compute->round_bf16(staging->values, n, staging->halves);
		data = staging->halves;
	}
	return gemm_weight_new(&linear->weight, forward->gemm, data, linear->input, linear->ref->n, linear->ref->k, err);
}

int weights_load_linear(struct weights *weights, const struct linear_ref *ref, struct linear *linear, struct err *err)
{
	const struct forward *forward = weights->forward;
	struct staging staging = { 0 };
	struct matrix x;
	int rc = -1;

	*linear = (struct linear){ .ref = ref, .input = forward->input };
	if (staging_alloc(&staging, ref, err) || read_finite(weights, ref, &staging, &x, &linear->amax, err))
		goto out;
	widen(&x, staging.values);
	if ((weights->fp8 && fp8_forward_weight(weights->fp8, linear, &x, staging.values, err)) ||
	    make_weight(forward, linear, &staging, err) ||
	    (ref->bias && load_floats(weights, ref->bias, ref->bias_first, ref->n, &linear->bias, err)))
		goto out;
	rc = 0;
out:
	staging_release(&staging);
	return rc;
}

void linear_release(struct linear *linear)
{
	gemm_weight_free(linear->weight);
	free(linear->bias);
	*linear = (struct linear){ 0 };
}

int weights_load_vector(struct weights *weights, const struct tensor_ref *ref, float **vector, struct err *err)
{
	return load_floats(weights, ref, 0, st_n_elements(ref->tensor->shape, ref->tensor->n_dims), vector, err);
}

/* The matrices of a layer in one row, for several threads. */
struct layer_load {
	struct weights *weights;
	size_t n;
	const struct linear_ref **from;
	struct linear **to;
};

static void layer_load_add(struct layer_load *load, const struct linear_ref *from, struct linear *to)
{
	if (!from->weight)
		return;
	load->from[load->n] = from;
	load->to[load->n++] = to;
}

static int load_one(void *context, int worker, size_t item, struct err *err)
{
	struct layer_load *load = context;

	(void)worker;
	return weights_load_linear(load->weights, load->from[item], load->to[item], err);
}

/* What shares a scale must all have been seen before the first of it is quantized. */
static int see_one(void *context, int worker, size_t item, struct err *err)
{
	struct layer_load *load = context;
	const struct linear_ref *ref = load->from[item];
	struct staging staging = { 0 };
	struct matrix x;
	float amax;
	int rc = 0;

	(void)worker;
	if (!fp8_forward_wants_amax(load->weights->fp8, ref))
		return 0;
	rc = staging_alloc(&staging, ref, err) || read_finite(load->weights, ref, &staging, &x, &amax, err);
	if (!rc)
		fp8_forward_see_amax(load->weights->fp8, ref, amax);
	staging_release(&staging);
	return rc ? -1 : 0;
}

int weights_load_layer(struct weights *weights, const struct layer_ref *ref, struct layer *layer, struct err *err)
{
	size_t most = N_LINEARS + ref->n_experts * N_EXPERT_ROLES;
	struct layer_load load = { .weights = weights,
				   .from = xcalloc(most, sizeof *load.from),
				   .to = xcalloc(most, sizeof *load.to) };
	int rc = 0;

	*layer = (struct layer){ .ref = ref };
	layer->experts = xcalloc(ref->n_experts + 1, sizeof *layer->experts);
	for (int i = 0; i < N_LINEARS; i++)
		layer_load_add(&load, &ref->linear[i], &layer->linear[i]);
	for (size_t e = 0; e < ref->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			layer_load_add(&load, &ref->experts[e][i], &layer->experts[e][i]);
	for (int i = 0; i < N_VECTORS && !rc; i++)
		if (ref->vector[i])
			rc = weights_load_vector(weights, ref->vector[i], &layer->vector[i], err);
	if (!rc && weights->fp8)
		rc = pool_run(weights->n_threads, load.n, see_one, &load, weights->stop, err);
	if (!rc)
		rc = pool_run(weights->n_threads, load.n, load_one, &load, weights->stop, err);
	free(load.from);
	free(load.to);
	return rc;
}

void layer_release(struct layer *layer)
{
	for (int i = 0; i < N_LINEARS; i++)
		linear_release(&layer->linear[i]);
	for (int i = 0; i < N_VECTORS; i++)
		free(layer->vector[i]);
	for (size_t e = 0; layer->ref && e < layer->ref->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			linear_release(&layer->experts[e][i]);
	free(layer->experts);
	*layer = (struct layer){ 0 };
}

int weights_embed(struct weights *weights, const uint32_t *tokens, size_t n_tokens, float *residual, struct err *err)
{
	const struct model *model = weights->forward->model;
	float scale = weights->forward->round ? bf16_to_f32(bf16_from_f32(model->embedding_scale)) : model->embedding_scale;

	for (size_t t = 0; t < n_tokens; t++, residual += model->hidden) {
		if (source_read_floats(&weights->source, model->embedding, false, (uint64_t)tokens[t] * model->hidden,
				       model->hidden, residual, err))
			return -1;
		for (size_t i = 0; scale != 1 && i < model->hidden; i++)
			residual[i] *= scale;
	}
	return 0;
}

static uint64_t n_values(const struct linear_ref *ref)
{
	return (uint64_t)ref->n * ref->k;
}

uint64_t weights_layer_size(const struct model *model, bool precision_f32)
{
	enum dtype dtype = precision_f32 ? DT_F32 : gemm_bf16_type();
	uint64_t most = n_values(&model->head);

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];
		uint64_t size = 0;

		for (int l = 0; l < N_LINEARS; l++)
			size += n_values(&layer->linear[l]);
		for (size_t e = 0; e < layer->n_experts; e++)
			for (int l = 0; l < N_EXPERT_ROLES; l++)
				size += n_values(&layer->experts[e][l]);
		most = size > most ? size : most;
	}
	return most * dtype_bits(dtype) / 8;
}
