/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden vectors of tests/golden (its README.md has their format and the inputs' formulas), on
 * every backend: what an independent implementation says of casts, scales, E8M0, whole tensors and
 * the way back.  Run from the root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "backend/dispatch.h"
#include "num/scale.h"

#define FOLDER	   "tests/golden/"
#define N_FIELDS   16
#define LINE_SIZE  4096
#define N_AMAX_MAX 4096

/* --- text --- */

struct text {
	FILE *file;
	const char *name;
	int line_no;
	char line[LINE_SIZE];
	char *fields[N_FIELDS];
	int n_fields;
};

static void text_open(struct text *t, const char *name)
{
	*t = (struct text){ .name = name, .file = fopen(name, "r") };
	if (!t->file)
		fail_msg("cannot open %s (run from the root)", name);
}

/* The fields of the next line that is no comment.  False at the end, where the file is closed. */
static bool text_next(struct text *t)
{
	do {
		t->line_no++;
		if (!fgets(t->line, sizeof t->line, t->file)) {
			fclose(t->file);
			return false;
		}
	} while (t->line[0] == '#');
	assert_non_null(strchr(t->line, '\n'));
	t->n_fields = 0;
	for (char *p = strtok_r(t->line, " \n", &t->fields[N_FIELDS - 1]);
	     p && t->n_fields < N_FIELDS - 1; p = strtok_r(NULL, " \n", &t->fields[N_FIELDS - 1]))
		t->fields[t->n_fields++] = p;
	return true;
}

static uint32_t hex(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 16);
}

static size_t number(const char *text)
{
	return strtoul(text, NULL, 10);
}

/* A difference: the line of the golden file, who, and both sides. */
#define CHECK(t, who, want, got)                                                                  \
	do {                                                                                      \
		unsigned want_ = (want), got_ = (got);                                            \
		if (want_ != got_)                                                                \
			fail_msg("%s:%d: %s: %#x, not %#x", (t)->name, (t)->line_no, (who), got_, \
				 want_);                                                          \
	} while (0)

static bool hash_is(const char *want, const void *data, size_t n)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];

	SHA256(data, n, hash);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	return !strcmp(want, text);
}

static enum fp8_format format_of(const char *name)
{
	return strcmp(name, "e5m2") ? FP8_E4M3 : FP8_E5M2;
}

static enum dtype dtype_of(const char *name)
{
	return !strcmp(name, "f32") ? DT_F32 : !strcmp(name, "bf16") ? DT_BF16 : DT_F16;
}

/* kind, arith, eps, margin: four fields. */
static void spec_parse(struct qspec *spec, char **fields)
{
	spec->scale_type = strncmp(fields[0], "e8m0", 4) ? SCALE_F32 : SCALE_E8M0;
	spec->pow2 = !strcmp(fields[0], "pow2");
	spec->mx_rule = strstr(fields[0], "floor")  ? MX_FLOOR
			: strstr(fields[0], "even") ? MX_EVEN
						    : MX_UP;
	spec->arith = !strcmp(fields[1], "deepseek")   ? ARITH_DEEPSEEK
		      : !strcmp(fields[1], "deepgemm") ? ARITH_DEEPGEMM
						       : ARITH_TE;
	spec->amax_epsilon = f32_from_bits(hex(fields[2]));
	spec->margin = (int)strtol(fields[3], NULL, 10);
}

/* --- cast.txt --- */

/* One fp32 number as a tensor of its own, whose amax makes the scale 1. */
static uint8_t cast_one(const struct backend *backend, enum fp8_format format, uint32_t bits)
{
	struct matrix x = { &bits, DT_F32, 1, 1, 1 };
	struct qspec spec = { .format = format };
	struct quant_stats stats = { 0 };
	uint8_t code = 0xAA;
	float amax = fp8_max(format), scale_inv = 0;
	struct quant_out out = { &code, 1, &scale_inv, 1, &stats, false };

	backend_cast(backend, &x, &spec, &amax, 1, &out);
	return code;
}

static void golden_casts(void **state)
{
	struct text t;

	(void)state;
	text_open(&t, FOLDER "cast.txt");
	while (text_next(&t)) {
		for (int format = 0; format < 2; format++) {
			uint8_t code = fp8_from_f32((enum fp8_format)format,
						    f32_from_bits(hex(t.fields[0])));

			CHECK(&t, "src/num", hex(t.fields[1 + format]), code);
			for (const struct backend *const *b = backends; *b; b++) {
				if (!(*b)->unusable())
					CHECK(&t, (*b)->name, hex(t.fields[1 + format]),
					      cast_one(*b, (enum fp8_format)format,
						       hex(t.fields[0])));
			}
		}
	}
	assert_true(t.line_no > 3000);
}

/* --- e8m0.txt and scale.txt --- */

