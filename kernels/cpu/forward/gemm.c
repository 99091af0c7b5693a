/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.h by oneDNN: a primitive for each shape of a product, and weights in the layout that it
 * prefers.  Sums of products (gemm_gram()) have one primitive for all shapes.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/forward/gemm.h"
#include "kernels/cpu/forward/onednn.h"
#include "kernels/cpu/forward/page_heap.h"
#include "base/mem.h"

/* The rows of x for which the library chooses the layout of weights. */
#define TYPICAL_M 512

/* A product of one shape. */
struct gemm_shape {
	enum dtype dtype;
	size_t m, n, k;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive;
};

/* Sums of products, of any shape. */
struct gram {
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive; /* NULL: not made yet */
};

struct gemm {
	struct onednn onednn;
	struct page_heap weights;
	pthread_mutex_t lock; /* of the members below */
	size_t n_shapes;
	struct gemm_shape **shapes;
	struct gram bf16_gram, f32_gram;
};

/* Rows of a weight, whose data is all of them. */
struct panel {
	onednn_layout layout; /* that of the shape with TYPICAL_M rows of x */
	void *memory;
	uint64_t size;
};

int gemm_library(char *text, size_t size, struct err *err)
{
	struct onednn onednn;

	if (onednn_init(&onednn, err))
		return -1;
	snprintf(text, size, "oneDNN %d.%d.%d", onednn.version->major, onednn.version->minor,
		 onednn.version->patch);
	onednn_release(&onednn);
	return 0;
}

int gemm_open(struct gemm **result, struct err *err)
{
	struct gemm *gemm = xcalloc(1, sizeof *gemm);

	pthread_mutex_init(&gemm->lock, NULL);
	page_heap_init(&gemm->weights);
	if (onednn_init(&gemm->onednn, err)) {
		gemm_close(gemm);
		return -1;
	}
	*result = gemm;
	return 0;
}

static void gram_release(const struct gemm *gemm, struct gram *gram)
{
	if (gram->primitive)
		gemm->onednn.primitive_destroy(gram->primitive);
	if (gram->desc)
		gemm->onednn.primitive_desc_destroy(gram->desc);
	*gram = (struct gram){ 0 };
}

void gemm_close(struct gemm *gemm)
{
	if (!gemm)
		return;
	for (size_t i = 0; i < gemm->n_shapes; i++) {
		gemm->onednn.primitive_destroy(gemm->shapes[i]->primitive);
		gemm->onednn.primitive_desc_destroy(gemm->shapes[i]->desc);
		free(gemm->shapes[i]);
	}
	free(gemm->shapes);
	gram_release(gemm, &gemm->bf16_gram);
	gram_release(gemm, &gemm->f32_gram);
	page_heap_release(&gemm->weights);
	onednn_release(&gemm->onednn);
	pthread_mutex_destroy(&gemm->lock);
	free(gemm);
}

void gemm_stream_release(struct gemm *gemm, struct gemm_stream *stream)
{
	if (stream->native)
		gemm->onednn.stream_destroy(stream->native);
	buffer_release(&stream->scratch);
	*stream = (struct gemm_stream){ 0 };
}

/* Limits the calling thread's primitives to one thread.  The library asks for the number of threads
 * when a primitive is made.  Its own threads would share a product, change its last bits with their
 * number, and spin on cores of the streams. */
static void without_threads(const struct gemm *gemm)
{
	if (gemm->onednn.omp_set_num_threads)
		gemm->onednn.omp_set_num_threads(1);
}

static int stream_ready(struct gemm *gemm, struct gemm_stream *stream, size_t scratch_size,
			struct err *err)
{
	dnnl_stream_t native;

	if (!stream->native) {
		ONEDNN_CALL(&gemm->onednn, stream_create, &native, gemm->onednn.engine,
			    dnnl_stream_default_flags);
		stream->native = native;
	}
	return buffer_ensure(&stream->scratch, scratch_size,
			     "the scratch memory of a matrix product", err);
out:
	return -1;
}

static dnnl_data_type_t type_of(enum dtype dtype)
{
	return dtype == DT_BF16 ? dnnl_bf16 : dnnl_f32;
}

