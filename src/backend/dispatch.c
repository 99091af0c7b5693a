/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/dispatch.h"

#include <assert.h>
#include <string.h>

#include "backend/host_ops.h"
#include "backend/self_test.h"
#include "base/words.h"
#include "num/scale.h"

#define N_NAMES_MAX 32

static const struct backend *backend_best(bool on_device)
{
	const struct backend *best = NULL;

	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->on_device == on_device && (!best || (*b)->rank > best->rank) &&
		    !(*b)->unusable())
			best = *b;
	}
	return best;
}

static bool is_auto(const char *name)
{
	return !name || !strcmp(name, "auto");
}

static const struct backend *backend_find(const char *name)
{
	for (const struct backend *const *b = backends; *b; b++) {
		if (!strcmp((*b)->name, name))
			return *b;
	}
	return NULL;
}

static void backend_unknown(const char *name, struct err *err)
{
	const char *names[N_NAMES_MAX + 1] = { "auto", "cpu" };
	size_t n = 2;

	for (const struct backend *const *b = backends; *b && n < N_NAMES_MAX; b++)
		names[n++] = (*b)->name;
	words_unknown("backend", name, names, "fp8conv version", err);
}

const struct backend *backend_select(const char *name, struct err *err)
{
	const struct backend *backend;
	const char *why;

	if (is_auto(name) || !strcmp(name, "cpu"))
		return backend_best(false);
	backend = backend_find(name);
	if (!backend) {
		backend_unknown(name, err);
		return NULL;
	}
	why = backend->unusable();
	if (why) {
		err_set(err, ERR_USAGE, "backend '%s' cannot run on this machine: %s", name, why);
		return NULL;
	}
	return backend;
}

int backend_n_devices(void)
{
	const struct backend *device = backend_best(true);

	return device ? device->n_devices() : 0;
}

void backend_use_devices(const int *devices, int n)
{
	const struct backend *device = backend_best(true);

	assert(device && n > 0);
	device->use_devices(devices, n);
}

const struct device_ops *backend_in_place(struct err *err)
{
	const struct backend *device = backend_best(true);
	const char *why = NULL;

	if (device && device->in_place)
		return device->in_place;
	for (const struct backend *const *b = backends; *b && !why; b++)
		why = (*b)->on_device ? (*b)->unusable() : NULL;
	err_set(err, ERR_USAGE, "no GPU can be used: %s",
		why ? why : "this build has no backend for one");
	return NULL;
}

const struct backend *backend_select_forward(const char *name, int n_devices, struct err *refused,
					     struct err *err)
{
	const struct backend *device = is_auto(name) ? backend_best(true) : NULL;
	int rc;

	*refused = (struct err){ 0 };
	if (!device)
		return backend_select(name, err);
	rc = self_test_codes(device, backends[0], refused);
	for (int i = 0; i < n_devices && !rc; i++)
		rc = self_test_product(device->executor, i, refused);
	return rc ? backend_best(false) : device;
}

const struct host_ops *host_ops_select(void)
{
	const struct host_ops *const *row = host_ops;

	while (!(*row)->usable())
		row++;
	return *row;
}

int backend_failed(const struct backend *backend, const char *tensor, struct err *err)
{
	return backend->failed(err) ? err_wrap(err, "tensor '%s'", tensor) : 0;
}

static void check_matrix(const struct matrix *x)
{
	assert(x->dtype == DT_BF16 || x->dtype == DT_F16 || x->dtype == DT_F32);
	assert(x->stride >= x->cols);
	assert(x->data || x->rows == 0 || x->cols == 0);
	(void)x;
}

static void check_spec(const struct qspec *spec)
{
	assert(spec->format == FP8_E4M3 || spec->format == FP8_E5M2);
	assert(spec->scale_type == SCALE_F32 || spec->scale_type == SCALE_E8M0);
	assert(spec->amax_epsilon >= 0);
	assert(spec->arith != ARITH_GIVEN || (spec->scale_type == SCALE_F32 && !spec->pow2));
	assert(spec->margin >= -MARGIN_LIMIT && spec->margin <= MARGIN_LIMIT);
	(void)spec;
}

static void check_out(const struct matrix *x, const struct qspec *spec, const struct quant_out *out)
{
	assert(out->stride >= x->cols);
	assert(out->scale_stride >= tile_count(x->cols, spec->tile.cols));
	assert(out->stats);
	assert((out->codes && out->scale_inv) || x->rows == 0 || x->cols == 0);
	(void)x, (void)spec, (void)out;
}

static void check_in(const struct quant_in *q)
{
	assert(q->stride >= q->cols);
	assert(q->scale_stride >= tile_count(q->cols, q->tile.cols));
	assert((q->codes && q->scale_inv) || q->rows == 0 || q->cols == 0);
	(void)q;
}

