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

int weights_load_vector(struct weights *weights, struct executor_stream *const *streams,
			const struct tensor_ref *ref, float **vectors, struct err *err)
{
	struct vector vector;
	int rc = read_vector(weights, ref, &vector, err);

	for (size_t d = 0; d < weights->forward->n_devices && !rc; d++)
		if (vector_send(streams[d], vector.floats, vector.n, &vectors[d], err))
			rc = err_wrap(err, "tensor '%s'", ref->tensor->name);
	free(vector.floats);
	return rc;
}

/* Whether the host uses the vector: it passes on a factor. */
static bool is_of_host(int role)
{
	return role == VECTOR_LAYER_SCALE;
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
	return n_nan ? err_set(err, ERR_INPUT, "tensor '%s' has %zu values that are NaN",
			       ref->tensor->name, n_nan)
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

/* Reads a vector as passes take it: the weight of a convolution (channels, 1, width), or the decays
 * of channels (channels, width) or of heads (1, 1, heads, 1), become (width, channels). */
static int read_role(struct weights *weights, int role, const struct tensor_ref *from,
		     struct vector *vector, struct err *err)
{
	const struct st_tensor *tensor = from->tensor;
	bool checked = is_of_host(role) || is_of_router(role);

	if (read_vector(weights, from, vector, err))
		return -1;
	if (checked)
		return refuse_nan(from, vector, err);
	return tensor->n_dims > 1 ? transpose(vector, tensor->shape[tensor->n_dims - 1], err) : 0;
}

/* Gives each layer its own copy, which layer_release() frees. */
static int share_of_host(const struct vector *vector, struct layer *layers, size_t n, int role,
			 struct err *err)
{
	for (size_t d = 0; d < n; d++) {
		float **to = &layers[d].vector[role];

		if (buffer_alloc((void **)to, vector->n * sizeof **to, "a vector", err))
			return -1;
		memcpy(*to, vector->floats, vector->n * sizeof **to);
	}
	return 0;
}

static int load_role(const struct weights_load *load, const struct tensor_ref *from, int role,
		     struct err *err)
{
	size_t n = load->weights->forward->n_devices;
	struct vector vector = { 0 };
	int rc = read_role(load->weights, role, from, &vector, err);

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