/* The scale_inv that a backend writes for n tiles of one zero each, whose amax is said to be
 * amax[]. */
static void scales_of(const struct backend *backend, const struct qspec *spec, enum dtype dtype,
		      const float *amax, size_t n, void *scale_inv)
{
	static const uint8_t zeros[4 * N_AMAX_MAX];
	static uint8_t codes[N_AMAX_MAX];
	struct matrix x = { zeros, dtype, 1, n, n };
	struct quant_stats stats = { 0 };
	struct quant_out out = { codes, n, scale_inv, n, &stats, false };

	if (spec->tile.cols == WHOLE) { /* channels lie below each other */
		x.rows = n;
		x.cols = x.stride = out.stride = out.scale_stride = 1;
	}
	backend_cast(backend, &x, spec, amax, out.scale_stride, &out);
}

static void golden_e8m0(void **state)
{
	struct text t;

	(void)state;
	text_open(&t, FOLDER "e8m0.txt");
	while (text_next(&t)) {
		float amax = f32_from_bits(hex(t.fields[0]));

		for (int i = 0; i < 6; i++) {
			struct qspec spec = { .format = (enum fp8_format)(i / 3),
					      .tile = { 1, 1 },
					      .scale_type = SCALE_E8M0,
					      .mx_rule = (enum mx_rule)(i % 3) };

			CHECK(&t, "src/num", hex(t.fields[1 + i]),
			      e8m0_from_amax(amax, spec.format, spec.mx_rule, 0));
			for (const struct backend *const *b = backends; *b; b++) {
				uint8_t code = 0xAA;

				if ((*b)->unusable())
					continue;
				scales_of(*b, &spec, DT_F32, &amax, 1, &code);
				CHECK(&t, (*b)->name, hex(t.fields[1 + i]), code);
			}
		}
	}
	assert_true(t.line_no > 2000);
}

/* The amaxes of one spec, and what becomes of them. */
struct scale_list {
	struct qspec spec;
	enum dtype dtype;
	float amax[N_AMAX_MAX], scale_inv[N_AMAX_MAX];
	size_t n;
};

static void scale_list_check(const struct scale_list *l, const struct text *t)
{
	static float got[N_AMAX_MAX];

	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->unusable())
			continue;
		if (l->spec.tile.rows == WHOLE) {
			for (size_t i = 0; i < l->n; i++)
				scales_of(*b, &l->spec, l->dtype, &l->amax[i], 1, &got[i]);
		} else {
			scales_of(*b, &l->spec, l->dtype, l->amax, l->n, got);
		}
		for (size_t i = 0; i < l->n; i++) {
			if (f32_bits(got[i]) != f32_bits(l->scale_inv[i]))
				fail_msg(
					"%s, the list before line %d: %s: amax %08x: %08x, not %08x",
					t->name, t->line_no, (*b)->name, f32_bits(l->amax[i]),
					f32_bits(got[i]), f32_bits(l->scale_inv[i]));
		}
	}
}

static void scale_list_begin(struct scale_list *l, char **fields)
{
	*l = (struct scale_list){ .dtype = dtype_of(fields[2]) };
	if (!strcmp(fields[1], "channel"))
		l->spec.tile.rows = 1;
	else if (!strcmp(fields[1], "block"))
		l->spec.tile = (struct tile){ 1, 1 };
	l->spec.format = format_of(fields[3]);
	spec_parse(&l->spec, fields + 4);
}

static void golden_scales(void **state)
{
	static struct scale_list l;
	struct text t;
	int n_specs = 0;

	(void)state;
	text_open(&t, FOLDER "scale.txt");
	while (text_next(&t)) {
		if (!strcmp(t.fields[0], "spec")) {
			scale_list_check(&l, &t);
			scale_list_begin(&l, t.fields);
			n_specs++;
		} else {
			float amax = f32_from_bits(hex(t.fields[0]));
			struct scaling s =
				scaling_from_amax(&l.spec, amax, scale_limit(l.dtype, l.spec.tile));

			CHECK(&t, "src/num, scale_inv", hex(t.fields[1]), f32_bits(s.scale_inv));
			if (strcmp(t.fields[2], "-"))
				CHECK(&t, "src/num, scale", hex(t.fields[2]), f32_bits(s.factor));
			else /* by 1 either way */
				CHECK(&t, "src/num, divides", true, s.divide || s.factor == 1);
			l.amax[l.n] = amax;
			l.scale_inv[l.n++] = f32_from_bits(hex(t.fields[1]));
			assert_true(l.n < N_AMAX_MAX);
		}
	}
	scale_list_check(&l, &t);
	assert_true(n_specs > 50);
}

/* --- tensor.txt: the inputs --- */

