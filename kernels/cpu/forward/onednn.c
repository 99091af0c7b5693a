/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cpu/forward/gemm.h by oneDNN (C API of 2.x), loaded when it is first asked for: it brings 40 MB of code, which no conversion
 * needs.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/forward/gemm.h"
#include "kernels/weight_cache.h"
#include "base/mem.h"

#define LIBRARY "libdnnl.so.2"

/* The functions of the library that are called here, by their names in it. */
#define FUNCTIONS(X)                      \
	X(version)                        \
	X(engine_create)                  \
	X(engine_destroy)                 \
	X(stream_create)                  \
	X(stream_destroy)                 \
	X(memory_desc_init_by_strides)    \
	X(memory_desc_init_by_tag)        \
	X(memory_desc_get_size)           \
	X(memory_create)                  \
	X(memory_destroy)                 \
	X(matmul_desc_init)               \
	X(primitive_attr_create)          \
	X(primitive_attr_destroy)         \
	X(primitive_attr_set_scratchpad_mode) \
	X(primitive_desc_create)          \
	X(primitive_desc_destroy)         \
	X(primitive_desc_query_md)        \
	X(primitive_create)               \
	X(primitive_destroy)              \
	X(primitive_execute)              \
	X(reorder_primitive_desc_create)

/* A product of one shape. */
struct shape {
	enum dtype dtype;
	size_t m, n, k;
	dnnl_primitive_desc_t desc;
	dnnl_primitive_t primitive;
};

struct gemm {
	void *library;
#define FIELD(name) __typeof__(&dnnl_##name) name;
	FUNCTIONS(FIELD)
#undef FIELD
	void (*omp_set_num_threads)(int n);
	dnnl_engine_t engine;
	dnnl_primitive_attr_t attr; /* scratch memory is the lane's */
	struct spare spare;	    /* of weights */
	pthread_mutex_t lock;	    /* of what follows */
	size_t n_shapes;
	struct shape **shapes;
};

/* Rows of a weight. */
struct part {
	size_t n;
	dnnl_memory_desc_t desc;
	struct buffer buffer;
};

struct gemm_weight {
	struct gemm *gemm;
	enum dtype dtype;
	size_t n, k;
	size_t n_parts;
	struct part *parts;
};

static int failed(const char *what, dnnl_status_t status, struct err *err)
{
	return err_set(err, ERR_SYSTEM, "oneDNN: %s failed with status %d", what, (int)status);
}

/* Calls a function of the library; on failure the message names it, and the caller goes to out. */
#define CALL(gemm, name, ...)                                           \
	do {                                                            \
		dnnl_status_t status = (gemm)->name(__VA_ARGS__);       \
		if (status != dnnl_success) {                           \
			failed(#name, status, err);                     \
			goto out;                                       \
		}                                                       \
	} while (0)

static int load(struct gemm *gemm, struct err *err)
{
	const char *missing = NULL;

	gemm->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!gemm->library)
		return err_set(err, ERR_SYSTEM,
			       "cannot load oneDNN, which multiplies matrices (%s): install the Debian package libdnnl2",
			       dlerror());
#define LOAD(name)                                                              \
	if (!(*(void **)&gemm->name = dlsym(gemm->library, "dnnl_" #name)))     \
		missing = "dnnl_" #name;
	FUNCTIONS(LOAD)
#undef LOAD
	if (missing)
		return err_set(err, ERR_SYSTEM, "%s has no function %s: version 2.6 or a later one of 2 is needed",
			       LIBRARY, missing);
	*(void **)&gemm->omp_set_num_threads = dlsym(gemm->library, "omp_set_num_threads");
	return 0;
}

int gemm_library(char *text, size_t size, struct err *err)
{
	struct gemm gemm = { 0 };
	const dnnl_version_t *version;

	if (load(&gemm, err))
		return -1;
	version = gemm.version();
	snprintf(text, size, "oneDNN %d.%d.%d", version->major, version->minor, version->patch);
	return 0;
}

/* bf16 products are twice as fast as fp32 ones on AMD since Zen 4 and in Intel's tiles (AMX); Intel's vectors without tiles
 * (VDPBF16PS, half the rate of FMA) are slower in bf16. */
#define AMX_BF16    (1u << 22) /* of edx, leaf 7.0 */
#define AVX512_BF16 (1u << 5)  /* of eax, leaf 7.1 */

enum dtype gemm_bf16_type(void)
{
#ifdef __x86_64__
	unsigned a, b, c, d;

	if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & AMX_BF16))
		return DT_BF16;
	if (__builtin_cpu_is("amd") && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX512_BF16))
		return DT_BF16;
#endif
	return DT_F32;
}

