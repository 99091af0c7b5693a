/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden vectors of matrices, on every backend: what an independent implementation says of whole tensors, whose inputs are
 * made here by the formulas of tests/golden/README.md, and of the way back.  Run from the root.
 */
#include "tests/unit/golden_text.h"

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
		cmocka_unit_test(golden_tensors),
		cmocka_unit_test(golden_dequantize),
	};

	tell_skipped();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
