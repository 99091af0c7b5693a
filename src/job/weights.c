/* SPDX-License-Identifier: Apache-2.0 */
#include "job/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "job/fp8_source.h"
#include "job/matrix_read.h"
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

static struct matrix_reader reader_of(struct weights *weights, bool round)
{
	return (struct matrix_reader){ .source = &weights->source, .recognition = &weights->recognition,
				       .compute = weights->forward->compute, .round = round };
}

/* Values in the type that is multiplied. */
static int load_values(struct weights *weights, const struct linear_ref *ref, struct linear *linear, void **values,
		       struct err *err)
{
	const struct matrix_reader reader = reader_of(weights, weights->forward->round);
	uint64_t size = (uint64_t)ref->n * ref->k * dtype_bits(linear->input) / 8;

	return buffer_alloc(values, size, "the values of a weight", err) ||
			       matrix_read(&reader, ref, linear->input, *values, &linear->amax, err)
		       ? -1
		       : 0;
}

/* The same of what is quantized, or stands beside it: in fp32 first. */
static int load_quantized(struct weights *weights, const struct linear_ref *ref, struct linear *linear, void **values,
			  struct err *err)
{
	const struct matrix_reader reader = reader_of(weights, false);
	const struct compute *compute = weights->forward->compute;
	size_t n = ref->n * ref->k;
	struct matrix x = { .dtype = DT_F32, .rows = ref->n, .cols = ref->k, .stride = ref->k };

	if (buffer_alloc(values, n * sizeof(float), "the values of a weight", err) ||
	    matrix_read(&reader, ref, DT_F32, *values, &linear->amax, err))
		return -1;
	x.data = *values;
	if (fp8_forward_weight(weights->fp8, linear, &x, *values, err))
		return -1;
	if (weights->forward->round && !linear->module)
		compute->round_bf16_f32(*values, n, *values);
	if (linear->input == DT_BF16) {
		void *halves;

		if (buffer_alloc(&halves, n * sizeof(uint16_t), "the values of a weight", err))
			return -1;
		compute->round_bf16(*values, n, halves);
		free(*values);
		*values = halves;
	}
	return 0;
}

int weights_load_linear(struct weights *weights, const struct linear_ref *ref, struct linear *linear, struct err *err)
{
	const struct forward *forward = weights->forward;
	void *values = NULL;
	int rc = -1;

	*linear = (struct linear){ .ref = ref, .input = forward->input };
	if ((weights->fp8 ? load_quantized : load_values)(weights, ref, linear, &values, err) ||
	    gemm_weight_new(&linear->weight, forward->gemm, values, linear->input, ref->n, ref->k, err) ||
	    (ref->bias && load_floats(weights, ref->bias, ref->bias_first, ref->n, &linear->bias, err)))
		goto out;
	rc = 0;
out:
	free(values);
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
	const struct matrix_reader reader = reader_of(load->weights, false);
	float amax;

	(void)worker;
	if (!fp8_forward_wants_amax(load->weights->fp8, ref))
		return 0;
	if (matrix_read(&reader, ref, DT_F32, NULL, &amax, err))
		return -1;
	fp8_forward_see_amax(load->weights->fp8, ref, amax);
	return 0;
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

uint64_t weights_linear_size(const struct linear_ref *ref, bool precision_f32)
{
	enum dtype dtype = precision_f32 ? DT_F32 : gemm_bf16_type();

	return (uint64_t)ref->n * ref->k * dtype_bits(dtype) / 8;
}

static void add_size(const struct linear_ref *ref, bool precision_f32, uint64_t *sum, uint64_t *largest)
{
	uint64_t size = weights_linear_size(ref, precision_f32);

	*sum += size;
	*largest = size > *largest ? size : *largest;
}

uint64_t weights_layer_size(const struct model *model, bool precision_f32, int n_threads)
{
	uint64_t most = 2 * weights_linear_size(&model->head, precision_f32);

	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];
		uint64_t size = 0, largest = 0;

		for (int l = 0; l < N_LINEARS; l++)
			add_size(&layer->linear[l], precision_f32, &size, &largest);
		for (size_t e = 0; e < layer->n_experts; e++)
			for (int l = 0; l < N_EXPERT_ROLES; l++)
				add_size(&layer->experts[e][l], precision_f32, &size, &largest);
		size += largest * (uint64_t)n_threads;
		most = size > most ? size : most;
	}
	return most;
}
