/* SPDX-License-Identifier: Apache-2.0
 *
 * compensate FOLDER ROWS COLS RHO e4m3|e5m2 TILE_ROWS TILE_COLS multiply|divide: the codes of one
 * matrix by compensate/round.h, for the comparison with numpy.  In FOLDER, float32 without headers:
 * w (ROWS, COLS), h (COLS, COLS), and of each tile factor and scale_inv.  Writes codes there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compensate/round.h"

static void *read_floats(const char *folder, const char *name, size_t n)
{
	char *path = xasprintf("%s/%s", folder, name);
	float *values = xcalloc(n, sizeof *values);
	FILE *file = fopen(path, "rb");

	if (!file || fread(values, sizeof *values, n, file) != n) {
		fprintf(stderr, "compensate: cannot read %zu numbers of %s\n", n, path);
		exit(1);
	}
	fclose(file);
	free(path);
	return values;
}

static struct scaling *read_scales(const char *folder, size_t n, bool divide)
{
	float *factor = read_floats(folder, "factor", n);
	float *inverse = read_floats(folder, "scale_inv", n);
	struct scaling *scales = xcalloc(n, sizeof *scales);

	for (size_t i = 0; i < n; i++)
		scales[i] = (struct scaling){ factor[i], divide, inverse[i], 0 };
	free(factor);
	free(inverse);
	return scales;
}

static int write_codes(const char *folder, const uint8_t *codes, size_t n)
{
	char *path = xasprintf("%s/codes", folder);
	FILE *file = fopen(path, "wb");
	int failed = !file || fwrite(codes, 1, n, file) != n;

	failed |= file && fclose(file);
	free(path);
	return failed;
}

int main(int argc, char **argv)
{
	if (argc != 9)
		return 2;
	size_t rows = strtoul(argv[2], NULL, 10), cols = strtoul(argv[3], NULL, 10);
	const struct qspec spec = { .format = strcmp(argv[5], "e5m2") ? FP8_E4M3 : FP8_E5M2,
				    .tile = { strtoul(argv[6], NULL, 10),
					      strtoul(argv[7], NULL, 10) } };
	size_t n_tiles = tile_count(rows, spec.tile.rows) * tile_count(cols, spec.tile.cols);
	float *w = read_floats(argv[1], "w", rows * cols),
	      *h = read_floats(argv[1], "h", cols * cols);
	struct scaling *scales = read_scales(argv[1], n_tiles, !strcmp(argv[8], "divide"));
	const struct hessian hessian = { h, cols, host_ops_select(), 2, NULL };
	const struct matrix matrix = { w, DT_F32, rows, cols, cols };
	uint8_t *codes = xcalloc(rows, cols);
	struct factor factor = { 0 };
	const struct rounding rounding = { &factor, &spec, scales, hessian.ops, 2, NULL };
	struct err err = { 0 };
	int failed = factor_make(&factor, &hessian, strtof(argv[4], NULL), &err) ||
		     round_matrix(&rounding, &matrix, codes, &err) ||
		     write_codes(argv[1], codes, rows * cols);

	if (failed)
		fprintf(stderr, "compensate: %s\n", err.message);
	factor_release(&factor);
	free(codes);
	free(scales);
	free(w);
	free(h);
	return failed;
}
