/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/kernel_parity.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "num/scale.h"

const struct layout layout_plain = { 0 };

void output_init(struct output *o, const struct matrix *x, const struct qspec *spec,
		 struct layout l)
{
	size_t grid_rows = tile_count(x->rows, spec->tile.rows),
	       grid_cols = tile_count(x->cols, spec->tile.cols);

	*o = (struct output){ .x = x, .spec = spec, .layout = l };
	o->out.stride = x->cols + l.codes_gap;
	o->out.scale_stride = grid_cols + l.scales_gap;
	o->codes_size = l.codes_offset + matrix_extent(x->rows, x->cols, o->out.stride);
	o->scales_size =
		l.scales_offset + matrix_extent(grid_rows, grid_cols, o->out.scale_stride) *
					  scale_size(spec->scale_type);
	o->codes = guarded_new(o->codes_size, 0xA5);
	o->scales = guarded_new(o->scales_size, 0xA5);
	o->out.codes = o->codes + l.codes_offset;
	o->out.scale_inv = o->scales + l.scales_offset;
	o->out.stats = &o->stats;
	o->out.streaming = l.streaming;
}

void output_release(struct output *o)
{
	guarded_free(o->codes, o->codes_size);
	guarded_free(o->scales, o->scales_size);
}

/* What is compared: the name of the function, who ran it, of which matrix and by which spec. */
struct comparison {
	const char *what;
	const struct backend *backend;
	const struct matrix *x;
	const struct qspec *spec;
};

/* n bytes; rows of stride bytes begin at offset. */
struct bytes {
	const void *want, *got;
	size_t n, offset, stride;
};

/* Prints where the bytes differ first.  Returns whether they do. */
static bool bytes_differ(const struct comparison *c, const struct bytes *bytes)
{
	const unsigned char *want = bytes->want, *got = bytes->got;

	for (size_t i = 0; i < bytes->n; i++) {
		if (want[i] == got[i])
			continue;
		print_error("%s of %s: %zux%zu %s (stride %zu), tile %zux%zu, %s, %s%s, arith %d, "
			    "mx %d, margin %d, "
			    "epsilon %g: at (%zu, %zu) 0x%02x, not 0x%02x\n",
			    c->what, c->backend->name, c->x->rows, c->x->cols,
			    dtype_name(c->x->dtype), c->x->stride, c->spec->tile.rows,
			    c->spec->tile.cols, c->spec->format == FP8_E4M3 ? "E4M3" : "E5M2",
			    c->spec->scale_type == SCALE_E8M0 ? "E8M0" : "F32",
			    c->spec->pow2 ? " pow2" : "", c->spec->arith, c->spec->mx_rule,
			    c->spec->margin, (double)c->spec->amax_epsilon,
			    (i - bytes->offset) / bytes->stride,
			    (i - bytes->offset) % bytes->stride, got[i], want[i]);
		return true;
	}
	return false;
}

void outputs_check(const char *what, const struct backend *backend, const struct output *want,
		   const struct output *got)
{
	struct comparison codes = { what, backend, want->x, want->spec }, scales = codes;
	bool differ = bytes_differ(&codes,
				   &(struct bytes){ want->codes, got->codes, want->codes_size,
						    want->layout.codes_offset, want->out.stride });

	scales.what = "scale_inv";
	differ |= bytes_differ(
		&scales,
		&(struct bytes){ want->scales, got->scales, want->scales_size,
				 want->layout.scales_offset,
				 want->out.scale_stride * scale_size(want->spec->scale_type) });
	if (differ)
		fail();
	assert_int_equal(want->stats.saturated, got->stats.saturated);
	assert_int_equal(want->stats.nonfinite, got->stats.nonfinite);
}

/* amax, scaled by factor so that cast() also meets values beyond it. */
static float *amax_of(const struct backend *backend, const struct matrix *x, struct tile tile,
		      float factor, uint64_t *n_nonfinite)
{
	size_t n = tile_count(x->rows, tile.rows) * tile_count(x->cols, tile.cols);
	float *amax = calloc(n + 1, sizeof *amax);

	assert_non_null(amax);
	backend_amax(backend, x, tile, amax, tile_count(x->cols, tile.cols), n_nonfinite);
	for (size_t i = 0; i < n; i++)
		amax[i] *= factor;
	return amax;
}

