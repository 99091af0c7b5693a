/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/weights.h"

#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "backend/host_ops.h"
#include "base/mem.h"
#include "base/pool.h"
#include "source/fp8_source.h"
#include "sweep/vectors.h"
#include "sweep/weight_matrix.h"

/* Gives a matrix of packed rows its place in the file, where the model has them as columns: its
 * tensor is (experts, inputs, outputs).  ERR_INPUT where its rows are not outputs. */
static int place_packed(struct linear_ref *ref, struct err *err)
{
	const struct low_bit_weight *weight = ref->weight ? low_bit_of_model(ref->weight) : NULL;
	const uint64_t *shape = weight ? weight->tensor.shape : NULL;
	struct slice *slice = &ref->slice;
	uint64_t input, output;

	if (!weight || !weight->packing->transposed)
		return 0;
	if (slice->col_stride != shape[2] || slice->row_stride >= shape[2])
		return err_set(err, ERR_INPUT,
			       "tensor '%s' packs the inputs of '%s' in its rows, which is "
			       "unsupported: dequantize the checkpoint first",
			       weight->packed->tensor->name, ref->module);
	input = slice->first / shape[2] % shape[1];
	output = slice->first % shape[2];
	slice->first += output * shape[1] + input - (input * shape[2] + output);
	slice->row_stride *= shape[1];
	slice->col_stride = 1;
	return 0;
}

int weights_open_model(struct model *model, struct low_bit_view *view,
		       const struct checkpoint *checkpoint, const char *advice, struct err *err)
{
	struct err unread;

	*model = (struct model){ 0 };
	if (low_bit_view_make(view, checkpoint, &unread, err))
		return -1;
	if (model_open(model, &view->checkpoint, advice, err)) {
		if (unread.kind && err->detail)
			*err = unread;
		return -1;
	}
	for (size_t i = 0; i < model->n_layers; i++)
		for (size_t l = 0; l < layer_n_linears(&model->layers[i]); l++)
			if (place_packed(
				    (struct linear_ref *)layer_linear_ref(&model->layers[i], l),
				    err))
				return -1;
	return 0;
}

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
	weights->source.check_scales = true;
	return fp8_source_detect(&weights->detection, checkpoint, params->io, err);
}

int weights_close(struct weights *weights, struct err *err)
{
	return source_close(&weights->source, 0, err);
}

void weights_release(struct weights *weights)
{
	for (int i = 0; weights->rows && i < weights->n_threads; i++)
		buffer_release(&weights->rows[i]);
	free(weights->rows);
	source_release(&weights->source);
	detection_release(&weights->detection);
}

static size_t n_devices(const struct weights *weights)
{
	return weights->forward->n_devices;
}

static struct weight_reader reader_of(struct weights *weights)
{
	return (struct weight_reader){ .source = &weights->source,
				       .detection = &weights->detection,
				       .host = host_ops_select(),
				       .round = weights->forward->round,
				       .fp8 = weights->fp8 };
}

/* A row of codes is a matrix with its scales. */
int weights_read_row(struct weights *weights, const struct table_row *from, float *values,
		     struct err *err)
{
	const struct st_tensor *tensor = from->ref->tensor;
	const struct linear_ref table = { .weight = from->ref,
					  .n = tensor->shape[0],
					  .k = from->n,
					  .slice = { .row_stride = from->n, .col_stride = 1 } };
	const struct weight_reader reader = { .source = &weights->source,
					      .detection = &weights->detection,
					      .host = host_ops_select() };
	struct weight_matrix row = {
		.ref = &table, .first = from->row, .n = 1, .dtype = DT_F32, .values = values
	};
	const struct floats_request floats = { .ref = from->ref,
					       .first = from->row * from->n,
					       .n = from->n };

	if (tensor->dtype == DT_BF16 || tensor->dtype == DT_F16 || tensor->dtype == DT_F32)
		return source_read_floats(&weights->source, &floats, values, err);
	return weight_matrix_read(&reader, &row, err);
}

