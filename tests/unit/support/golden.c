/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/golden.h"

#include <openssl/sha.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "num/scale.h"
#include "quantizer/state.h"
#include "recipe/recipe.h"

void text_open(struct text *t, const char *name)
{
	*t = (struct text){ .name = name, .file = fopen(name, "r") };
	if (!t->file)
		fail_msg("cannot open %s (run from the root)", name);
}

bool text_next(struct text *t)
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

uint32_t text_bits(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 16);
}

size_t text_number(const char *text)
{
	return strtoul(text, NULL, 10);
}

void text_check(const struct text *t, const char *who, unsigned want, unsigned got)
{
	if (want != got)
		fail_msg("%s:%d: %s: %#x, not %#x", t->name, t->line_no, who, got, want);
}

bool hash_is(const char *want, const void *data, size_t n)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];

	SHA256(data, n, hash);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	return !strcmp(want, text);
}

enum fp8_format golden_format(const char *name)
{
	return strcmp(name, "e5m2") ? FP8_E4M3 : FP8_E5M2;
}

enum dtype golden_dtype(const char *name)
{
	return !strcmp(name, "f32") ? DT_F32 : !strcmp(name, "bf16") ? DT_BF16 : DT_F16;
}

void golden_spec_parse(struct qspec *spec, char **fields)
{
	spec->scale_type = strncmp(fields[0], "e8m0", 4) ? SCALE_F32 : SCALE_E8M0;
	spec->pow2 = !strcmp(fields[0], "pow2");
	spec->mx_rule = strstr(fields[0], "floor")  ? MX_FLOOR
			: strstr(fields[0], "even") ? MX_EVEN
						    : MX_UP;
	spec->arith = !strcmp(fields[1], "deepseek")   ? ARITH_DEEPSEEK
		      : !strcmp(fields[1], "deepgemm") ? ARITH_DEEPGEMM
						       : ARITH_TE;
	spec->amax_epsilon = f32_from_bits(text_bits(fields[2]));
	spec->margin = (int)strtol(fields[3], NULL, 10);
}

uint64_t splitmix64(uint64_t seed, uint64_t n)
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

void input_init(struct input *in, char **fields)
{
	char *rest = NULL;

	free(in->data);
	*in = (struct input){ .dtype = golden_dtype(fields[0]),
			      .rows = text_number(fields[1]),
			      .cols = text_number(fields[2]),
			      .seed = text_number(fields[3]) };
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

void input_normal(struct input *in, enum dtype dtype, size_t rows, size_t cols, uint64_t seed)
{
	free(in->data);
	*in = (struct input){ dtype, rows, cols, dtype_bits(dtype) / 8, seed, NULL };
	in->data = malloc(rows * cols * in->size);
	assert_non_null(in->data);
	for (size_t r = 0; r < rows; r++)
		for (size_t c = 0; c < cols; c++)
			input_set(in, r, c, fill_bits(in, "normal", r, c));
}

struct matrix input_matrix(const struct input *in)
{
	return (struct matrix){ in->data, in->dtype, in->rows, in->cols, in->cols };
}

#define GOLDEN_LARGE 100000 /* elements: from here on the first two usages, a backend each */

/* Four fields: codes, then scale_inv compact, padded, swizzled. */
static void golden_copy_check(const struct text *g, int field, const char *who,
			      const struct fp8_copy *copy, const struct quantizer *q,
			      size_t n_codes)
{
	size_t n = copy->grid.rows * copy->grid.cols * scale_size(q->spec.scale_type);
	const char *want = g->fields[field + 1 + (int)q->order];

	if (!strcmp(want, "-")) /* there is nothing to swizzle */
		want = g->fields[field + 1 + SCALES_PADDED];
	if (!hash_is(g->fields[field], copy->codes, n_codes))
		fail_msg("%s:%d: %s: other codes, field %d", g->name, g->line_no, who, field);
	if (!hash_is(want, copy->scale_inv, n))
		fail_msg("%s:%d: %s: other scale_inv, field %d, order %d", g->name, g->line_no, who,
			 field, (int)q->order);
}

static void golden_usage_check(const struct text *g, const struct operation *op,
			       const struct backend *backend, const struct quantizer *q)
{
	struct quantized_tensor t = { 0 };
	struct quant_stats stats = { 0 };
	struct err err = { 0 };

	assert_int_equal(quantizer_make_empty(q, op->rows, op->cols, &t, &err), 0);
	assert_int_equal(t.rowwise.codes != NULL, q->rowwise);
	assert_int_equal(t.columnwise.codes != NULL, q->columnwise);
	if (q->amax)
		*q->amax = f32_from_bits(text_bits(g->fields[FIELD_BEFORE]));
	op->run(op->args, backend, q, &t, &stats);
	if (q->amax)
		assert_int_equal(f32_bits(*q->amax), text_bits(g->fields[FIELD_AFTER]));
	assert_int_equal(stats.nonfinite, text_number(g->fields[FIELD_NONFINITE]));
	if (q->rowwise) {
		assert_int_equal(stats.saturated, text_number(g->fields[FIELD_SATURATED]));
		golden_copy_check(g, FIELD_ROWWISE, backend->name, &t.rowwise, q,
				  op->rows * op->cols);
	}
	if (q->columnwise)
		golden_copy_check(g, FIELD_COLUMNWISE, backend->name, &t.columnwise, q,
				  op->rows * op->cols);
	quantized_tensor_release(&t);
}

void golden_slot_check(const struct text *g, const struct operation *op)
{
	static const struct {
		bool rowwise, columnwise;
		enum scale_order order;
	} usages[] = { { true, true, SCALES_PADDED },
		       { true, false, SCALES_COMPACT },
		       { false, true, SCALES_COMPACT },
		       { true, true, SCALES_GEMM } };
	struct quantizer quantizers[2 * N_FORWARD_SLOTS];
	struct recipe_state state;
	struct err err = { 0 };
	bool backward = !strcmp(g->fields[FIELD_MODE], "backward");
	size_t slot = text_number(g->fields[FIELD_SLOT]);
	bool large = op->rows * op->cols > GOLDEN_LARGE;

	recipe_state_init(&state, recipe_find(g->fields[FIELD_RECIPE], &err),
			  backward ? MODE_BACKWARD : MODE_FORWARD, 2);
	recipe_state_make_quantizers(&state, quantizers);
	assert_int_equal(quantizers[slot].scale != NULL, strcmp(g->fields[FIELD_SCALE], "-") != 0);
	if (state.history.n_slots)
		state.history.scale[slot] = f32_from_bits(text_bits(g->fields[FIELD_SCALE]));
	for (size_t i = 0; i < sizeof usages / sizeof *usages; i++) {
		struct quantizer q = quantizers[slot];

		q.rowwise = usages[i].rowwise;
		q.columnwise = usages[i].columnwise;
		q.order = usages[i].order;
		for (size_t n = 0; backends[n]; n++) {
			if (large && n != i)
				continue;
			if (!backends[n]->unusable())
				golden_usage_check(g, op, backends[n], &q);
		}
	}
	recipe_state_release(&state);
}

void golden_slots_each(void (*check)(const struct text *g, const struct input *in, void *context),
		       void *context)
{
	struct input in = { 0 };
	size_t n_slots = 0;
	struct text g;

	text_open(&g, GOLDEN_DIR "quantizer.txt");
	while (text_next(&g)) {
		if (!strcmp(g.fields[0], "input")) {
			input_init(&in, g.fields + 1);
		} else {
			check(&g, &in, context);
			n_slots++;
		}
	}
	free(in.data);
	assert_true(n_slots >= 15 * 14);
}
