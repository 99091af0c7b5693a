/* SPDX-License-Identifier: Apache-2.0
 *
 * Parity: every backend against the scalar reference, byte for byte, over shapes, tiles, types,
 * formats and contents. What may not be written (the space between rows) is compared too.  A
 * difference says where, and both bytes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/mman.h>

#include "backend/dispatch.h"
#include "num/scale.h"

#define N_RANDOM_CASES 2000

static const enum dtype dtypes[] = { DT_BF16, DT_F16, DT_F32 };

/* --- a random source, the same in every run --- */

static uint64_t random_state = 0x9E3779B97F4A7C15u;

static uint32_t random_bits(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

static size_t random_below(size_t n)
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

/* --- memory that ends where the next byte cannot be touched --- */

#define PAGE 4096

static size_t guarded_size(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE + PAGE;
}

static unsigned char *guarded_new(size_t size, int fill)
{
	size_t total = guarded_size(size);
	unsigned char *memory =
		mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(memory != MAP_FAILED);
	memset(memory, fill, total - PAGE);
	assert_int_equal(mprotect(memory + total - PAGE, PAGE, PROT_NONE), 0);
	return memory + total - PAGE - size;
}

static void guarded_free(unsigned char *p, size_t size)
{
	munmap(p + size + PAGE - guarded_size(size), guarded_size(size));
}

/* --- matrices --- */

enum content {
	NORMAL,	    /* with outlier columns */
	TINY,	    /* among the subnormals */
	WIDE,	    /* any exponent, finite */
	ANY_BITS,   /* NaN and inf among them */
	N_CONTENTS, /* or NORMAL with blocks of zeros, subnormals, one NaN, one inf */
	BLOCKS = N_CONTENTS
};

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

struct sample {
	struct matrix x;
	unsigned char *data; /* x.data, to be written */
	size_t size;	     /* of data, in bytes */
	size_t element_size;
};

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

/* Elements of a matrix up to its last one. */
static size_t extent(size_t rows, size_t cols, size_t stride)
{
	return rows && cols ? (rows - 1) * stride + cols : 0;
}

static struct sample sample_new(enum dtype dtype, size_t rows, size_t cols, enum content content)
{
	struct sample s = { .x = { .dtype = dtype, .rows = rows, .cols = cols, .stride = cols } };

	s.x.stride += random_below(2) ? random_below(70) : 0;
	s.element_size = dtype_bits(dtype) / 8;
	/* Up to the very end of memory, or a little before it so that no element is aligned. */
	s.size = extent(rows, cols, s.x.stride) * s.element_size +
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

/* --- one comparison --- */

struct output {
	struct quant_out out;
	struct quant_stats stats;
	unsigned char *codes, *scales;
	size_t codes_size, scales_size;
};

struct layout {
	size_t codes_offset, codes_gap, scales_offset, scales_gap;
	bool streaming;
};

static void output_init(struct output *o, const struct matrix *x, const struct qspec *spec,
			struct layout l)
{
	size_t grid_rows = tile_count(x->rows, spec->tile.rows),
	       grid_cols = tile_count(x->cols, spec->tile.cols);

	memset(o, 0, sizeof *o);
	o->out.stride = x->cols + l.codes_gap;
	o->out.scale_stride = grid_cols + l.scales_gap;
	o->codes_size = l.codes_offset + extent(x->rows, x->cols, o->out.stride);
	o->scales_size = l.scales_offset + extent(grid_rows, grid_cols, o->out.scale_stride) *
						   scale_size(spec->scale_type);
	o->codes = guarded_new(o->codes_size, 0xA5);
	o->scales = guarded_new(o->scales_size, 0xA5);
	o->out.codes = o->codes + l.codes_offset;
	o->out.scale_inv = o->scales + l.scales_offset;
	o->out.stats = &o->stats;
	o->out.streaming = l.streaming;
}

static void output_release(struct output *o)
{
	guarded_free(o->codes, o->codes_size);
	guarded_free(o->scales, o->scales_size);
}

/* Prints where two outputs differ first.  what: the function.  Returns whether they do. */
static bool differ(const char *what, const struct backend *backend, const struct matrix *x,
		   const struct qspec *spec, const unsigned char *want, const unsigned char *got,
		   size_t n, size_t offset, size_t stride)
{
	for (size_t i = 0; i < n; i++) {
		if (want[i] == got[i])
			continue;
		print_error(
			"%s of %s: %zux%zu %s (stride %zu), tile %zux%zu, %s, %s%s, arith %d, mx %d, margin %d, "
			"epsilon %g: at (%zu, %zu) 0x%02x, not 0x%02x\n",
			what, backend->name, x->rows, x->cols, dtype_name(x->dtype), x->stride,
			spec->tile.rows, spec->tile.cols,
			spec->format == FP8_E4M3 ? "E4M3" : "E5M2",
			spec->scale_type == SCALE_E8M0 ? "E8M0" : "F32", spec->pow2 ? " pow2" : "",
			spec->arith, spec->mx_rule, spec->margin, (double)spec->amax_epsilon,
			(i - offset) / stride, (i - offset) % stride, got[i], want[i]);
		return true;
	}
	return false;
}

static void outputs_equal(const char *what, const struct backend *backend, const struct matrix *x,
			  const struct qspec *spec, const struct output *want,
			  const struct output *got, struct layout l)
{
	bool bad = differ(what, backend, x, spec, want->codes, got->codes, want->codes_size,
			  l.codes_offset, want->out.stride);

	bad |= differ("scale_inv", backend, x, spec, want->scales, got->scales, want->scales_size,
		      l.scales_offset, want->out.scale_stride * scale_size(spec->scale_type));
	if (bad)
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

	if (differ("amax", backend, &s->x, spec, (void *)want, (void *)got, n * 4, 0, n_cols * 4))
		fail();
	assert_int_equal(want_count, got_count);
	free(want);
	free(got);
}

static void check_dequantize(const struct backend *reference, const struct backend *backend,
			     const struct sample *s, const struct qspec *spec,
			     const struct output *o)
{
	struct quant_in q = { o->out.codes,	s->x.rows,	  s->x.cols,
			      o->out.stride,	spec->format,	  spec->tile,
			      spec->scale_type, o->out.scale_inv, o->out.scale_stride };
	size_t stride = s->x.cols + 3;
	size_t size = 1 + extent(s->x.rows, s->x.cols, stride) * s->element_size;
	unsigned char *want = guarded_new(size, 0xA5), *got = guarded_new(size, 0xA5);
	double a[2] = { 1, 1 }, b[2] = { 1, 1 };

	/* The type of the source, from 1 byte on: unaligned. */
	backend_dequantize(reference, &q, s->x.dtype, want + 1, stride);
	backend_dequantize(backend, &q, s->x.dtype, got + 1, stride);
	if (differ("dequantize", backend, &s->x, spec, want, got, size, 1,
		   stride * s->element_size))
		fail();
	backend_error(reference, &s->x, &q, &a[0], &a[1]);
	backend_error(backend, &s->x, &q, &b[0], &b[1]);
	for (int i = 0; i < 2; i++) {
		if (isfinite(a[i]))
			assert_true(fabs(a[i] - b[i]) <= 1e-9 * a[i]);
		else
			assert_true(isnan(a[i]) == isnan(b[i]));
	}
	guarded_free(want, size);
	guarded_free(got, size);
}

static void check_case(const struct sample *s, const struct qspec *spec, struct layout l,
		       float amax_factor)
{
	const struct backend *reference = backend_select("reference", &(struct err){ 0 });
	struct output quantized, cast, got;
	uint64_t unused = 0;
	float *amax = amax_of(reference, &s->x, spec->tile, amax_factor, &unused);
	size_t amax_stride = tile_count(s->x.cols, spec->tile.cols);

	output_init(&quantized, &s->x, spec, l);
	output_init(&cast, &s->x, spec, l);
	backend_quantize(reference, &s->x, spec, &quantized.out);
	backend_cast(reference, &s->x, spec, amax, amax_stride, &cast.out);
	for (const struct backend *const *b = backends; *b; b++) {
		if (*b == reference || (*b)->unusable())
			continue;
		check_amax(reference, *b, s, spec);
		output_init(&got, &s->x, spec, l);
		backend_quantize(*b, &s->x, spec, &got.out);
		outputs_equal("quantize", *b, &s->x, spec, &quantized, &got, l);
		check_dequantize(reference, *b, s, spec, &got);
		output_release(&got);
		output_init(&got, &s->x, spec, l);
		backend_cast(*b, &s->x, spec, amax, amax_stride, &got.out);
		outputs_equal("cast", *b, &s->x, spec, &cast, &got, l);
		output_release(&got);
	}
	output_release(&quantized);
	output_release(&cast);
	free(amax);
}

/* --- the cases --- */

static const struct tile tiles[] = {
	{ WHOLE, WHOLE }, { 1, WHOLE }, { 128, 128 },	{ 1, 128 },	{ 1, 32 },
	{ 1, 16 },	  { 3, 5 },	{ WHOLE, 128 }, { 128, WHOLE }, { 2, 32 },
	{ 64, 33 },	  { 1, 64 },	{ 1, 5000 },	{ 1, 1 },
};

#define N_TILES (sizeof tiles / sizeof *tiles)

/* How scales are made.  The format and the tile come from elsewhere. */
static const struct qspec kinds[] = {
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

#define N_KINDS (sizeof kinds / sizeof *kinds)

/* Shapes of edge tiles, and those where panels and vectors end. */
static const struct {
	size_t rows, cols;
} shapes[] = {
	{ 128, 128 }, { 256, 272 }, { 303, 300 }, { 305, 256 }, { 993, 512 }, { 65, 96 },
	{ 1, 16 },    { 1024, 1 },  { 512, 512 }, { 1, 4097 },	{ 3, 8200 },  { 2, 63 },
	{ 129, 64 },  { 0, 7 },	    { 7, 0 },	  { 2, 1055 },
};

#define N_SHAPES (sizeof shapes / sizeof *shapes)

static const struct layout plain = { 0 };

static struct qspec spec_of(size_t kind, struct tile tile, enum fp8_format format)
{
	struct qspec spec = kinds[kind];

	spec.tile = tile;
	spec.format = format;
	return spec;
}

static void parity_of_shapes(void **state)
{
	(void)state;
	for (size_t shape = 0; shape < N_SHAPES; shape++) {
		for (size_t type = 0; type < 3; type++) {
			struct sample s =
				sample_new(dtypes[type], shapes[shape].rows, shapes[shape].cols,
					   shape % 2 ? BLOCKS : NORMAL);

			for (size_t i = 0; i < N_TILES; i++) {
				struct qspec spec = spec_of((shape + i) % N_KINDS, tiles[i], i % 2);

				check_case(&s, &spec, plain, 1.0f);
			}
			guarded_free(s.data, s.size);
		}
	}
}

/* Each recipe's tile and arithmetic on a matrix of several panels a row. */
static void parity_of_recipes(void **state)
{
	static const struct qspec recipes[] = {
		{ .tile = { WHOLE, WHOLE } },
		{ .tile = { 1, WHOLE } },
		{ .tile = { 128, 128 }, .pow2 = true },
		{ .tile = { 128, 128 }, .arith = ARITH_DEEPSEEK },
		{ .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
		{ .tile = { WHOLE, WHOLE }, .format = FP8_E5M2 },
	};

	(void)state;
	for (size_t type = 0; type < 3; type++) {
		struct sample s = sample_new(dtypes[type], type ? 300 : 2000, 1024, NORMAL);

		for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
			check_case(&s, &recipes[i], (struct layout){ .streaming = true }, 1.0f);
		guarded_free(s.data, s.size);
	}
}

static void parity_of_random_cases(void **state)
{
	static const float epsilons[] = { 0, 0, 0, 1e-12f, 1.0f };
	static const float factors[] = { 1, 1, 1, 0.75f, 0.25f, 0, 3, 0x1p-120f };

	(void)state;
	for (int n = 0; n < N_RANDOM_CASES; n++) {
		size_t rows = 1 + random_below(n % 10 ? 20 : 300),
		       cols = 1 + random_below(n % 7 ? 300 : 5000 / rows);
		struct sample s = sample_new(dtypes[random_below(3)], rows, cols,
					     (enum content)random_below(N_CONTENTS + 1));
		struct tile tile = random_below(4)
					   ? tiles[random_below(N_TILES)]
					   : (struct tile){ random_below(9), random_below(200) };
		struct qspec spec =
			spec_of(random_below(N_KINDS), tile, (enum fp8_format)random_below(2));
		struct layout l = { random_below(2) ? random_below(64) : 0,
				    random_below(2) ? random_below(9) : 0, random_below(4),
				    random_below(4), random_below(2) };

		spec.margin = random_below(4) ? 0 : (int)random_below(65) - 32;
		spec.amax_epsilon = epsilons[random_below(5)];
		check_case(&s, &spec, l, factors[random_below(8)]);
		guarded_free(s.data, s.size);
	}
}

/* The scales of amaxes around all that is special about one: 1x1 tiles of zeros, whose amax is said
 * to be that. */
static void parity_of_scales(void **state)
{
	enum { REACH = 64, N = 2 * REACH };
	static const float centres[] = { 0x1p-142f,  0x1.cp-120f, 0x1.cp-119f, 0x1.cp-118f,
					 0x1p-126f,  1e-4f,	  1e-12f,      1,
					 448,	     0x1p127f,	  0x1.cp-113f, 0x1.cp-112f,
					 0x1.cp-111f };
	static const uint8_t zeros[4 * N];

	(void)state;
	for (size_t n = 0; n < sizeof centres / sizeof *centres * 2 * N_KINDS * 3; n++) {
		struct qspec spec = spec_of(n % N_KINDS, (struct tile){ 1, 1 }, n / N_KINDS % 2);
		struct matrix x = { zeros, dtypes[n / N_KINDS / 2 % 3], 1, N, N };
		float amax[N];
		struct output want, got;

		for (int i = 0; i < N; i++)
			amax[i] = f32_from_bits(f32_bits(centres[n / N_KINDS / 6]) - REACH +
						(uint32_t)i);
		output_init(&want, &x, &spec, plain);
		backend_cast(backend_select("reference", &(struct err){ 0 }), &x, &spec, amax, N,
			     &want.out);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable())
				continue;
			output_init(&got, &x, &spec, plain);
			backend_cast(*b, &x, &spec, amax, N, &got.out);
			outputs_equal("cast", *b, &x, &spec, &want, &got, plain);
			output_release(&got);
		}
		output_release(&want);
	}
}

/* All 65,536 patterns of bf16 and fp16 as one matrix, under given scales: 256 to a row, and each on
 * a row of its own, where no neighbour sends it to the slow path. */
static void parity_of_all_halves(void **state)
{
	static const float amaxes[] = { 1.0f,	  448.0f,	0x1.8p-100f, 0x1p-126f,
					0x1p-14f, 0x1.23456p3f, 1e30f,	     57344.0f };
	static uint16_t patterns[65536];

	(void)state;
	for (size_t i = 0; i < 65536; i++)
		patterns[i] = (uint16_t)i;
	for (size_t n = 0; n < 2 * 2 * 2 * 8 * N_KINDS; n++) {
		size_t cols = n % 2 ? 256 : 1;
		struct matrix x = { patterns, n / 2 % 2 ? DT_BF16 : DT_F16, 65536 / cols, cols,
				    cols };
		struct qspec spec = spec_of(n / 64, (struct tile){ WHOLE, WHOLE }, n / 4 % 2);
		float amax = amaxes[n / 8 % 8];
		struct output want, got;

		output_init(&want, &x, &spec, plain);
		backend_cast(backend_select("reference", &(struct err){ 0 }), &x, &spec, &amax, 1,
			     &want.out);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable() || !strcmp((*b)->name, "reference"))
				continue;
			output_init(&got, &x, &spec, plain);
			backend_cast(*b, &x, &spec, &amax, 1, &got.out);
			outputs_equal("cast", *b, &x, &spec, &want, &got, plain);
			output_release(&got);
		}
		output_release(&want);
	}
}

