/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/weights.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/host_ops.h"
#include "base/mem.h"
#include "base/pool.h"
#include "source/fp8_source.h"
#include "sweep/weight_matrix.h"
#include "num/bits.h"
#include "num/float16.h"

int weights_open(struct weights *weights, const struct weights_params *params, struct err *err)
{
	const struct checkpoint *checkpoint = params->forward->model->checkpoint;
	const struct backend *host = backend_select(NULL, err);

	*weights = (struct weights){ .forward = params->forward,
				     .n_threads = params->n_threads,
				     .stop = params->stop };
	if (!host)
		return -1;
	weights->rows = xcalloc((size_t)weights->n_threads, sizeof *weights->rows);
	source_init(&weights->source, params->io, checkpoint, host, -1);
	return fp8_source_detect(&weights->detection, checkpoint, params->io, err);
}

int weights_close(struct weights *weights, struct err *err)
{
	return source_close(&weights->source, err);
}

void weights_release(struct weights *weights)
{
	for (int i = 0; weights->rows && i < weights->n_threads; i++)
		buffer_release(&weights->rows[i]);
	free(weights->rows);
	source_release(&weights->source);
	detection_release(&weights->detection);
}

/* Reads elements of a tensor to *values, new memory of the host. */
static int read_floats(struct weights *weights, const struct floats_request *request,
		       float **values, struct err *err)
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

/* Sends floats to new memory of the executor. */
static int send_floats(struct executor_stream *stream, const float *floats, size_t n,
		       float **values, struct err *err)
{
	const struct executor_ops *ops = stream->executor->ops;

	if (ops->memory_new(stream->executor, (void **)values, n * sizeof **values, "a vector",
			    err))
		return -1;
	ops->put(stream, *values, floats, n * sizeof **values);
	return ops->wait(stream, err);
}

/* Reads elements of a tensor to new memory of the executor. */
static int load_floats(struct weights *weights, struct executor_stream *stream,
		       const struct floats_request *request, float **values, struct err *err)
{
	float *floats;
	int rc = read_floats(weights, request, &floats, err);

	if (!rc && send_floats(stream, floats, request->n, values, err))
		rc = err_wrap(err, "tensor '%s'", request->ref->tensor->name);
	free(floats);
	return rc;
}

static struct weight_reader reader_of(struct weights *weights, bool round)
{
	return (struct weight_reader){ .source = &weights->source,
				       .detection = &weights->detection,
				       .host = host_ops_select(),
				       .round = round };
}

/* Reads a matrix in a model with quantized matrices: in fp32 first, then in the type of the
 * products. */
static int load_quantized(struct weights *weights, const struct linear_ref *ref,
			  struct linear *linear, void **values, struct err *err)
{
	const struct weight_reader reader = reader_of(weights, false);
	const struct host_ops *host = host_ops_select();
	size_t n = ref->n * ref->k;
	struct matrix x = { .dtype = DT_F32, .rows = ref->n, .cols = ref->k, .stride = ref->k };
	struct weight_matrix matrix = { .ref = ref, .n = ref->n, .dtype = DT_F32 };

	if (buffer_alloc(values, n * sizeof(float), "the values of a weight", err))
		return -1;
	matrix.values = *values;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	linear->amax = matrix.amax;
	x.data = *values;
	if (fp8_forward_weight(weights->fp8, linear, &x, *values, err))
		return -1;
	if (weights->forward->round && !linear->module)
		host->round_bf16_f32(*values, n, *values);
	if (linear->input == DT_BF16) {
		void *halves;

		if (buffer_alloc(&halves, n * sizeof(uint16_t), "the values of a weight", err))
			return -1;
		host->round_bf16(*values, n, halves);
		free(*values);
		*values = halves;
	}
	return 0;
}

/* A piece: rows of a matrix that one thread loads.  A panel, or the whole matrix in models with
 * quantized matrices. */
struct weights_piece {
	const struct linear_ref *from;
	struct linear *to;
	size_t part, first, n;
	float amax;
};