static void check_amax(const struct backend *reference, const struct backend *backend,
		       const struct sample *s, const struct qspec *spec)
{
	size_t n_cols = tile_count(s->x.cols, spec->tile.cols),
	       n = tile_count(s->x.rows, spec->tile.rows) * n_cols;
	uint64_t want_count = 3, got_count = 3;
	float *want = amax_of(reference, &s->x, spec->tile, 1.0f, &want_count);
	float *got = amax_of(backend, &s->x, spec->tile, 1.0f, &got_count);

	if (bytes_differ(&(struct comparison){ "amax", backend, &s->x, spec },
			 &(struct bytes){ want, got, n * 4, 0, n_cols * 4 }))
		fail();
	assert_int_equal(want_count, got_count);
	free(want);
	free(got);
}

static void check_sum(double expected, double sum)
{
	if (isfinite(expected))
		assert_true(fabs(expected - sum) <= 1e-9 * expected);
	else
		assert_true(isnan(expected) == isnan(sum));
}

static void check_dequantize(const struct backend *reference, const struct backend *backend,
			     const struct sample *s, const struct output *o)
{
	struct quant_in q = { o->out.codes,	   s->x.rows,	     s->x.cols,
			      o->out.stride,	   o->spec->format,  o->spec->tile,
			      o->spec->scale_type, o->out.scale_inv, o->out.scale_stride };
	size_t stride = s->x.cols + 3;
	size_t size = 1 + matrix_extent(s->x.rows, s->x.cols, stride) * s->element_size;
	unsigned char *want = guarded_new(size, 0xA5), *got = guarded_new(size, 0xA5);
	struct error_stats a = { 1, 1 }, b = { 1, 1 };

	/* The type of the source, from 1 byte on: unaligned. */
	backend_dequantize(reference, &q, s->x.dtype, want + 1, stride);
	backend_dequantize(backend, &q, s->x.dtype, got + 1, stride);
	if (bytes_differ(&(struct comparison){ "dequantize", backend, &s->x, o->spec },
			 &(struct bytes){ want, got, size, 1, stride * s->element_size }))
		fail();
	backend_error(reference, &s->x, &q, &a);
	backend_error(backend, &s->x, &q, &b);
	check_sum(a.signal, b.signal);
	check_sum(a.noise, b.noise);
	guarded_free(want, size);
	guarded_free(got, size);
}

void parity_check(const struct sample *s, const struct qspec *spec, struct layout l,
		  float amax_factor)
{
	const struct backend *reference = backend_select("reference", &(struct err){ 0 });
	struct output quantized, cast, got;
	uint64_t unused = 0;
	float *amax = amax_of(reference, &s->x, spec->tile, amax_factor, &unused);
	size_t amax_stride = tile_count(s->x.cols, spec->tile.cols);

	output_init(&quantized, &s->x, spec, l);
	output_init(&cast, &s->x, spec, l);
	backend_cast(reference, &s->x, spec, NULL, 0, &quantized.out);
	backend_cast(reference, &s->x, spec, amax, amax_stride, &cast.out);
	for (const struct backend *const *b = backends; *b; b++) {
		if (*b == reference || (*b)->unusable())
			continue;
		check_amax(reference, *b, s, spec);
		output_init(&got, &s->x, spec, l);
		backend_cast(*b, &s->x, spec, NULL, 0, &got.out);
		outputs_check("quantize", *b, &quantized, &got);
		check_dequantize(reference, *b, s, &got);
		output_release(&got);
		output_init(&got, &s->x, spec, l);
		backend_cast(*b, &s->x, spec, amax, amax_stride, &got.out);
		outputs_check("cast", *b, &cast, &got);
		output_release(&got);
	}
	output_release(&quantized);
	output_release(&cast);
	free(amax);
}

/* How scales are made.  The format and the tile come from elsewhere. */
static const struct qspec kinds[N_KINDS] = {
	{ .arith = ARITH_TE },
	{ .arith = ARITH_TE, .pow2 = true },
	{ .arith = ARITH_DEEPSEEK },
	{ .arith = ARITH_DEEPGEMM },
	{ .arith = ARITH_DEEPSEEK, .pow2 = true },
	{ .arith = ARITH_DEEPGEMM, .pow2 = true },
	{ .scale_type = SCALE_E8M0, .mx_rule = MX_UP },
	{ .scale_type = SCALE_E8M0, .mx_rule = MX_FLOOR },
	{ .scale_type = SCALE_E8M0, .mx_rule = MX_EVEN },
};

struct qspec spec_of(size_t kind, struct tile tile, enum fp8_format format)
{
	struct qspec spec = kinds[kind];

	spec.tile = tile;
	spec.format = format;
	return spec;
}
