/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden vectors of matrices, on every backend: what an independent implementation says of
 * whole tensors, whose inputs golden.h makes, and of the way back.  Run from the root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "support/golden.h"
#include "support/kernel_parity.h"

/* --- tensor.txt --- */

/* recipe tile_rows tile_cols fp8 kind arith eps margin sha_codes sha_scales ... */
static void case_check(const struct text *t, const struct input *in, const struct backend *backend,
		       char **fields)
{
	struct matrix x = { in->data, in->dtype, in->rows, in->cols, in->cols };
	struct qspec spec = { .tile = { text_number(fields[1]), text_number(fields[2]) },
			      .format = golden_format(fields[3]) };
	struct quant_stats stats = { 0 };
	size_t grid_cols = tile_count(in->cols, spec.tile.cols);
	size_t n_scales = tile_count(in->rows, spec.tile.rows) * grid_cols;
	uint8_t *codes = malloc(in->rows * in->cols);
	void *scales = calloc(n_scales, 4);
	struct quant_out out = { codes, in->cols, scales, grid_cols, &stats, false };

	assert_true(codes && scales);
	golden_spec_parse(&spec, fields + 4);
	backend_cast(backend, &x, &spec, NULL, 0, &out);
	if (!hash_is(fields[8], codes, in->rows * in->cols))
		fail_msg("%s:%d: %s: other codes; the first: %02x%02x%02x%02x, of %s", t->name,
			 t->line_no, backend->name, codes[0], codes[1], codes[2], codes[3],
			 fields[10]);
	if (!hash_is(fields[9], scales, n_scales * scale_size(spec.scale_type)))
		fail_msg("%s:%d: %s: other scales", t->name, t->line_no, backend->name);
	free(codes);
	free(scales);
}

static void tensors_equal_the_golden_sums(void **state)
{
	struct input in = { 0 };
	struct text t;
	int n_cases = 0;

	(void)state;
	text_open(&t, GOLDEN_DIR "tensor.txt");
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

static void dequantized_codes_equal_the_golden_values(void **state)
{
	uint8_t codes[256], y[4 * 256], e8m0 = 0;
	struct quant_in q = { codes, 1, 256, 256, FP8_E4M3, { WHOLE, WHOLE }, SCALE_F32, NULL, 1 };
	float scale_inv = 0;
	struct text t;

	(void)state;
	for (int i = 0; i < 256; i++)
		codes[i] = (uint8_t)i;
	text_open(&t, GOLDEN_DIR "dequantize.txt");
	while (text_next(&t)) {
		bool is_scale = !strcmp(t.fields[0], "scale");

		if (is_scale) {
			q.format = golden_format(t.fields[1]);
			q.scale_type = strcmp(t.fields[2], "e8m0") ? SCALE_F32 : SCALE_E8M0;
			q.scale_inv = q.scale_type == SCALE_F32 ? (void *)&scale_inv : &e8m0;
			scale_inv = f32_from_bits(text_bits(t.fields[3]));
			e8m0 = (uint8_t)text_bits(t.fields[3]);
		}
		for (const struct backend *const *b = backends; *b; b++) {
			for (int i = 0; i < 3 && !(*b)->unusable(); i++) {
				size_t size = dtype_bits(types[i]) / 8;
				uint32_t got = 0;

				dequantize(*b, &q, types[i], y);
				if (is_scale) {
					text_check(&t, (*b)->name, true,
						   hash_is(t.fields[4 + i], y, 256 * size));
					continue;
				}
				memcpy(&got, y + text_bits(t.fields[0]) * size, size);
				text_check(&t, (*b)->name, text_bits(t.fields[1 + i]), got);
			}
		}
	}
	assert_true(t.line_no > 700);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tensors_equal_the_golden_sums),
		cmocka_unit_test(dequantized_codes_equal_the_golden_values),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