/* What the threads that load the pieces of a matrix have together. */
struct matrix_load {
	size_t first_piece;
	atomic_size_t n_left; /* pieces */
	atomic_bool inexact;  /* as in struct weight_matrix */
};

/* A piece: a panel of a matrix, which one thread loads. */
struct weights_piece {
	const struct linear_ref *from;
	size_t place;  /* among the matrices of a layer */
	size_t matrix; /* in load->matrices */
	size_t part, first, n;
	float amax;
};

/* Returns the matrix on a device. */
static struct linear *linear_at(const struct weights_load *load, size_t place, size_t device)
{
	return load->layers ? layer_linear(&load->layers[device], place) : &load->linears[device];
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

/* Describes a matrix, without memory. */
static void linear_init(struct linear *linear, const struct linear_ref *from,
			const struct weights *weights, size_t device)
{
	const struct forward *forward = weights->forward;
	const struct fp8_forward *fp8 = weights->fp8;
	struct executor *executor = forward->executors[device];

	*linear = (struct linear){ .ref = from,
				   .input = forward->input,
				   .cast = fp8 ? fp8_forward_cast(fp8, from) : NULL };
	if (linear->cast && !fp8_forward_is_bf16(fp8))
		linear->input = DT_F32;
	linear->weight =
		(struct executor_weight){ .executor = executor,
					  .n = from->n,
					  .k = from->k,
					  .panel_rows = linear_panel_rows(executor->ops, from) };
}

/* Reads the bias of a matrix and sends it to each device. */
static int load_bias(const struct weights_load *load, const struct linear_ref *from, size_t place,
		     struct err *err)
{
	const struct floats_request bias = { .ref = from->bias,
					     .first = from->bias_first,
					     .n = from->n };
	float *floats;
	int rc = vector_read(load->weights, &bias, &floats, err);

	for (size_t d = 0; d < n_devices(load->weights) && !rc; d++)
		if (vector_send(load->streams[d], floats, bias.n, &linear_at(load, place, d)->bias,
				err))
			rc = err_wrap(err, "tensor '%s'", bias.ref->tensor->name);
	free(floats);
	return rc;
}

static int load_add(struct weights_load *load, const struct linear_ref *from, size_t place,
		    struct err *err)
{
	const struct executor_weight *weight = &linear_at(load, place, 0)->weight;
	struct weights *weights = load->weights;
	struct weights_piece piece = { .from = from, .place = place, .matrix = load->n_matrices };

	if (!from->weight)
		return 0;
	for (size_t d = 0; d < n_devices(weights); d++)
		linear_init(linear_at(load, place, d), from, weights, d);
	if (from->bias && load_bias(load, from, place, err))
		return -1;
	for (size_t d = 0; d < n_devices(weights); d++)
		if (weight_init(linear_at(load, place, d), err))
			return -1;
	ARRAY_GROW(load->matrices, load->n_matrices);
	load->matrices[load->n_matrices++] =
		(struct matrix_load){ load->n, executor_weight_panels(weight), false };
	for (; piece.part < executor_weight_panels(weight); piece.part++) {
		piece.n = executor_weight_panel_rows(weight, piece.part);
		ARRAY_GROW(load->pieces, load->n);
		load->pieces[load->n++] = piece;
		piece.first += piece.n;
	}
	return 0;
}

/* Finds the amax of a piece of a matrix that needs the scale of a whole tensor. */
static int find_amax(void *context, int worker, size_t item, struct err *err)
{
	const struct weights_load *load = context;
	struct weights_piece *piece = &load->pieces[item];
	const struct weight_reader reader = reader_of(load->weights);
	struct weight_matrix matrix = {
		.ref = piece->from, .first = piece->first, .n = piece->n, .dtype = DT_F32
	};

	(void)worker;
	if (!fp8_forward_wants_amax(load->weights->fp8, piece->from))
		return 0;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	piece->amax = matrix.amax;
	return 0;
}

/* Finds the amaxes that are wanted, before the first piece is quantized. */
static int find_amaxes(struct weights_load *load, struct err *err)
{
	const struct weights *weights = load->weights;

	if (!weights->fp8)
		return 0;
	if (pool_run(weights->n_threads, load->n, find_amax, load, weights->stop, err))
		return -1;
	for (size_t i = 0; i < load->n; i++)
		fp8_forward_raise_amax(weights->fp8, load->pieces[i].from, load->pieces[i].amax);
	return 0;
}

/* Reads a piece and sends it to each device.  *inexact: as in struct weight_matrix. */
static int set_piece(const struct weights_load *load, struct weights_piece *piece,
		     struct buffer *rows, bool *inexact, struct err *err)
{
	const struct weight_reader reader = reader_of(load->weights);
	struct weight_matrix matrix = { .ref = piece->from,
					.first = piece->first,
					.n = piece->n,
					.dtype = linear_at(load, piece->place, 0)->input };
	uint64_t size = (uint64_t)piece->n * piece->from->k * dtype_bits(matrix.dtype) / 8;

