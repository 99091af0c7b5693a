/* SPDX-License-Identifier: Apache-2.0
 *
 * weight_matrix_read() on matrices of several bands, by rows and by columns, against the elements
 * that the file holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "sweep/weight_matrix.h"
#include "num/float16.h"
#include "support/scratch.h"

#define N    2000
#define K    1000
#define SIZE ((size_t)2 * N * K) /* two matrices */

/* Element i of the file: of many sizes, and no two neighbors alike. */
static float element(size_t i)
{
	uint32_t bits = (uint32_t)i * 2654435761u;

	return ((float)(bits >> 8) - 8388608.0f) * (bits & 64 ? 0x1p-12f : 0x1p-20f);
}

/* The file in a folder: a tensor "a" of F32. */
static char *make_file(void)
{
	static const char header[] =
		"{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2000,1000],\"data_offsets\":[0,16000000]}}";
	char *folder = scratch_new(), *path = xasprintf("%s/model.safetensors", folder);
	float *data = malloc(SIZE * sizeof *data);
	uint64_t n = sizeof header - 1;
	FILE *file = fopen(path, "wb");

	assert_true(file && data);
	for (size_t i = 0; i < SIZE; i++)
		data[i] = element(i);
	assert_int_equal(fwrite(&n, 8, 1, file) + fwrite(header, n, 1, file) +
				 fwrite(data, SIZE * sizeof *data, 1, file),
			 3);
	assert_int_equal(fclose(file), 0);
	free(data);
	free(folder);
	return path;
}

/* One bit pattern or the other, whichever the type keeps. */
static float kept(float value, enum dtype dtype, bool round)
{
	return dtype == DT_BF16 || round ? bf16_to_f32(bf16_from_f32(value)) : value;
}

/* Rows [first, first + n). */
static void check_rows(const struct weight_reader *reader, const struct linear_ref *ref,
		       size_t first, size_t n, enum dtype dtype)
{
	void *values = malloc(n * ref->k * sizeof(float));
	struct weight_matrix matrix = {
		.ref = ref, .first = first, .n = n, .dtype = dtype, .values = values
	};
	float most = 0;
	struct err err = { 0 };

	assert_int_equal(weight_matrix_read(reader, &matrix, &err), 0);
	for (size_t row = first; row < first + n; row++) {
		for (size_t col = 0; col < ref->k; col++) {
			float wanted = element(ref->slice.first + row * ref->slice.row_stride +
					       col * ref->slice.col_stride);
			size_t i = (row - first) * ref->k + col;
			float found = dtype == DT_BF16 ? bf16_to_f32(((uint16_t *)values)[i])
						       : ((float *)values)[i];

			most = wanted > most ? wanted : -wanted > most ? -wanted : most;
			wanted = kept(wanted, dtype, reader->round);
			if (memcmp(&found, &wanted, sizeof found) != 0)
				fail_msg("[%zu, %zu] of %zu x %zu is %a, not %a", row, col, ref->n,
					 ref->k, (double)found, (double)wanted);
		}
	}
	assert_true(matrix.amax == most);
	free(values);
}

/* All rows, some in the middle, the last ones. */
static void check(const struct weight_reader *reader, const struct linear_ref *ref,
		  enum dtype dtype)
{
	check_rows(reader, ref, 0, ref->n, dtype);
	check_rows(reader, ref, 128, 256, dtype);
	check_rows(reader, ref, 384, ref->n - 384, dtype);
}

static void every_rectangle_equals_the_source(void **state)
{
	char *path = make_file();
	struct checkpoint checkpoint;
	struct source source;
	struct detection detection = { 0 };
	struct err err = { 0 };
	struct weight_reader reader = { .source = &source,
					.detection = &detection,
					.host = host_ops_select() };

	(void)state;
	assert_int_equal(checkpoint_open(&checkpoint, &io_system, path, 1, &err), 0);
	source_init(&source, &io_system, &checkpoint, backend_select("auto", &err), -1);
	for (int i = 0; i < 3; i++) {
		struct linear_ref rows = {
			.module = "a",
			.weight = &checkpoint.tensors[0],
			.n = N,
			.k = K,
			.slice = { .first = (size_t)N * K, .row_stride = K, .col_stride = 1 }
		};
		struct linear_ref cols = {
			.module = "a",
			.weight = &checkpoint.tensors[0],
			.n = K,
			.k = N,
			.slice = { .first = (size_t)N * K, .row_stride = 1, .col_stride = K }
		};
		struct linear_ref upper = {
			.module = "a",
			.weight = &checkpoint.tensors[0],
			.n = K / 2,
			.k = N,
			.slice = { .first = K / 2, .row_stride = 1, .col_stride = K }
		};

		reader.round = i == 1;
		check(&reader, &rows, i == 2 ? DT_BF16 : DT_F32);
		check(&reader, &cols, i == 2 ? DT_BF16 : DT_F32);
		check(&reader, &upper, i == 2 ? DT_BF16 : DT_F32);
	}
	source_release(&source);
	checkpoint_release(&checkpoint);
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(every_rectangle_equals_the_source) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
