/* SPDX-License-Identifier: Apache-2.0
 *
 * weights_layer_size(): what a plan tells of the memory of weights, of shapes whose sizes are
 * plain.
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
#include "num/float16.h"
#include "support/folders.h"
#include "sweep/weight_matrix.h"
#include "sweep/weights.h"

#define MIB ((uint64_t)1 << 20)

/* 64 MiB in fp32, in 128 parts of 1024 rows. */
static const struct model tall = { .head = { .n = 131072, .k = 128 } };

static void parts_are_bounded_by_the_threads_that_find_one(void **state)
{
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	assert_int_equal(weights_layer_size(&tall, &kind, 1, false), 64 * MIB + MIB / 2);
	assert_int_equal(weights_layer_size(&tall, &kind, 16, false), 72 * MIB);
	/* There are no more parts than threads that find one. */
	assert_int_equal(weights_layer_size(&tall, &kind, 1000, false), 128 * MIB);
}

/* A layer is larger than a small head: 6 matrices of 1 MiB and one of 4, and a piece of 4 for each
 * of them at most. */
static void a_layer_counts_its_pieces(void **state)
{
	struct layer_ref layer = { .n_experts = 0 };
	const struct model model = { .head = { .n = 16, .k = 16 },
				     .n_layers = 1,
				     .layers = &layer };
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	for (int i = LINEAR_Q; i < LINEAR_Q + 7; i++)
		layer.linear[i] = (struct linear_ref){ .n = 512, .k = 512 };
	layer.linear[LINEAR_Q].k = 2048;
	assert_int_equal(weights_layer_size(&model, &kind, 2, false), 10 * MIB + 2 * 4 * MIB);
	assert_int_equal(weights_layer_size(&model, &kind, 7, false), 10 * MIB + 7 * 4 * MIB);
	assert_int_equal(weights_layer_size(&model, &kind, 64, false), 10 * MIB + 7 * 4 * MIB);
}

/* The experts of 2^20 tokens, 3 for each, are integers of 64 bits in the file and of 32 bits in
 * memory. */
static void a_layer_counts_its_vectors(void **state)
{
	uint64_t wide[] = { 512 }, tall_and_thin[] = { 1 << 20, 3 };
	struct st_tensor norm = { .dtype = DT_BF16, .n_dims = 1, .shape = wide };
	struct st_tensor table = { .dtype = DT_I64, .n_dims = 2, .shape = tall_and_thin };
	const struct tensor_ref refs[] = { { .tensor = &norm }, { .tensor = &table } };
	struct layer_ref layers[2] = { { .n_experts = 0 } };
	const struct model model = { .head = { .n = 16, .k = 16 },
				     .n_layers = 2,
				     .layers = layers };
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	for (int i = 0; i < 2; i++)
		layers[i].linear[LINEAR_Q] = (struct linear_ref){ .n = 512, .k = 512 };
	layers[0].vector[VECTOR_NORM_ATTENTION] = &refs[0];
	layers[0].vector[VECTOR_ROUTER_TABLE] = &refs[1];
	assert_int_equal(weights_layer_size(&model, &kind, 1, false), (1 + 12 + 1) * MIB + 2048);
	assert_int_equal(weights_layer_size(&model, &kind, 1, true), (2 + 12 + 1) * MIB + 2048);
	assert_int_equal(weights_model_size(&model, &kind), (2 + 12) * MIB + 2048 + 1024);
}

/* Loaded ahead, a stage lies beside the one before it, and the head beside the first layer when the
 * next sweep begins.  The memory for the largest piece is kept. */
static void a_layer_loaded_ahead_counts_beside_the_one_before(void **state)
{
	struct layer_ref layers[3] = { { .n_experts = 0 } };
	struct model model = { .head = { .n = 1024, .k = 512 }, .n_layers = 2, .layers = layers };
	const struct weights_kind kind = { .executor = backends[0]->executor, .dtype = DT_F32 };

	(void)state;
	layers[0].linear[LINEAR_Q] = layers[2].linear[LINEAR_Q] =
		(struct linear_ref){ .n = 512, .k = 512 };
	layers[1].linear[LINEAR_Q] = (struct linear_ref){ .n = 512, .k = 2048 };
	assert_int_equal(weights_layer_size(&model, &kind, 2, false), (4 + 4) * MIB);
	assert_int_equal(weights_layer_size(&model, &kind, 2, true), (4 + 2 + 4) * MIB);
	model.n_layers = 1;
	assert_int_equal(weights_layer_size(&model, &kind, 2, true), (1 + 2 + 2) * MIB);
	model.layers = &layers[1];
	model.n_layers = 2;
	assert_int_equal(weights_layer_size(&model, &kind, 2, true), (2 + 4 + 4) * MIB);
}

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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_are_bounded_by_the_threads_that_find_one),
		cmocka_unit_test(a_layer_counts_its_pieces),
		cmocka_unit_test(a_layer_counts_its_vectors),
		cmocka_unit_test(a_layer_loaded_ahead_counts_beside_the_one_before),
		cmocka_unit_test(every_rectangle_equals_the_source),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
