/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/vectors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "num/bits.h"

int vector_read(struct weights *weights, const struct floats_request *request, float **values,
		struct err *err)
{
	const struct tensor_ref *ref = request->ref;
	enum dtype dtype = ref->tensor->dtype;

	*values = NULL;
	if (dtype != DT_BF16 && dtype != DT_F16 && dtype != DT_F32) {
		err_set(err, ERR_INPUT,
			"tensor '%s' has the unsupported type %s: a vector must be BF16, F16 or "
			"F32",
			ref->tensor->name, dtype_name(dtype));
		return -1; /* analyzers believe that err_set() may return 0 */
	}
	if (buffer_alloc((void **)values, request->n * sizeof **values, "a vector", err))
		return -1;
	return source_read_floats(&weights->source, request, *values, err);
}

int vector_send(struct executor_stream *stream, const float *floats, size_t n, float **values,
		struct err *err)
{
	const struct executor_ops *ops = stream->executor->ops;

	if (ops->memory_new(stream->executor, (void **)values, n * sizeof **values, "a vector",
			    err))
		return -1;
	ops->put(stream, *values, floats, n * sizeof **values);
	return ops->wait(stream, err);
}

/* A vector on the host. */
struct vector {
	float *floats;
	size_t n;
};

static int read_vector(struct weights *weights, const struct tensor_ref *ref, struct vector *vector,
		       struct err *err)
{
	struct floats_request whole = { .ref = ref };

	vector->n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims);
	whole.n = vector->n;
	return vector_read(weights, &whole, &vector->floats, err);
}

static int load_last(struct weights *weights, struct executor_stream *const *streams,
		     float *(*last)[N_LAST_VECTORS], int i, struct err *err)
{
	const struct model *model = weights->forward->model;
	const struct tensor_ref *const refs[N_LAST_VECTORS] = {
		[LAST_NORM] = model->norm,
		[LAST_MIX] = model->streams.mix,
		[LAST_MIX_BASE] = model->streams.base,
		[LAST_MIX_SCALE] = model->streams.scale,
	};
	struct vector vector;
	int rc;

	if (!refs[i])
		return 0;
	rc = read_vector(weights, refs[i], &vector, err);
	for (size_t d = 0; d < weights->forward->n_devices && !rc; d++)
		if (vector_send(streams[d], vector.floats, vector.n, &last[d][i], err))
			rc = err_wrap(err, "tensor '%s'", refs[i]->tensor->name);
	free(vector.floats);
	return rc;
}

int weights_load_last(struct weights *weights, struct executor_stream *const *streams,
		      float *(*last)[N_LAST_VECTORS], struct err *err)
{
	for (int i = 0; i < N_LAST_VECTORS; i++)
		if (load_last(weights, streams, last, i, err))
			return -1;
	return 0;
}

void weights_release_last(float **last, struct executor *executor)
{
	for (int i = 0; i < N_LAST_VECTORS; i++) {
		executor->ops->memory_free(executor, last[i]);
		last[i] = NULL;
	}
}

/* Whether the host uses the vector: it passes on a factor. */
static bool is_of_host(int role)
{
	return role == VECTOR_LAYER_SCALE || role == VECTOR_ROUTER_SCALE ||
	       role == VECTOR_MLP_SCALE || role == VECTOR_ROUTER_TABLE;
}

/* Whether it has rows that stay as they are. */
static bool has_rows(int role)
{
	return role == VECTOR_MIX_ATTENTION || role == VECTOR_MIX_MLP || role == VECTOR_DISTANCES ||
	       role == VECTOR_POOL_PLACES || role == VECTOR_INDEX_PLACES;
}

/* Whether it chooses and weighs experts.  By a NaN in the bias an expert would never be chosen, and
 * no other check would report it. */
static bool is_of_router(int role)
{
	return role == VECTOR_ROUTER_BIAS || role == VECTOR_EXPERT_SCALES;
}

static int refuse_nan(const struct tensor_ref *ref, const struct vector *vector, struct err *err)
{
	size_t n_nan = 0;

	for (size_t i = 0; i < vector->n; i++)
		n_nan += f32_is_nan(vector->floats[i]);
	return n_nan ? err_set(err, ERR_INPUT, "tensor '%s' has %zu %s NaN", ref->tensor->name,
			       n_nan, n_nan == 1 ? "value that is" : "values that are")
		     : 0;
}

/* Transposes x (n, width) to (width, n). */
static int transpose(struct vector *x, size_t width, struct err *err)
{
	size_t n = x->n / width;
	float *transposed;

	if (buffer_alloc((void **)&transposed, x->n * sizeof *transposed, "a vector", err))
		return -1;
	for (size_t i = 0; i < x->n; i++)
		transposed[i % width * n + i / width] = x->floats[i];
	free(x->floats);
	x->floats = transposed;
	return 0;
}

#define TABLE_BLOCK 1024 /* integers that are read at once */