int gemm_open(struct gemm **result, struct err *err)
{
	struct gemm *gemm = xcalloc(1, sizeof *gemm);

	pthread_mutex_init(&gemm->lock, NULL);
	spare_init(&gemm->spare);
	if (load(gemm, err))
		goto out;
	CALL(gemm, engine_create, &gemm->engine, dnnl_cpu, 0);
	CALL(gemm, primitive_attr_create, &gemm->attr);
	CALL(gemm, primitive_attr_set_scratchpad_mode, gemm->attr, dnnl_scratchpad_mode_user);
	*result = gemm;
	return 0;
out:
	gemm_close(gemm);
	return -1;
}

void gemm_close(struct gemm *gemm)
{
	if (!gemm)
		return;
	for (size_t i = 0; i < gemm->n_shapes; i++) {
		gemm->primitive_destroy(gemm->shapes[i]->primitive);
		gemm->primitive_desc_destroy(gemm->shapes[i]->desc);
		free(gemm->shapes[i]);
	}
	free(gemm->shapes);
	spare_release(&gemm->spare);
	if (gemm->attr)
		gemm->primitive_attr_destroy(gemm->attr);
	if (gemm->engine)
		gemm->engine_destroy(gemm->engine);
	/* The library stays loaded: its threads' memory is freed by code of its own when they end. */
	pthread_mutex_destroy(&gemm->lock);
	free(gemm);
}

void gemm_lane_release(struct gemm *gemm, struct gemm_lane *lane)
{
	if (lane->stream)
		gemm->stream_destroy(lane->stream);
	buffer_release(&lane->scratch);
	*lane = (struct gemm_lane){ 0 };
}

/* Whatever the calling thread makes or runs from now on has no threads of its own: the library asks for their number when a
 * primitive is made, and threads of its own would share a product, change its last bits with their number, and spin on cores
 * that are the lanes'. */
static void without_threads(const struct gemm *gemm)
{
	if (gemm->omp_set_num_threads)
		gemm->omp_set_num_threads(1);
}

static int lane_ready(struct gemm *gemm, struct gemm_lane *lane, size_t scratch_size, struct err *err)
{
	dnnl_stream_t stream;

	if (!lane->stream) {
		CALL(gemm, stream_create, &stream, gemm->engine, dnnl_stream_default_flags);
		lane->stream = stream;
	}
	return buffer_ensure(&lane->scratch, scratch_size, "the scratch memory of a matrix product", err);
out:
	return -1;
}