static void load_init(struct weights_load *load, struct weights *weights,
		      struct executor_stream *stream)
{
	*load = (struct weights_load){ .weights = weights, .stream = stream };
}

static void piece_add(struct weights_load *load, const struct weights_piece *piece)
{
	ARRAY_GROW(load->pieces, load->n);
	load->pieces[load->n++] = *piece;
}

static int weight_init(struct linear *linear, struct err *err)
{
	linear->weight.dtype = linear->input;
	return linear->weight.executor->ops->weight_init(&linear->weight, err)
		       ? err_wrap(err, "tensor '%s'", linear->ref->weight->tensor->name)
		       : 0;
}

static int weight_set(const struct linear *linear, size_t part, const void *rows, struct err *err)
{
	return linear->weight.executor->ops->weight_set(&linear->weight, part, rows, err)
		       ? err_wrap(err, "tensor '%s'", linear->ref->weight->tensor->name)
		       : 0;
}

static int load_add(struct weights_load *load, const struct linear_ref *from, struct linear *to,
		    struct err *err)
{
	struct weights *weights = load->weights;
	const struct forward *forward = weights->forward;
	const struct floats_request bias = { .ref = from->bias,
					     .first = from->bias_first,
					     .n = from->n };
	struct weights_piece piece = { .from = from, .to = to };

	if (!from->weight)
		return 0;
	*to = (struct linear){ .ref = from, .input = forward->input };
	to->weight = (struct executor_weight){ .executor = forward->executor,
					       .n = from->n,
					       .k = from->k,
					       .panel_rows = forward->executor->ops->panel_rows(
						       from->n) };
	if (from->bias && load_floats(weights, load->stream, &bias, &to->bias, err))
		return -1;
	if (weights->fp8) {
		piece.n = from->n;
		piece_add(load, &piece);
		return 0;
	}
	if (weight_init(to, err))
		return -1;
	for (; piece.part < executor_weight_panels(&to->weight); piece.part++) {
		piece.n = executor_weight_panel_rows(&to->weight, piece.part);
		piece_add(load, &piece);
		piece.first += piece.n;
	}
	return 0;
}

static int set_part(struct weights *weights, struct weights_piece *piece, struct buffer *rows,
		    struct err *err)
{
	const struct weight_reader reader = reader_of(weights, weights->forward->round);
	struct weight_matrix matrix = {
		.ref = piece->from, .first = piece->first, .n = piece->n, .dtype = piece->to->input
	};
	uint64_t size = (uint64_t)piece->n * piece->from->k * dtype_bits(matrix.dtype) / 8;

	if (buffer_ensure(rows, size, "the values of a weight", err))
		return -1;
	matrix.values = rows->data;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	piece->amax = matrix.amax;
	return weight_set(piece->to, piece->part, rows->data, err);
}

static int set_parts(const struct linear *to, const void *values, struct err *err)
{
	const char *rows = values;

	for (size_t part = 0; part < executor_weight_panels(&to->weight); part++) {
		if (weight_set(to, part, rows, err))
			return -1;
		rows += executor_weight_panel_rows(&to->weight, part) * to->ref->k *
			dtype_bits(to->input) / 8;
	}
	return 0;
}

static int set_quantized(struct weights *weights, const struct weights_piece *piece,
			 struct err *err)
{
	struct linear *to = piece->to;
	void *values = NULL;
	int rc = load_quantized(weights, piece->from, to, &values, err) || weight_init(to, err) ||
		 set_parts(to, values, err);

	free(values);
	if (rc)
		return -1;
	return 0;
}

/* Finds the amax of matrices that share a scale, before the first of them is quantized. */
static int find_amax(void *context, int worker, size_t item, struct err *err)
{
	const struct weights_load *load = context;
	const struct linear_ref *ref = load->pieces[item].from;
	const struct weight_reader reader = reader_of(load->weights, false);
	struct weight_matrix matrix = { .ref = ref, .n = ref->n, .dtype = DT_F32 };

	(void)worker;
	if (!fp8_forward_wants_amax(load->weights->fp8, ref))
		return 0;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	fp8_forward_set_amax(load->weights->fp8, ref, matrix.amax);
	return 0;
}