/* Every code times scale_inv of every kind, to every type. */
static void parity_of_all_codes(void **state)
{
	static const float scales[] = { 1.0f, 0x1p-127f, 0x1p-149f, 0x1.234567p-5f, 0x1.fffffep127f,
					0,    INFINITY,	 NAN,	    0x1p-126f,	    3e-8f };
	uint8_t codes[256], e8m0[] = { 0, 1, 127, 253, 254, 255 };
	uint32_t want[256], got[256];

	(void)state;
	for (int i = 0; i < 256; i++)
		codes[i] = (uint8_t)i;
	for (size_t n = 0; n < 2 * 3 * 16; n++) {
		struct quant_in q = { codes,	      1, 256, 256, n % 2, { 1, WHOLE }, SCALE_F32,
				      scales + n / 6, 1 };
		enum dtype dtype = dtypes[n / 2 % 3];

		if (n / 6 >= 10) {
			q.scale_type = SCALE_E8M0;
			q.scale_inv = e8m0 + (n / 6 - 10);
		}
		memset(want, 0, sizeof want);
		memset(got, 0, sizeof got);
		backend_dequantize(backend_select("reference", &(struct err){ 0 }), &q, dtype, want,
				   256);
		for (const struct backend *const *b = backends; *b; b++) {
			if ((*b)->unusable())
				continue;
			backend_dequantize(*b, &q, dtype, got, 256);
			assert_memory_equal(want, got, sizeof got);
		}
	}
}

static void names(void **state)
{
	struct err err = { 0 };

	(void)state;
	assert_non_null(backend_select("auto", &err));
	assert_ptr_equal(backend_select("cpu", &err), backend_select("auto", &err));
	assert_null(backend_select("refrence", &err));
	assert_int_equal(err.kind, ERR_USAGE);
	assert_string_equal(err.message, "no backend 'refrence': did you mean 'reference'?");
	assert_null(backend_select("quantum", &err));
	assert_string_equal(err.message, "no backend 'quantum' in this build");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(parity_of_shapes),
		cmocka_unit_test(parity_of_recipes),
		cmocka_unit_test(parity_of_random_cases),
		cmocka_unit_test(parity_of_scales),
		cmocka_unit_test(parity_of_all_halves),
		cmocka_unit_test(parity_of_all_codes),
	};

	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->unusable())
			print_message("SKIPPED: backend %s: %s\n", (*b)->name, (*b)->unusable());
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