static dnnl_data_type_t data_type(enum dtype dtype)
{
	return dtype == DT_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* weight: as the library likes it where NULL. */
static int shape_make(struct gemm *gemm, struct shape *shape, const dnnl_memory_desc_t *weight, struct err *err)
{
	dnnl_dims_t x_dims = { (dnnl_dim_t)shape->m, (dnnl_dim_t)shape->k };
	dnnl_dims_t w_dims = { (dnnl_dim_t)shape->k, (dnnl_dim_t)shape->n };
	dnnl_dims_t y_dims = { (dnnl_dim_t)shape->m, (dnnl_dim_t)shape->n };
	dnnl_data_type_t type = data_type(shape->dtype);
	dnnl_memory_desc_t x, w, y;
	dnnl_matmul_desc_t matmul;

	CALL(gemm, memory_desc_init_by_tag, &x, 2, x_dims, type, dnnl_ab);
	CALL(gemm, memory_desc_init_by_tag, &w, 2, w_dims, type, dnnl_format_tag_any);
	CALL(gemm, memory_desc_init_by_tag, &y, 2, y_dims, dnnl_f32, dnnl_ab);
	CALL(gemm, matmul_desc_init, &matmul, &x, weight ? weight : &w, NULL, &y);
	CALL(gemm, primitive_desc_create, &shape->desc, &matmul, gemm->attr, gemm->engine, NULL);
	CALL(gemm, primitive_create, &shape->primitive, shape->desc);
	return 0;
out:
	if (shape->desc)
		gemm->primitive_desc_destroy(shape->desc);
	return -1;
}

static struct shape *shape_find(const struct gemm *gemm, const struct shape *wanted)
{
	for (size_t i = 0; i < gemm->n_shapes; i++) {
		struct shape *shape = gemm->shapes[i];

		if (shape->m == wanted->m && shape->n == wanted->n && shape->k == wanted->k &&
		    shape->dtype == wanted->dtype)
			return shape;
	}
	return NULL;
}

/* Weights of one shape have one layout, which every m takes. */
static struct shape *shape_get(struct gemm *gemm, const struct shape *wanted, const dnnl_memory_desc_t *weight,
			       struct err *err)
{
	struct shape *shape;

	pthread_mutex_lock(&gemm->lock);
	shape = shape_find(gemm, wanted);
	if (!shape) {
		shape = xcalloc(1, sizeof *shape);
		*shape = *wanted;
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

/* A memory object while it is used by one execution. */
static int bind(struct gemm *gemm, dnnl_exec_arg_t *argument, int which, const dnnl_memory_desc_t *desc, const void *data,
		struct err *err)
{
	argument->arg = which;
	CALL(gemm, memory_create, &argument->memory, desc, gemm->engine, (void *)data);
	return 0;
out:
	return -1;
}

static void unbind(struct gemm *gemm, const dnnl_exec_arg_t *arguments, int n)
{
	for (int i = 0; i < n; i++)
		if (arguments[i].memory)
			gemm->memory_destroy(arguments[i].memory);
}

/* From rows as in a checkpoint to the layout of part->desc. */
static int reorder(const struct gemm_weight *weight, const struct part *part, const void *data, struct err *err)
{
	struct gemm *gemm = weight->gemm;
	dnnl_dims_t dims = { (dnnl_dim_t)weight->k, (dnnl_dim_t)part->n };
	dnnl_dims_t strides = { 1, (dnnl_dim_t)weight->k };
	dnnl_memory_desc_t rows;
	dnnl_primitive_desc_t desc = NULL;
	dnnl_primitive_t primitive = NULL;
	dnnl_exec_arg_t arguments[3] = { { 0 } };
	struct gemm_lane lane = { 0 };
	const dnnl_memory_desc_t *scratch;
	int rc = -1;

	CALL(gemm, memory_desc_init_by_strides, &rows, 2, dims, data_type(weight->dtype), strides);
	CALL(gemm, reorder_primitive_desc_create, &desc, &rows, gemm->engine, &part->desc, gemm->engine, gemm->attr);
	CALL(gemm, primitive_create, &primitive, desc);
	scratch = gemm->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
	if (lane_ready(gemm, &lane, gemm->memory_desc_get_size(scratch), err) ||
	    bind(gemm, &arguments[0], DNNL_ARG_SRC, &rows, data, err) ||
	    bind(gemm, &arguments[1], DNNL_ARG_DST, &part->desc, part->buffer.data, err) ||
	    bind(gemm, &arguments[2], DNNL_ARG_SCRATCHPAD, scratch, lane.scratch.data, err))
		goto out;
	CALL(gemm, primitive_execute, primitive, lane.stream, 3, arguments);
	rc = 0;
out:
	unbind(gemm, arguments, 3);
	gemm_lane_release(gemm, &lane);
	if (primitive)
		gemm->primitive_destroy(primitive);
	if (desc)
		gemm->primitive_desc_destroy(desc);
	return rc;
}

/* The rows of x for which the layout of weights is chosen. */
#define TYPICAL_M 512

/* Weights of more rows lie in parts, whose y for TYPICAL_M rows of x stays in L2. */
#define MOST_ROWS 16384
#define PART_ROWS 1024

size_t gemm_most_part_rows(size_t n)
{
	return n > MOST_ROWS ? PART_ROWS : n;
}

static int part_init(struct gemm_weight *weight, struct part *part, struct err *err)
{
	struct gemm *gemm = weight->gemm;
	const struct shape wanted = { .dtype = weight->dtype, .m = TYPICAL_M, .n = part->n, .k = weight->k };
	const struct shape *shape = shape_get(gemm, &wanted, NULL, err);

	if (!shape)
		return -1;
	part->desc = *gemm->primitive_desc_query_md(shape->desc, dnnl_query_weights_md, 0);
	return spare_take(&gemm->spare, &part->buffer, gemm->memory_desc_get_size(&part->desc), "a weight", err);
}

int gemm_weight_new(struct gemm_weight **result, struct gemm *gemm, enum dtype dtype, size_t n, size_t k, struct err *err)
{
	struct gemm_weight *weight = xcalloc(1, sizeof *weight);
	size_t most = gemm_most_part_rows(n);

	without_threads(gemm);
	*weight = (struct gemm_weight){ .gemm = gemm, .dtype = dtype, .n = n, .k = k, .n_parts = (n + most - 1) / most };
	weight->parts = xcalloc(weight->n_parts, sizeof *weight->parts);
	for (size_t i = 0; i < weight->n_parts; i++) {
		weight->parts[i].n = n - i * most < most ? n - i * most : most;
		if (part_init(weight, &weight->parts[i], err)) {
			gemm_weight_free(weight);
			return -1;
		}
	}
	*result = weight;
	return 0;
}

int gemm_weight_set(struct gemm_weight *weight, size_t part, const void *rows, struct err *err)
{
	without_threads(weight->gemm);
	return reorder(weight, &weight->parts[part], rows, err);
}

void gemm_weight_free(struct gemm_weight *weight)
{
	if (!weight)
		return;
	for (size_t i = 0; i < weight->n_parts; i++)
		spare_give(&weight->gemm->spare, &weight->parts[i].buffer);
	free(weight->parts);
	free(weight);
}

static int run_part(const struct gemm_weight *weight, const struct part *part, struct gemm_lane *lane, const void *x,
		    size_t m, float *y, struct err *err)
{
	struct gemm *gemm = weight->gemm;
	const struct shape wanted = { .dtype = weight->dtype, .m = m, .n = part->n, .k = weight->k };
	const struct shape *shape;
	dnnl_exec_arg_t arguments[4] = { { 0 } };
	const dnnl_memory_desc_t *scratch;
	int rc = -1;

	without_threads(gemm);
	shape = shape_get(gemm, &wanted, &part->desc, err);
	if (!shape)
		return -1;
	scratch = gemm->primitive_desc_query_md(shape->desc, dnnl_query_scratchpad_md, 0);
	if (lane_ready(gemm, lane, gemm->memory_desc_get_size(scratch), err) ||
	    bind(gemm, &arguments[0], DNNL_ARG_SRC, gemm->primitive_desc_query_md(shape->desc, dnnl_query_src_md, 0), x,
		 err) ||
	    bind(gemm, &arguments[1], DNNL_ARG_WEIGHTS, &part->desc, part->buffer.data, err) ||
	    bind(gemm, &arguments[2], DNNL_ARG_DST, gemm->primitive_desc_query_md(shape->desc, dnnl_query_dst_md, 0), y,
		 err) ||
	    bind(gemm, &arguments[3], DNNL_ARG_SCRATCHPAD, scratch, lane->scratch.data, err))
		goto out;
	CALL(gemm, primitive_execute, shape->primitive, lane->stream, 4, arguments);
	rc = 0;
out:
	unbind(gemm, arguments, 4);
	return rc;
}

/* A y whose rows lie further apart than they are long is multiplied by the library's reference, hundreds of times slower:
 * so a part's y is dense, and copied. */
int gemm_run(const struct gemm_weight *weight, struct gemm_lane *lane, const void *x, size_t m, float *y, struct err *err)
{
	void *buffer;
	float *dense;
	int rc = 0;

	if (weight->n_parts == 1)
		return run_part(weight, &weight->parts[0], lane, x, m, y, err);
	if (buffer_alloc(&buffer, m * weight->parts[0].n * sizeof *dense, "a matrix product", err))
		return -1;
	dense = buffer;
	for (size_t i = 0; i < weight->n_parts && !rc; i++) {
		size_t n = weight->parts[i].n;

		rc = run_part(weight, &weight->parts[i], lane, x, m, dense, err);
		for (size_t row = 0; row < m && !rc; row++)
			memcpy(y + row * weight->n, dense + row * n, n * sizeof *y);
		y += n;
	}
	free(buffer);
	return rc;
}

size_t gemm_parts(const struct gemm_weight *weight)
{
	return weight->n_parts;
}

size_t gemm_part_rows(const struct gemm_weight *weight, size_t part)
{
	return weight->parts[part].n;
}

int gemm_run_part(const struct gemm_weight *weight, size_t part, struct gemm_lane *lane, const void *x, size_t m, float *y,
		  struct err *err)
{
	return run_part(weight, &weight->parts[part], lane, x, m, y, err);
}
