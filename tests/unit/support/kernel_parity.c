/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/kernel_parity.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "backend/backend.h"
#include "backend/dispatch.h"
#include "base/mem.h"
#include "num/scale.h"

const enum dtype sample_dtypes[] = { DT_BF16, DT_F16, DT_F32 };

static uint64_t random_state = 0x9E3779B97F4A7C15u;

uint32_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

size_t random_below(size_t n)
{
	return random_bits() % n;
}

static float random_normal(void)
{
	float sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (float)(random_bits() >> 8) * 0x1p-24f - 0.5f;
	return sum;
}

#define PAGE 4096

static size_t guarded_size(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE + PAGE;
}

unsigned char *guarded_new(size_t size, int fill)
{
	size_t total = guarded_size(size);
	unsigned char *memory =
		mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	memset(memory, fill, total - PAGE);
	assert_int_equal(mprotect(memory + total - PAGE, PAGE, PROT_NONE), 0);
	return memory + total - PAGE - size;
}

void guarded_free(unsigned char *p, size_t size)
{
	munmap(p + size + PAGE - guarded_size(size), guarded_size(size));
}

static void element_set(void *data, enum dtype dtype, size_t i, float v)
{
	uint16_t half = dtype == DT_BF16 ? bf16_from_f32(v) : f16_from_f32(v);

	if (dtype == DT_F32)
		memcpy((char *)data + 4 * i, &v, 4);
	else
		memcpy((char *)data + 2 * i, &half, 2);
}

static float random_element(enum content content, size_t col)
{
	uint32_t bits = random_bits();

	if (content == TINY)
		return random_normal() * 0x1p-126f;
	if (content == WIDE && (bits & F32_INF) == F32_INF)
		return 1.0f;
	if (content == WIDE || content == ANY_BITS)
		return f32_from_bits(bits);
	return random_normal() * (col % 61 == 7 ? 50.0f : 1.0f);
}

static void sample_blocks(const struct sample *s)
{
	static const float specials[] = { 0.0f, 0x1p-133f, NAN, INFINITY, -INFINITY, 0x1p-24f };
	const struct matrix *x = &s->x;

	for (size_t i = 0; i < 6 && x->rows && x->cols; i++) {
		size_t row = random_below(x->rows), col = random_below(x->cols);
		size_t n_rows = i < 2 ? 140 : 1, n_cols = i < 2 ? 200 : 1;

		for (size_t r = row; r < x->rows && r < row + n_rows; r++)
			for (size_t c = col; c < x->cols && c < col + n_cols; c++)
				element_set(s->data, x->dtype, r * x->stride + c, specials[i]);
	}
}

size_t matrix_extent(size_t rows, size_t cols, size_t stride)
{
	return rows && cols ? (rows - 1) * stride + cols : 0;
}

struct sample sample_new(enum dtype dtype, size_t rows, size_t cols, enum content content)
{
	struct sample s = { .x = { .dtype = dtype, .rows = rows, .cols = cols, .stride = cols } };

	s.x.stride += random_below(2) ? random_below(70) : 0;
	s.element_size = dtype_bits(dtype) / 8;
	/* Up to the very end of memory, or a little before it so that no element is aligned. */
	s.size = matrix_extent(rows, cols, s.x.stride) * s.element_size +
		 (random_below(2) ? random_below(5) : 0);
	s.data = guarded_new(s.size, 0xFF);
	s.x.data = s.data;
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < cols; c++)
			element_set(s.data, dtype, r * s.x.stride + c, random_element(content, c));
	if (content == BLOCKS)
		sample_blocks(&s);
	return s;
}

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

void skipped_print(void)
{
	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->unusable())
			print_message("SKIPPED: backend %s: %s\n", (*b)->name, (*b)->unusable());
	}
}

#define N_SIGNALS 3

struct way way_at(size_t i)
{
	static const int n_threads[] = { 1, 2, 5 };
	enum { N = sizeof n_threads / sizeof *n_threads };

	for (const struct host_ops *const *row = host_ops; *row; row++) {
		if (!(*row)->usable()) {
			if (i == 0)
				print_message("SKIPPED: instructions %s: this CPU lacks them\n",
					      (*row)->name);
			continue;
		}
		if (i < N)
			return (struct way){ *row, n_threads[i] };
		i -= N;
	}
	return (struct way){ 0 };
}

float noise(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return (float)(int32_t)*state / 2147483648.0f;
}

float *hessian_new(size_t n, size_t n_tokens, uint32_t seed)
{
	float *h = xcalloc(n * n, sizeof *h), *x = xcalloc(n, sizeof *x);
	float *mix = xcalloc(n * N_SIGNALS, sizeof *mix);

	for (size_t i = 0; i < n * N_SIGNALS; i++)
		mix[i] = noise(&seed);
	for (size_t t = 0; t < n_tokens; t++) {
		float signals[N_SIGNALS];

		for (size_t s = 0; s < N_SIGNALS; s++)
			signals[s] = 4 * noise(&seed);
		for (size_t j = 0; j < n; j++) {
			x[j] = noise(&seed);
			for (size_t s = 0; s < N_SIGNALS; s++)
				x[j] += signals[s] * mix[j * N_SIGNALS + s];
			x[j] *= j % 11 == 5 ? 10 : 1 + (float)(j % 7);
		}
		for (size_t i = 0; i < n; i++)
			for (size_t j = i; j < n; j++)
				h[i * n + j] += x[i] * x[j];
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			h[i * n + j] = NAN;
	free(x);
	free(mix);
	return h;
}