static struct onednn_product product_of(const struct gemm_shape *shape)
{
	return (struct onednn_product){
		.dtype = type_of(shape->dtype),
		.m = (dnnl_dim_t)shape->m,
		.n = (dnnl_dim_t)shape->n,
		.k = (dnnl_dim_t)shape->k,
	};
}

/* weight NULL: the library chooses the layout. */
static int shape_make(const struct gemm *gemm, struct gemm_shape *shape, onednn_layout weight,
		      struct err *err)
{
	const struct onednn_product product = product_of(shape);

	if (onednn_room(err) ||
	    onednn_describe_product(&shape->desc, &gemm->onednn, &product, weight, err))
		return -1;
	ONEDNN_CALL(&gemm->onednn, primitive_create, &shape->primitive, shape->desc);
	return 0;
out:
	gemm->onednn.primitive_desc_destroy(shape->desc);
	return -1;
}

static struct gemm_shape *shape_find(const struct gemm *gemm, const struct gemm_shape *expected)
{
	for (size_t i = 0; i < gemm->n_shapes; i++) {
		struct gemm_shape *shape = gemm->shapes[i];

		if (shape->m == expected->m && shape->n == expected->n && shape->k == expected->k &&
		    shape->dtype == expected->dtype)
			return shape;
	}
	return NULL;
}

/* Returns a shape.  Weights of one shape have one layout, for every m. */
static struct gemm_shape *shape_get(struct gemm *gemm, const struct gemm_shape *expected,
				    onednn_layout weight, struct err *err)
{
	struct gemm_shape *shape;

	pthread_mutex_lock(&gemm->lock);
	shape = shape_find(gemm, expected);
	if (!shape) {
		shape = xcalloc(1, sizeof *shape);
		*shape = *expected;
		if (shape_make(gemm, shape, weight, err)) {
			free(shape);
			shape = NULL;
		} else {
			ARRAY_GROW(gemm->shapes, gemm->n_shapes);
			gemm->shapes[gemm->n_shapes++] = shape;
		}
	}
	pthread_mutex_unlock(&gemm->lock);
	return shape;
}

/* Makes a memory object for one execution. */
static int bind(const struct onednn *onednn, dnnl_exec_arg_t *argument, int which,
		onednn_layout layout, const void *data, struct err *err)
{
	argument->arg = which;
	ONEDNN_CALL(onednn, memory_create, &argument->memory, layout, onednn->engine, (void *)data);
	return 0;
out:
	return -1;
}

static void unbind(const struct onednn *onednn, const dnnl_exec_arg_t *arguments, int n)
{
	for (int i = 0; i < n; i++)
		if (arguments[i].memory)
			onednn->memory_destroy(arguments[i].memory);
}

/* Larger weights are split into panels whose y for TYPICAL_M rows of x stays in L2. */
#define MAX_ROWS   16384
#define PANEL_ROWS 1024

size_t gemm_panel_rows(size_t n)
{
	return n > MAX_ROWS ? PANEL_ROWS : n;
}

/* Returns the shape of the product of m rows by a panel. */
static struct gemm_shape shape_of(const struct executor_weight *weight, size_t panel, size_t m)
{
	return (struct gemm_shape){ .dtype = weight->dtype,
				    .m = m,
				    .n = executor_weight_panel_rows(weight, panel),
				    .k = weight->k };
}

static int panel_init(struct gemm *gemm, const struct executor_weight *weight, size_t i,
		      struct err *err)
{
	struct panel *panel = (struct panel *)weight->data + i;
	const struct gemm_shape expected = shape_of(weight, i, TYPICAL_M);
	const struct gemm_shape *shape = shape_get(gemm, &expected, NULL, err);

	if (!shape)
		return -1;
	panel->layout = gemm->onednn.primitive_desc_query_md(shape->desc, dnnl_query_weights_md, 0);
	panel->size = gemm->onednn.memory_desc_get_size(panel->layout);
	return page_heap_take(&gemm->weights, &panel->memory, panel->size, "a weight", err);
}

int gemm_weight_init(struct gemm *gemm, struct executor_weight *weight, struct err *err)
{
	without_threads(gemm);
	weight->data = xcalloc(executor_weight_panels(weight), sizeof(struct panel));
	for (size_t i = 0; i < executor_weight_panels(weight); i++)
		if (panel_init(gemm, weight, i, err)) {
			gemm_weight_release(gemm, weight);
			return -1;
		}
	return 0;
}

