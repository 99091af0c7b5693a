/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden vectors of numbers, on every backend: what an independent implementation says of
 * casts, scales and E8M0.  Run from the root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/dispatch.h"
#include "num/scale.h"
#include "support/golden.h"
#include "support/kernel_parity.h"

#define N_AMAX_MAX 4096

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

static void casts_equal_the_golden_codes(void **state)
{
	struct text t;

	(void)state;
	text_open(&t, GOLDEN_DIR "cast.txt");
	while (text_next(&t)) {
		for (int format = 0; format < 2; format++) {
			uint8_t code = fp8_from_f32((enum fp8_format)format,
						    f32_from_bits(text_bits(t.fields[0])));

			text_check(&t, "src/num", text_bits(t.fields[1 + format]), code);
			for (const struct backend *const *b = backends; *b; b++) {
				if (!(*b)->unusable())
					text_check(&t, (*b)->name, text_bits(t.fields[1 + format]),
						   cast_one(*b, (enum fp8_format)format,
							    text_bits(t.fields[0])));
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

static void mx_codes_equal_the_golden_codes(void **state)
{
	struct text t;

	(void)state;
	text_open(&t, GOLDEN_DIR "e8m0.txt");
	while (text_next(&t)) {
		float amax = f32_from_bits(text_bits(t.fields[0]));

		for (int i = 0; i < 6; i++) {
			struct qspec spec = { .format = (enum fp8_format)(i / 3),
					      .tile = { 1, 1 },
					      .scale_type = SCALE_E8M0,
					      .mx_rule = (enum mx_rule)(i % 3) };

			text_check(&t, "src/num", text_bits(t.fields[1 + i]),
				   e8m0_from_amax(amax, spec.format, spec.mx_rule, 0));
			for (const struct backend *const *b = backends; *b; b++) {
				uint8_t code = 0xAA;

				if ((*b)->unusable())
					continue;
				scales_of(*b, &spec, DT_F32, &amax, 1, &code);
				text_check(&t, (*b)->name, text_bits(t.fields[1 + i]), code);
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
				fail_msg("%s, the list before line %d: %s: amax %08x: %08x, not "
					 "%08x",
					 t->name, t->line_no, (*b)->name, f32_bits(l->amax[i]),
					 f32_bits(got[i]), f32_bits(l->scale_inv[i]));
		}
	}
}

static void scale_list_begin(struct scale_list *l, char **fields)
{
	*l = (struct scale_list){ .dtype = golden_dtype(fields[2]) };
	if (!strcmp(fields[1], "channel"))
		l->spec.tile.rows = 1;
	else if (!strcmp(fields[1], "block"))
		l->spec.tile = (struct tile){ 1, 1 };
	l->spec.format = golden_format(fields[3]);
	golden_spec_parse(&l->spec, fields + 4);
}

static void scales_equal_the_golden_scales(void **state)
{
	static struct scale_list l;
	struct text t;
	int n_specs = 0;

	(void)state;
	text_open(&t, GOLDEN_DIR "scale.txt");
	while (text_next(&t)) {
		if (!strcmp(t.fields[0], "spec")) {
			scale_list_check(&l, &t);
			scale_list_begin(&l, t.fields);
			n_specs++;
		} else {
			float amax = f32_from_bits(text_bits(t.fields[0]));
			struct scaling s =
				scaling_from_amax(&l.spec, amax, scale_limit(l.dtype, l.spec.tile));

			text_check(&t, "src/num, scale_inv", text_bits(t.fields[1]),
				   f32_bits(s.scale_inv));
			if (strcmp(t.fields[2], "-"))
				text_check(&t, "src/num, scale", text_bits(t.fields[2]),
					   f32_bits(s.factor));
			else /* by 1 either way */
				text_check(&t, "src/num, divides", true, s.divide || s.factor == 1);
			l.amax[l.n] = amax;
			l.scale_inv[l.n++] = f32_from_bits(text_bits(t.fields[1]));
			assert_true(l.n < N_AMAX_MAX);
		}
	}
	scale_list_check(&l, &t);
	assert_true(n_specs > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(casts_equal_the_golden_codes),
		cmocka_unit_test(mx_codes_equal_the_golden_codes),
		cmocka_unit_test(scales_equal_the_golden_scales),
	};

	skipped_print();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