	if (buffer_ensure(rows, size, "the values of a weight", err))
		return -1;
	matrix.values = rows->data;
	if (weight_matrix_read(&reader, &matrix, err))
		return -1;
	piece->amax = matrix.amax;
	*inexact = matrix.inexact;
	for (size_t d = 0; d < n_devices(load->weights); d++)
		if (weight_set(linear_at(load, piece->place, d), piece->part, rows->data, err))
			return -1;
	return 0;
}

/* Loads a matrix again, for products of fp32. */
static int load_as_f32(const struct weights_load *load, size_t first_piece, struct buffer *rows,
		       struct err *err)
{
	struct weights_piece *pieces = &load->pieces[first_piece];
	size_t n = executor_weight_panels(&linear_at(load, pieces->place, 0)->weight);
	bool inexact;

	for (size_t d = 0; d < n_devices(load->weights); d++) {
		struct linear *linear = linear_at(load, pieces->place, d);

		linear->weight.executor->ops->weight_release(&linear->weight);
		linear->input = DT_F32;
		if (weight_init(linear, err))
			return -1;
	}
	for (size_t i = 0; i < n; i++)
		if (set_piece(load, &pieces[i], rows, &inexact, err))
			return -1;
	return 0;
}

/* The last piece of a matrix knows of all others whether bf16 holds their values. */
int weights_load_piece(struct weights_load *load, int worker, size_t i, struct err *err)
{
	struct weights_piece *piece = &load->pieces[i];
	struct matrix_load *matrix = &load->matrices[piece->matrix];
	struct buffer *rows = &load->weights->rows[worker];
	bool inexact;

	if (set_piece(load, piece, rows, &inexact, err))
		return -1;
	if (inexact)
		atomic_store(&matrix->inexact, true);
	if (atomic_fetch_sub(&matrix->n_left, 1) > 1 || !atomic_load(&matrix->inexact))
		return 0;
	return load_as_f32(load, matrix->first_piece, rows, err);
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

		for (size_t d = 0; d < n_devices(load->weights); d++) {
			struct linear *to = linear_at(load, piece->place, d);

			to->amax = piece->amax > to->amax ? piece->amax : to->amax;
		}
	}
	free(load->pieces);
	free(load->matrices);
	*load = (struct weights_load){ 0 };
}

int weights_begin_linear(struct weights_load *load, struct weights *weights,
			 struct executor_stream *const *streams, const struct linear_ref *ref,
			 struct linear *linears, struct err *err)
{
	*load = (struct weights_load){ .weights = weights, .streams = streams, .linears = linears };
	for (size_t d = 0; d < n_devices(weights); d++)
		linears[d] = (struct linear){ 0 };
	if (load_add(load, ref, 0, err))
		return -1;
	return find_amaxes(load, err);
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

static void layers_init(struct layer *layers, size_t n, const struct layer_ref *ref)
{
	for (size_t d = 0; d < n; d++) {
		layers[d] = (struct layer){ .ref = ref };
		layers[d].experts = xcalloc(layer_all_experts(ref) + 1, sizeof *layers[d].experts);
	}
}

int weights_begin_layer(struct weights_load *load, struct weights *weights,
			struct executor_stream *const *streams, const struct layer_ref *ref,
			struct layer *layers, struct err *err)
{
	int rc;