void gemm_weight_release(struct gemm *gemm, struct executor_weight *weight)
{
	const struct panel *panels = weight->data;

	for (size_t i = 0; panels && i < executor_weight_panels(weight); i++)
		page_heap_give(&gemm->weights, panels[i].memory, panels[i].size);
	free(weight->data);
	weight->data = NULL;
}

/* Copies rows of a checkpoint to the layout of the panel. */
int gemm_weight_set(struct gemm *gemm, const struct executor_weight *weight, size_t i,
		    const void *rows, struct err *err)
{
	const struct onednn *onednn = &gemm->onednn;
	const struct panel *panel = (const struct panel *)weight->data + i;
	const struct gemm_shape shape = shape_of(weight, i, TYPICAL_M);
	const struct onednn_product product = product_of(&shape);
	dnnl_primitive_desc_t desc = NULL;
	dnnl_primitive_t primitive = NULL;
	dnnl_exec_arg_t arguments[3] = { { 0 } };
	struct gemm_stream stream = { 0 };
	onednn_layout from, scratch;
	int rc = -1;

	without_threads(gemm);
	if (onednn_room(err) ||
	    onednn_describe_reorder(&desc, onednn, &product, panel->layout, err))
		return -1;
	ONEDNN_CALL(onednn, primitive_create, &primitive, desc);
	from = onednn->primitive_desc_query_md(desc, dnnl_query_src_md, 0);
	scratch = onednn->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
	if (stream_ready(gemm, &stream, onednn->memory_desc_get_size(scratch), err) ||
	    bind(onednn, &arguments[0], DNNL_ARG_SRC, from, rows, err) ||
	    bind(onednn, &arguments[1], DNNL_ARG_DST, panel->layout, panel->memory, err) ||
	    bind(onednn, &arguments[2], DNNL_ARG_SCRATCHPAD, scratch, stream.scratch.data, err))
		goto out;
	ONEDNN_CALL(onednn, primitive_execute, primitive, stream.native, 3, arguments);
	rc = 0;
out:
	unbind(onednn, arguments, 3);
	gemm_stream_release(gemm, &stream);
	if (primitive)
		onednn->primitive_destroy(primitive);
	onednn->primitive_desc_destroy(desc);
	return rc;
}

static int run_panel(struct gemm *gemm, struct gemm_stream *stream,
		     const struct multiply_args *args, size_t i, float *y, struct err *err)
{
	const struct onednn *onednn = &gemm->onednn;
	const struct panel *panel = (const struct panel *)args->weight->data + i;
	const struct gemm_shape expected = shape_of(args->weight, i, args->m);
	const struct gemm_shape *shape;
	dnnl_exec_arg_t arguments[4] = { { 0 } };
	onednn_layout x_layout, y_layout, scratch;
	int rc = -1;

	without_threads(gemm);
	shape = shape_get(gemm, &expected, panel->layout, err);
	if (!shape)
		return -1;
	x_layout = onednn->primitive_desc_query_md(shape->desc, dnnl_query_src_md, 0);
	y_layout = onednn->primitive_desc_query_md(shape->desc, dnnl_query_dst_md, 0);
	scratch = onednn->primitive_desc_query_md(shape->desc, dnnl_query_scratchpad_md, 0);
	if (stream_ready(gemm, stream, onednn->memory_desc_get_size(scratch), err) ||
	    bind(onednn, &arguments[0], DNNL_ARG_SRC, x_layout, args->x, err) ||
	    bind(onednn, &arguments[1], DNNL_ARG_WEIGHTS, panel->layout, panel->memory, err) ||
	    bind(onednn, &arguments[2], DNNL_ARG_DST, y_layout, y, err) ||
	    bind(onednn, &arguments[3], DNNL_ARG_SCRATCHPAD, scratch, stream->scratch.data, err))
		goto out;
	ONEDNN_CALL(onednn, primitive_execute, shape->primitive, stream->native, 4, arguments);
	rc = 0;
out:
	unbind(onednn, arguments, 4);
	return rc;
}

/* The library multiplies into a y with gaps between its rows by its reference, hundreds of times
 * slower.  So a panel's y has no gaps and is copied. */