static int find_amaxes(struct weights_load *load, struct err *err)
{
	const struct weights *weights = load->weights;

	return weights->fp8
		       ? pool_run(weights->n_threads, load->n, find_amax, load, weights->stop, err)
		       : 0;
}

int weights_load_piece(struct weights_load *load, int worker, size_t i, struct err *err)
{
	struct weights *weights = load->weights;
	struct weights_piece *piece = &load->pieces[i];

	return weights->fp8 ? set_quantized(weights, piece, err)
			    : set_part(weights, piece, &weights->rows[worker], err);
}

static int load_piece(void *context, int worker, size_t item, struct err *err)
{
	return weights_load_piece(context, worker, item, err);
}

int weights_load_pieces(struct weights_load *load, struct err *err)
{
	return pool_run(load->weights->n_threads, load->n, load_piece, load, load->weights->stop,
			err);
}

void weights_load_end(struct weights_load *load)
{
	for (size_t i = 0; i < load->n; i++) {
		const struct weights_piece *piece = &load->pieces[i];

		if (piece->amax > piece->to->amax)
			piece->to->amax = piece->amax;
	}
	free(load->pieces);
	*load = (struct weights_load){ 0 };
}

int weights_load_all(struct weights_load *load, int worker, int rc, struct err *err)
{
	for (size_t i = 0; i < load->n && !rc; i++)
		rc = weights_load_piece(load, worker, i, err);
	weights_load_end(load);
	return rc;
}

int weights_begin_linear(struct weights_load *load, struct weights *weights,
			 struct executor_stream *stream, const struct linear_ref *ref,
			 struct linear *linear, struct err *err)
{
	load_init(load, weights, stream);
	*linear = (struct linear){ 0 };
	if (load_add(load, ref, linear, err))
		return -1;
	return find_amaxes(load, err);
}

int weights_load_linear(struct weights *weights, int worker, struct executor_stream *stream,
			const struct linear_ref *ref, struct linear *linear, struct err *err)
{
	struct weights_load load;
	int rc = weights_begin_linear(&load, weights, stream, ref, linear, err);

	return weights_load_all(&load, worker, rc, err);
}

void linear_release(struct linear *linear)
{
	struct executor *executor = linear->weight.executor;

	if (linear->weight.data)
		executor->ops->weight_release(&linear->weight);
	if (linear->bias)
		executor->ops->memory_free(executor, linear->bias);
	*linear = (struct linear){ 0 };
}

int weights_load_vector(struct weights *weights, struct executor_stream *stream,
			const struct tensor_ref *ref, float **vector, struct err *err)
{
	const struct floats_request whole = {
		.ref = ref, .n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims)
	};

	return load_floats(weights, stream, &whole, vector, err);
}

/* Whether the host uses the vector: it passes on a factor. */
static bool is_of_host(int role)
{
	return role == VECTOR_LAYER_SCALE;
}

/* Reads a vector to the host.  A NaN is refused. */
static int load_checked(struct weights *weights, const struct tensor_ref *ref, float **vector,
			struct err *err)
{
	const struct floats_request whole = {
		.ref = ref, .n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims)
	};
	size_t n_nan = 0;

	if (read_floats(weights, &whole, vector, err))
		return -1;
	for (size_t i = 0; i < whole.n; i++)
		n_nan += f32_is_nan((*vector)[i]);
	return n_nan ? err_set(err, ERR_INPUT, "tensor '%s' has %zu values that are NaN",
			       ref->tensor->name, n_nan)
		     : 0;
}