static uint64_t splitmix64(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15u;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

static uint32_t normal_bits(uint64_t z)
{
	int u = (int)((z & 0xFFFF) + (z >> 16 & 0xFFFF) + (z >> 32 & 0xFFFF) + (z >> 48)) - 131070;
	uint32_t magnitude = (uint32_t)abs(u);
	int e = 0;

	if (u == 0)
		return 0;
	while (magnitude >> (e + 1))
		e++;
	return (uint32_t)(u < 0) << 31 | (uint32_t)(e + 105) << 23 |
	       (magnitude << (23 - e) & 0x7FFFFF) | (uint32_t)(z >> 13 & 0x7F);
}

static uint32_t f16_truncate(uint32_t bits)
{
	int e = (int)(bits >> 23 & 0xFF) - 112;
	uint32_t m = bits & 0x7FFFFF, sign = bits >> 16 & 0x8000;

	if (e >= 31)
		return sign | 0x7BFF;
	if (e <= 0)
		return sign | (14 - e > 31 ? 0 : (m | 0x800000) >> (14 - e));
	return sign | (uint32_t)e << 10 | m >> 13;
}

/* Sign, exponent and mantissa of a type, as masks. */
struct masks {
	uint32_t sign, exponent, mantissa;
};

static struct masks masks_of(enum dtype dtype)
{
	if (dtype == DT_F32)
		return (struct masks){ 0x80000000, 0x7F800000, 0x7FFFFF };
	if (dtype == DT_BF16)
		return (struct masks){ 0x8000, 0x7F80, 0x7F };
	return (struct masks){ 0x8000, 0x7C00, 0x3FF };
}

struct input {
	enum dtype dtype;
	size_t rows, cols, size; /* size: of an element */
	uint64_t seed;
	unsigned char *data;
};

static uint32_t fill_bits(const struct input *in, const char *fill, size_t row, size_t col)
{
	uint64_t z = splitmix64(in->seed, row * in->cols + col);
	struct masks m = masks_of(in->dtype);
	uint32_t bits = normal_bits(z);

	if (!strcmp(fill, "bits")) {
		bits = (uint32_t)(z >> (64 - 8 * in->size));
		return (bits & m.exponent) == m.exponent ? bits & ~(m.exponent & ~(m.exponent >> 1))
							 : bits;
	}
	if (!strcmp(fill, "outlier") && col % 67 == 5 && bits)
		bits += 6u << 23;
	if (!strcmp(fill, "spread") && bits)
		bits += (uint32_t)((int)(splitmix64(in->seed ^ 0xFFFFFFFF,
						    row / 128 * 65536 + col / 32) >>
					 59) -
				   16)
			<< 23;
	return in->dtype == DT_F32 ? bits : in->dtype == DT_BF16 ? bits >> 16 : f16_truncate(bits);
}

static uint32_t overlay_bits(const struct input *in, const char *kind, size_t row, size_t col)
{
	uint64_t z = splitmix64(in->seed, row * in->cols + col);
	struct masks m = masks_of(in->dtype);
	uint32_t sign = z >> 63 ? m.sign : 0, f = (uint32_t)z & m.mantissa;

	if (!strcmp(kind, "zero"))
		return (row + col) & 1 ? m.sign : 0;
	if (!strcmp(kind, "denormal"))
		return sign | f;
	if (!strcmp(kind, "tiny"))
		return sign | (f & 1);
	if (!strcmp(kind, "max"))
		return sign | ((m.exponent | m.mantissa) - (m.mantissa + 1));
	if (!strcmp(kind, "inf"))
		return sign | m.exponent;
	assert_string_equal(kind, "nan");
	return sign | m.exponent | f | 1;
}

static void input_set(const struct input *in, size_t row, size_t col, uint32_t bits)
{
	memcpy(in->data + (row * in->cols + col) * in->size, &bits, in->size);
}

static void overlay(const struct input *in, char *text)
{
	size_t row, col, rows, cols;
	char *at = strchr(text, '@');

	assert_non_null(at);
	*at = '\0';
	assert_int_equal(sscanf(at + 1, "%zu,%zu,%zu,%zu", &row, &col, &rows, &cols), 4);
	for (size_t r = row; r < row + rows; r++)
		for (size_t c = col; c < col + cols; c++)
			input_set(in, r, c, overlay_bits(in, text, r, c));
}

/* dtype rows cols seed fill overlays sha */
static void input_init(struct input *in, char **fields)
{
	char *rest = NULL;

	free(in->data);
	*in = (struct input){ .dtype = dtype_of(fields[0]),
			      .rows = number(fields[1]),
			      .cols = number(fields[2]),
			      .seed = number(fields[3]) };
	in->size = dtype_bits(in->dtype) / 8;
	in->data = malloc(in->rows * in->cols * in->size);
	assert_non_null(in->data);
	for (size_t r = 0; r < in->rows; r++)
		for (size_t c = 0; c < in->cols; c++)
			input_set(in, r, c, fill_bits(in, fields[4], r, c));
	if (strcmp(fields[5], "-")) {
		for (char *one = strtok_r(fields[5], "+", &rest); one;
		     one = strtok_r(NULL, "+", &rest))
			overlay(in, one);
	}
	assert_true(hash_is(fields[6], in->data, in->rows * in->cols * in->size));
}

/* recipe tile_rows tile_cols fp8 kind arith eps margin sha_codes sha_scales ... */
static void case_check(const struct text *t, const struct input *in, const struct backend *backend,
		       char **fields)
{
	struct matrix x = { in->data, in->dtype, in->rows, in->cols, in->cols };
	struct qspec spec = { .tile = { number(fields[1]), number(fields[2]) },
			      .format = format_of(fields[3]) };
	struct quant_stats stats = { 0 };
	size_t grid_cols = tile_count(in->cols, spec.tile.cols);
	size_t n_scales = tile_count(in->rows, spec.tile.rows) * grid_cols;
	uint8_t *codes = malloc(in->rows * in->cols);
	void *scales = calloc(n_scales, 4);
	struct quant_out out = { codes, in->cols, scales, grid_cols, &stats, false };

	assert_true(codes && scales);
	spec_parse(&spec, fields + 4);
	backend_quantize(backend, &x, &spec, &out);
	if (!hash_is(fields[8], codes, in->rows * in->cols))
		fail_msg("%s:%d: %s: other codes; the first: %02x%02x%02x%02x, of %s", t->name,
			 t->line_no, backend->name, codes[0], codes[1], codes[2], codes[3],
			 fields[10]);
	if (!hash_is(fields[9], scales, n_scales * scale_size(spec.scale_type)))
		fail_msg("%s:%d: %s: other scales", t->name, t->line_no, backend->name);
	free(codes);
	free(scales);
}

static void golden_tensors(void **state)
{
	struct input in = { 0 };
	struct text t;
	int n_cases = 0;

	(void)state;
	text_open(&t, FOLDER "tensor.txt");
	while (text_next(&t)) {
		if (!strcmp(t.fields[0], "input")) {
			input_init(&in, t.fields + 1);
			continue;
		}
		for (const struct backend *const *b = backends; *b; b++) {
			if (!(*b)->unusable())
				case_check(&t, &in, *b, t.fields + 1);
		}
		n_cases++;
	}
	free(in.data);
	assert_true(n_cases > 2000);
}

/* --- dequantize.txt --- */

static const enum dtype types[] = { DT_F32, DT_BF16, DT_F16 };

static void dequantize(const struct backend *backend, const struct quant_in *q, enum dtype dtype,
		       void *y)
{
	memset(y, 0xAA, 4 * 256);
	backend_dequantize(backend, q, dtype, y, 256);
}

static void golden_dequantize(void **state)
{
	uint8_t codes[256], y[4 * 256], e8m0 = 0;
	struct quant_in q = { codes, 1, 256, 256, FP8_E4M3, { WHOLE, WHOLE }, SCALE_F32, NULL, 1 };
	float scale_inv = 0;
	struct text t;

	(void)state;
	for (int i = 0; i < 256; i++)
		codes[i] = (uint8_t)i;
	text_open(&t, FOLDER "dequantize.txt");
	while (text_next(&t)) {
		bool is_scale = !strcmp(t.fields[0], "scale");

		if (is_scale) {
			q.format = format_of(t.fields[1]);
			q.scale_type = strcmp(t.fields[2], "e8m0") ? SCALE_F32 : SCALE_E8M0;
			q.scale_inv = q.scale_type == SCALE_F32 ? (void *)&scale_inv : &e8m0;
			scale_inv = f32_from_bits(hex(t.fields[3]));
			e8m0 = (uint8_t)hex(t.fields[3]);
		}
		for (const struct backend *const *b = backends; *b; b++) {
			for (int i = 0; i < 3 && !(*b)->unusable(); i++) {
				size_t size = dtype_bits(types[i]) / 8;
				uint32_t got = 0;

				dequantize(*b, &q, types[i], y);
				if (is_scale) {
					CHECK(&t, (*b)->name, true,
					      hash_is(t.fields[4 + i], y, 256 * size));
					continue;
				}
				memcpy(&got, y + hex(t.fields[0]) * size, size);
				CHECK(&t, (*b)->name, hex(t.fields[1 + i]), got);
			}
		}
	}
	assert_true(t.line_no > 700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_casts),	     cmocka_unit_test(golden_e8m0),
		cmocka_unit_test(golden_scales),     cmocka_unit_test(golden_tensors),
		cmocka_unit_test(golden_dequantize),
	};

	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->unusable())
			print_message("SKIPPED: backend %s: %s\n", (*b)->name, (*b)->unusable());
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