void backend_amax(const struct backend *backend, const struct matrix *x, struct tile tile,
		  float *amax, size_t amax_stride, uint64_t *n_nonfinite)
{
	check_matrix(x);
	assert(amax_stride >= tile_count(x->cols, tile.cols));
	backend->amax(x, tile, amax, amax_stride, n_nonfinite);
}

bool backend_quantize_fp4(const struct backend *backend, const struct fp4_matrix *x,
			  const struct qspec *spec, const struct quant_out *out,
			  uint64_t *n_changed)
{
	check_spec(spec);
	assert(x->stride >= x->cols);
	assert(out->stride >= x->cols);
	assert(out->scale_stride >= tile_count(x->cols, spec->tile.cols));
	assert(out->stats && spec->arith != ARITH_GIVEN);
	return backend->quantize_fp4 && backend->quantize_fp4(x, spec, out, n_changed);
}

void backend_cast(const struct backend *backend, const struct matrix *x, const struct qspec *spec,
		  const float *amax, size_t amax_stride, const struct quant_out *out)
{
	check_matrix(x);
	check_spec(spec);
	check_out(x, spec, out);
	assert(amax ? amax_stride >= tile_count(x->cols, spec->tile.cols)
		    : spec->arith != ARITH_GIVEN);
	backend->cast(x, spec, amax, amax_stride, out);
}

void backend_dequantize(const struct backend *backend, const struct quant_in *q, enum dtype dtype,
			void *y, size_t y_stride)
{
	check_in(q);
	assert(dtype == DT_BF16 || dtype == DT_F16 || dtype == DT_F32);
	assert(y_stride >= q->cols);
	backend->dequantize(q, dtype, y, y_stride);
}

void backend_error(const struct backend *backend, const struct matrix *x, const struct quant_in *q,
		   struct error_stats *stats)
{
	check_matrix(x);
	check_in(q);
	assert(x->rows == q->rows && x->cols == q->cols);
	(backend->error ? backend : backends[0])->error(x, q, stats);
}

int backend_supports(const struct backend *backend, const struct qspec *spec, struct err *err)
{
	check_spec(spec);
	return backend->supports(spec, err);
}

/* Checks an output of (rows, cols). */
static void check_fp8_out(size_t rows, size_t cols, const struct qspec *spec,
			  const struct fp8_out *out)
{
	const struct fp8_copy *copies[] = { &out->rowwise, &out->columnwise };

	check_spec(spec);
	assert(out->stats);
	assert(spec->arith != ARITH_GIVEN); /* callers set out->scale */
	assert(!out->scale || (spec->scale_type == SCALE_F32 && spec->tile.rows == WHOLE &&
			       spec->tile.cols == WHOLE));
	for (int i = 0; i < 2; i++) {
		size_t n_rows = i ? cols : rows, n_cols = i ? rows : cols;
		const struct scale_grid *grid = &copies[i]->grid;

		assert(!copies[i]->codes || copies[i]->scale_inv || rows == 0 || cols == 0);
		assert(!copies[i]->codes ||
		       grid->rows * grid->cols >= tile_count(n_rows, spec->tile.rows) *
							  tile_count(n_cols, spec->tile.cols));
		(void)n_rows, (void)n_cols, (void)grid;
	}
	(void)copies;
}

/* Checks that a vector has no data, or one row with the columns of x. */
static void check_vector(const struct matrix *vector, const struct matrix *x)
{
	check_matrix(vector);
	assert(vector->rows == 1 && vector->cols == x->cols);
	(void)x;
}

void backend_cast_transpose(const struct backend *backend, const struct matrix *x,
			    const struct qspec *spec, const struct fp8_out *out)
{
	check_matrix(x);
	check_fp8_out(x->rows, x->cols, spec, out);
	backend->cast_transpose(x, spec, out);
}

void backend_norm(const struct backend *backend, const struct norm_args *args,
		  const struct qspec *spec, const struct fp8_out *out)
{
	check_matrix(&args->x);
	check_vector(&args->gamma, &args->x);
	if (args->beta.data)
		check_vector(&args->beta, &args->x);
	assert(args->kind == NORM_LAYER ? args->mu != NULL : args->beta.data == NULL);
	assert(args->rsigma);
	check_fp8_out(args->x.rows, args->x.cols, spec, out);
	backend->norm(args, spec, out);
}

void backend_activate(const struct backend *backend, const struct activation_args *args,
		      const struct qspec *spec, const struct fp8_out *out)
{
	check_matrix(&args->x);
	if (args->up.data) {
		check_matrix(&args->up);
		assert(args->up.rows == args->x.rows && args->up.cols == args->x.cols);
	}
	check_fp8_out(args->x.rows, args->x.cols, spec, out);
	backend->activate(args, spec, out);
}