	*load = (struct weights_load){ .weights = weights, .streams = streams, .layers = layers };
	layers_init(layers, n_devices(weights), ref);
	rc = vectors_load(load, ref, err);
	for (size_t i = 0; i < layer_n_linears(ref) && !rc; i++)
		rc = load_add(load, layer_linear_ref(ref, i), i, err);
	if (rc)
		return -1;
	return find_amaxes(load, err);
}

void layer_release(struct layer *layer, struct executor *executor)
{
	for (size_t i = 0; layer->ref && i < layer_n_linears(layer->ref); i++)
		linear_release(layer_linear(layer, i));
	vectors_release(layer, executor);
	free(layer->experts);
	*layer = (struct layer){ 0 };
}

static uint64_t linear_size(const struct linear_ref *ref, const struct weights_kind *kind)
{
	return (uint64_t)ref->n * ref->k * dtype_bits(kind->dtype) / 8;
}

static uint64_t piece_size(const struct linear_ref *ref, const struct weights_kind *kind)
{
	uint64_t size = linear_size(ref, kind);

	return ref->n ? size / ref->n * linear_panel_rows(kind->executor, ref) : 0;
}

/* The size of a loading. */
struct load_size {
	uint64_t weights, largest_piece; /* bytes */
	uint64_t n_pieces;
};

static void load_size_add(struct load_size *size, const struct linear_ref *ref,
			  const struct weights_kind *kind)
{
	uint64_t piece = piece_size(ref, kind);
	size_t rows;

	if (!ref->n)
		return;
	rows = linear_panel_rows(kind->executor, ref);
	size->weights += linear_size(ref, kind);
	size->largest_piece = piece > size->largest_piece ? piece : size->largest_piece;
	size->n_pieces += (ref->n + rows - 1) / rows;
}

/* Returns the bytes at most of the pieces of a loading: each thread has one at a time. */
static uint64_t load_size_pieces(const struct load_size *size, int n_threads)
{
	uint64_t n = size->n_pieces < (uint64_t)n_threads ? size->n_pieces : (uint64_t)n_threads;

	return n * size->largest_piece;
}

static struct load_size layer_load_size(const struct layer_ref *layer,
					const struct weights_kind *kind)
{
	struct load_size size = { .weights = vectors_size(layer) };

	for (size_t l = 0; l < layer_n_linears(layer); l++)
		load_size_add(&size, layer_linear_ref(layer, l), kind);
	return size;
}

uint64_t weights_model_size(const struct model *model, const struct weights_kind *kind)
{
	struct load_size size = { 0 };

	load_size_add(&size, &model->head, kind);
	for (size_t i = 0; i < model->n_layers; i++)
		size.weights += layer_load_size(&model->layers[i], kind).weights;
	return size.weights;
}

uint64_t weights_layer_size(const struct model *model, const struct weights_kind *kind,
			    int n_threads, bool ahead)
{
	struct load_size size, head = { 0 };
	uint64_t most = 0, most_pieces = 0, bytes, pieces, before;

	load_size_add(&head, &model->head, kind);
	before = head.weights;
	for (size_t i = 0; i <= model->n_layers; i++) {
		size = i < model->n_layers ? layer_load_size(&model->layers[i], kind) : head;
		bytes = size.weights + (ahead ? before : 0);
		pieces = load_size_pieces(&size, n_threads);
		most = bytes > most ? bytes : most;
		most_pieces = pieces > most_pieces ? pieces : most_pieces;
		before = size.weights;
	}
	return most + most_pieces;
}