/* Sends x (n, width), transposed to (width, n). */
static int send_transposed(struct executor_stream *stream, const float *x, size_t n, size_t width,
			   float **values, struct err *err)
{
	float *transposed;
	int rc =
		buffer_alloc((void **)&transposed, n * width * sizeof *transposed, "a vector", err);

	if (rc)
		return -1;
	for (size_t i = 0; i < n * width; i++)
		transposed[i % width * n + i / width] = x[i];
	rc = send_floats(stream, transposed, n * width, values, err);
	free(transposed);
	return rc;
}

/* Reads the weight of a convolution (channels, 1, width), or the decays of channels (channels,
 * width) or of heads (1, 1, heads, 1), transposed to (width, channels) as the executor takes
 * them. */
static int load_transposed(struct weights *weights, struct executor_stream *stream,
			   const struct tensor_ref *ref, float **values, struct err *err)
{
	size_t width = ref->tensor->shape[ref->tensor->n_dims - 1];
	size_t n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims) / width;
	const struct floats_request whole = { .ref = ref, .n = n * width };
	float *floats;
	int rc = read_floats(weights, &whole, &floats, err);

	if (!rc)
		rc = send_transposed(stream, floats, n, width, values, err);
	free(floats);
	return rc;
}

/* Loads what chooses and weighs experts.  By a NaN in the bias an expert would never be chosen, and
 * no other check would report it. */
static int load_of_router(struct weights *weights, struct executor_stream *stream,
			  const struct tensor_ref *ref, float **values, struct err *err)
{
	size_t n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims);
	float *floats = NULL;
	int rc = load_checked(weights, ref, &floats, err);

	if (!rc)
		rc = send_floats(stream, floats, n, values, err);
	free(floats);
	return rc;
}

static int load_vector(struct weights *weights, struct executor_stream *stream, int role,
		       const struct tensor_ref *from, float **to, struct err *err)
{
	if (is_of_host(role))
		return load_checked(weights, from, to, err);
	if (role == VECTOR_ROUTER_BIAS || role == VECTOR_EXPERT_SCALES)
		return load_of_router(weights, stream, from, to, err);
	if (from->tensor->n_dims > 1)
		return load_transposed(weights, stream, from, to, err);
	return weights_load_vector(weights, stream, from, to, err);
}

static int load_vectors(struct weights *weights, struct executor_stream *stream,
			const struct layer_ref *ref, struct layer *layer, struct err *err)
{
	for (int i = 0; i < N_VECTORS; i++) {
		if (ref->vector[i] &&
		    load_vector(weights, stream, i, ref->vector[i], &layer->vector[i], err))
			return -1;
	}
	return 0;
}

int weights_begin_layer(struct weights_load *load, struct weights *weights,
			struct executor_stream *stream, const struct layer_ref *ref,
			struct layer *layer, struct err *err)
{
	int rc;

	load_init(load, weights, stream);
	*layer = (struct layer){ .ref = ref };
	layer->experts = xcalloc(ref->n_experts + 1, sizeof *layer->experts);
	rc = load_vectors(weights, stream, ref, layer, err);
	for (int i = 0; i < N_LINEARS && !rc; i++)
		rc = load_add(load, &ref->linear[i], &layer->linear[i], err);
	for (size_t e = 0; e < ref->n_experts && !rc; e++)
		for (int i = 0; i < N_EXPERT_ROLES && !rc; i++)
			rc = load_add(load, &ref->experts[e][i], &layer->experts[e][i], err);
	if (rc)
		return -1;
	return find_amaxes(load, err);
}

void layer_release(struct layer *layer, struct executor *executor)
{
	for (int i = 0; i < N_LINEARS; i++)
		linear_release(&layer->linear[i]);
	for (int i = 0; i < N_VECTORS; i++) {
		if (is_of_host(i))
			free(layer->vector[i]);
		else
			executor->ops->memory_free(executor, layer->vector[i]);
	}
	for (size_t e = 0; layer->ref && e < layer->ref->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			linear_release(&layer->experts[e][i]);
	free(layer->experts);
	*layer = (struct layer){ 0 };
}