/* Reads the experts of all tokens, integers of 64 bits, as floats, which hold them. */
static int read_table(struct weights *weights, const struct tensor_ref *ref, struct vector *vector,
		      struct err *err)
{
	const struct st_tensor *tensor = ref->tensor;
	size_t n = st_n_elements(tensor->shape, tensor->n_dims);
	int64_t block[TABLE_BLOCK];

	if (tensor->dtype != DT_I64)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has the unsupported type %s: numbers of experts must "
			       "be I64",
			       tensor->name, dtype_name(tensor->dtype));
	vector->n = n;
	if (buffer_alloc((void **)&vector->floats, n * sizeof(float), "the experts of tokens", err))
		return -1;
	for (size_t first = 0; first < n; first += TABLE_BLOCK) {
		size_t left = n - first, size = left < TABLE_BLOCK ? left : TABLE_BLOCK;

		if (source_read_bytes(&weights->source, ref, first * sizeof *block,
				      size * sizeof *block, block, err))
			return -1;
		for (size_t i = 0; i < size; i++)
			vector->floats[first + i] = (float)block[i];
	}
	return 0;
}

/* Fails unless the table has `top_k` different experts for each token. */
static int check_table(const struct layer_ref *ref, const struct vector *vector, struct err *err)
{
	const struct tensor_ref *from = ref->vector[VECTOR_ROUTER_TABLE];
	size_t k = from->tensor->shape[1];

	for (size_t i = 0; i < vector->n; i++) {
		const float *row = vector->floats + i / k * k;

		if (!(vector->floats[i] >= 0 && vector->floats[i] < (float)ref->n_experts))
			return err_set(err, ERR_INPUT,
				       "tensor '%s' gives token %zu expert %.0f, but there are %zu",
				       from->tensor->name, i / k, (double)vector->floats[i],
				       ref->n_experts);
		for (size_t j = 0; j < i % k; j++)
			if (row[j] == vector->floats[i])
				return err_set(err, ERR_INPUT,
					       "tensor '%s' gives token %zu expert %.0f twice",
					       from->tensor->name, i / k, (double)row[j]);
	}
	return 0;
}

/* Reads a vector as passes take it: the weight of a convolution (channels, 1, width), or the decays
 * of channels (channels, width) or of heads (1, 1, heads, 1), become (width, channels). */
static int read_role(struct weights *weights, int role, const struct tensor_ref *from,
		     struct vector *vector, struct err *err)
{
	const struct st_tensor *tensor = from->tensor;
	bool checked = is_of_host(role) || is_of_router(role);

	if (role == VECTOR_ROUTER_TABLE)
		return read_table(weights, from, vector, err);
	if (read_vector(weights, from, vector, err))
		return -1;
	if (checked)
		return refuse_nan(from, vector, err);
	return tensor->n_dims > 1 && !has_rows(role)
		       ? transpose(vector, tensor->shape[tensor->n_dims - 1], err)
		       : 0;
}

/* Gives the vector to the first layer and copies of it to the others, which layer_release() frees:
 * it may be the largest array of a layer. */
static int share_of_host(struct vector *vector, struct layer *layers, size_t n, int role,
			 struct err *err)
{
	const float *floats = layers[0].vector[role] = vector->floats;

	vector->floats = NULL;
	for (size_t d = 1; d < n; d++) {
		float **to = &layers[d].vector[role];

		if (buffer_alloc((void **)to, vector->n * sizeof **to, "a vector", err))
			return -1;
		memcpy(*to, floats, vector->n * sizeof **to);
	}
	return 0;
}

static int load_role(const struct weights_load *load, const struct tensor_ref *from, int role,
		     struct err *err)
{
	size_t n = load->weights->forward->n_devices;
	struct vector vector = { 0 };
	int rc = read_role(load->weights, role, from, &vector, err);

	if (!rc && role == VECTOR_ROUTER_TABLE)
		rc = check_table(load->layers[0].ref, &vector, err);

	if (!rc && is_of_host(role))
		rc = share_of_host(&vector, load->layers, n, role, err);
	for (size_t d = 0; d < n && !rc && !is_of_host(role); d++)
		if (vector_send(load->streams[d], vector.floats, vector.n,
				&load->layers[d].vector[role], err))
			rc = err_wrap(err, "tensor '%s'", from->tensor->name);
	free(vector.floats);
	return rc;
}

int vectors_load(const struct weights_load *load, const struct layer_ref *ref, struct err *err)
{
	for (int i = 0; i < N_VECTORS; i++)
		if (ref->vector[i] && load_role(load, ref->vector[i], i, err))
			return -1;
	return 0;
}

void vectors_release(struct layer *layer, struct executor *executor)
{
	for (int i = 0; i < N_VECTORS; i++) {
		if (is_of_host(i))
			free(layer->vector[i]);
		else
			executor->ops->memory_free(executor, layer->vector[i]);
		layer->vector[i] = NULL;
	}
}

uint64_t vectors_size(const struct layer_ref *ref)
{
	uint64_t n = 0;

	for (int i = 0; i < N_VECTORS; i++)
		if (ref->vector[i])
			n += st_n_elements(ref->vector[i]->tensor->shape,
					   ref->vector[i]->tensor->n_dims);
	return n * sizeof(float);
}