int gemm_multiply(struct gemm *gemm, struct gemm_stream *stream, const struct multiply_args *args,
		  struct err *err)
{
	const struct executor_weight *weight = args->weight;
	size_t n_panels = executor_weight_panels(weight);
	float *y = args->y;
	void *buffer;
	int rc = 0;

	if (args->panel || n_panels == 1)
		return run_panel(gemm, stream, args, args->panel ? *args->panel : 0, y, err);
	if (buffer_alloc(&buffer, args->m * weight->panel_rows * sizeof *y, "a matrix product",
			 err))
		return -1;
	for (size_t i = 0; i < n_panels && !rc; i++) {
		size_t n = executor_weight_panel_rows(weight, i);

		rc = run_panel(gemm, stream, args, i, buffer, err);
		for (size_t row = 0; row < args->m && !rc; row++)
			memcpy(y + row * weight->n, (float *)buffer + row * n, n * sizeof *y);
		y += n;
	}
	free(buffer);
	return rc;
}

static int gram_make(const struct gemm *gemm, struct gram *gram, enum dtype dtype, struct err *err)
{
	if (onednn_room(err) ||
	    onednn_describe_sum(&gram->desc, &gemm->onednn, type_of(dtype), err))
		return -1;
	ONEDNN_CALL(&gemm->onednn, primitive_create, &gram->primitive, gram->desc);
	return 0;
out:
	gram_release(gemm, gram);
	return -1;
}

static const struct gram *gram_get(struct gemm *gemm, enum dtype dtype, struct err *err)
{
	struct gram *gram = dtype == DT_BF16 ? &gemm->bf16_gram : &gemm->f32_gram;
	int rc = 0;

	pthread_mutex_lock(&gemm->lock);
	if (!gram->primitive)
		rc = gram_make(gemm, gram, dtype, err);
	pthread_mutex_unlock(&gemm->lock);
	return rc ? NULL : gram;
}

/* Wide panels copy x less often into the library's layout, narrow ones add less of the lower
 * triangle.  Measured with m = 512 for k from 576 to 14336. */
size_t gemm_gram_cols(size_t k)
{
	return k <= 2048 ? 128 : 512;
}

/* The panel is x^T times the columns of x, whose strides the library takes as they are. */
int gemm_gram(struct gemm *gemm, struct gemm_stream *stream, const struct gram_args *args,
	      struct err *err)
{
	const struct onednn *onednn = &gemm->onednn;
	const dnnl_data_type_t type = type_of(args->dtype);
	const dnnl_dim_t m = (dnnl_dim_t)args->m, n = (dnnl_dim_t)args->n, k = (dnnl_dim_t)args->k,
			 rows = (dnnl_dim_t)args->first + n;
	const char *cols = (const char *)args->x + args->first * dtype_bits(args->dtype) / 8;
	const struct onednn_matrix a = { type, rows, m, 1, k, args->x },
				   b = { type, m, n, k, 1, cols },
				   h = { dnnl_f32, rows, n, k, 1, args->h + args->first };
	dnnl_exec_arg_t arguments[] = { { .arg = DNNL_ARG_SRC },
					{ .arg = DNNL_ARG_WEIGHTS },
					{ .arg = DNNL_ARG_DST },
					{ .arg = DNNL_ARG_SCRATCHPAD } };
	const struct gram *gram;
	onednn_layout scratch;
	int rc = -1;

	without_threads(gemm);
	gram = gram_get(gemm, args->dtype, err);
	if (!gram)
		return -1;
	scratch = onednn->primitive_desc_query_md(gram->desc, dnnl_query_scratchpad_md, 0);
	if (stream_ready(gemm, stream, onednn->memory_desc_get_size(scratch), err) ||
	    onednn_matrix_bind(&arguments[0].memory, onednn, &a, err) ||
	    onednn_matrix_bind(&arguments[1].memory, onednn, &b, err) ||
	    onednn_matrix_bind(&arguments[2].memory, onednn, &h, err) ||
	    bind(onednn, &arguments[3], DNNL_ARG_SCRATCHPAD, scratch, stream->scratch.data, err))
		goto out;
	ONEDNN_CALL(onednn, primitive_execute, gram->primitive, stream->native, 4, arguments);
	rc = 0;
out:
	unbind(onednn, arguments, 4);
	return rc;
}
