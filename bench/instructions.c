/* SPDX-License-Identifier: Apache-2.0
 *
 * instructions BACKEND WORK TIMES: does one work on N BF16 values, TIMES times, for a tool that
 * counts instructions.  A run with 2 TIMES less one with 1 is the work alone (bench/README.md).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "num/float16.h"

#define ROWS 16
#define COLS 2048
#define N    ((size_t)ROWS * COLS)

static const struct {
	const char *name;
	struct qspec spec;
	bool back;
} works[] = {
	{ "blockwise", { .tile = { 128, 128 }, .pow2 = true }, false },
	{ "channelwise", { .tile = { 1, WHOLE } }, false },
	{ "mxfp8", { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 }, false },
	{ "dequantize", { .tile = { 128, 128 }, .pow2 = true }, true },
};

#define N_WORKS (sizeof works / sizeof *works)

/* Returns n values like those of a trained weight: sums of twelve uniform numbers. */
static uint16_t *weights(size_t n)
{
	uint16_t *x = xcalloc(n, sizeof *x);
	uint32_t state = 1;

	for (size_t i = 0; i < n; i++) {
		float sum = -6;

		for (int j = 0; j < 12; j++) {
			state = state * 1664525 + 1013904223;
			sum += (float)(state >> 8) * 0x1p-24f;
		}
		x[i] = bf16_from_f32(sum * 0.02f);
	}
	return x;
}

static void work_do(const struct backend *backend, const struct qspec *spec, bool back, uint16_t *x)
{
	static uint8_t codes[N];
	static float scale_inv[N / 32];
	struct quant_stats stats = { 0 };
	size_t scale_stride = tile_count(COLS, spec->tile.cols);
	struct quant_in in = {
		codes,	   ROWS,	COLS, COLS, spec->format, spec->tile, spec->scale_type,
		scale_inv, scale_stride
	};
	struct matrix matrix = { x, DT_BF16, ROWS, COLS, COLS };
	struct quant_out out = { codes, COLS, scale_inv, scale_stride, &stats, false };

	if (back)
		backend_dequantize(backend, &in, DT_BF16, x, COLS);
	else
		backend_cast(backend, &matrix, spec, NULL, 0, &out);
}

int main(int argc, char **argv)
{
	struct err err = { 0 };
	const struct backend *backend = argc == 4 ? backend_select(argv[1], &err) : NULL;
	uint16_t *x = weights(N);
	size_t work = 0;

	while (argc == 4 && work < N_WORKS && strcmp(works[work].name, argv[2]) != 0)
		work++;
	if (!backend || work == N_WORKS) {
		fprintf(stderr, "usage: instructions BACKEND "
				"blockwise|channelwise|mxfp8|dequantize TIMES\n");
		return 2;
	}
	for (int times = (int)strtol(argv[3], NULL, 10); times > 0; times--)
		work_do(backend, &works[work].spec, works[work].back, x);
	free(x);
	return 0;
}
