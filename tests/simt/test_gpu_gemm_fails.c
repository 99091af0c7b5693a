/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products on the GPU that fail, or that there are not.
 */
#include "tests/simt/gemm_setup.h"

/* Each call of the library fails once, wherever it is made: the stream names it, what was written
 * is not touched by what comes after, nothing is left behind, and the next product goes well. */
static void a_failed_call_is_told_and_leaves_nothing(void **state)
{
	static const char *const names[] = { "MatmulDescCreate",
					     "MatmulDescSetAttribute",
					     "MatrixLayoutCreate",
					     "MatmulPreferenceCreate",
					     "MatmulAlgoGetHeuristic",
					     "MatmulPreferenceSetAttribute",
					     "Matmul" };
	size_t m = 1000;

	(void)state;
	for (size_t i = 0; i < N_ROWS(names); i++) {
		int rc, n = 0;

		do {
			struct err err = { 0 };
			struct bench t;

			bench_init(&t, &kinds[5], ++m, 16,
				   32); /* a new shape, so that all is called */
			simt_lt_fails = names[i];
			simt_lt_fails_after = n++;
			rc = bench_run(&t, &err);
			simt_lt_fails = NULL;
			if (rc) {
				assert_int_equal(err.kind, ERR_SYSTEM);
				assert_int_equal(strncmp(err.message, "cublasLt", 8), 0);
				assert_int_equal(
					strncmp(err.message + 8, names[i], strlen(names[i])), 0);
				assert_string_equal(err.message + 8 + strlen(names[i]),
						    " on GPU 0: the GPU program failed to execute");
				assert_true(t.scale_inv == -1 && t.history == 2);
				bench_run_well(&t);
			}
			product_check(&t);
			bench_release(&t);
		} while (rc);
		assert_true(n > 1);
	}
}

/* Before any product: there is no handle, and the next product asks again. */
static void a_missing_handle_is_asked_for_again(void **state)
{
	struct err err = { 0 };
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[2], 16, 16, 32);
	simt_lt_fails = "Create";
	assert_int_equal(bench_run(&t, &err), -1);
	simt_lt_fails = NULL;
	assert_string_equal(err.message,
			    "cublasLtCreate on GPU 0: the GPU program failed to execute");
	bench_run_well(&t);
	product_check(&t);
	bench_release(&t);
}

/* A device that fails while a product is prepared. */
static void a_device_that_fails_is_told(void **state)
{
	struct err err;
	long n = 0;
	int rc;

	(void)state;
	do {
		struct bench t;

		bench_init(&t, &kinds[5], 16, 16, 32);
		simt_calls_left = n++;
		rc = bench_run(&t, &err);
		simt_calls_left = -1;
		bench_release(&t);
		assert_true(n < 100);
	} while (rc);
	assert_true(n > 5);
}

/* What a row of refusals() changes in a product that is supported. */
struct refusal {
	struct kind kind;
	size_t m, n, k;
	int version;
	const char *message;
};

#define BLOCKS                                       \
	DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 1, 128 }, \
	{                                            \
		128, 128                             \
	}
#define TENSOR                                             \
	DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { WHOLE, WHOLE }, \
	{                                                  \
		WHOLE, WHOLE                               \
	}
#define MX                                          \
	DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 1, 32 }, \
	{                                           \
		1, 32                               \
	}

static const struct refusal refused[] = {
	{ { TENSOR, 86, false },
	  16,
	  16,
	  32,
	  130000,
	  "a GPU of compute capability 8.6 has no matrix product with FP8 operands, which needs "
	  "8.9 or later" },
	{ { BLOCKS, 89, false },
	  16,
	  16,
	  32,
	  130000,
	  "a GPU of compute capability 8.9 has no matrix product with block scaling, which needs "
	  "9.0" },
	{ { BLOCKS, 100, false },
	  16,
	  16,
	  32,
	  130000,
	  "a GPU of compute capability 10.0 has no matrix product with block scaling, which needs "
	  "9.0" },
	{ { MX, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "a GPU of compute capability 9.0 has no matrix product with MX blocks, which needs 10.0 "
	  "to 11.x" },
	{ { MX, 120, false },
	  16,
	  16,
	  32,
	  130000,
	  "a GPU of compute capability 12.0 has no matrix product with MX blocks, which needs 10.0 "
	  "to 11.x" },
	{ { BLOCKS, 90, false },
	  16,
	  16,
	  32,
	  120805,
	  "cuBLASLt 12.8 has no matrix product with block scaling, which needs 12.9 or later" },
	{ { MX, 100, false },
	  16,
	  16,
	  32,
	  120600,
	  "cuBLASLt 12.6 has no matrix product with MX blocks, which needs 12.8 or later" },
	{ { BLOCKS, 90, false },
	  18,
	  16,
	  32,
	  130000,
	  "a matrix product (18, 16, 32) with block scaling: m must be a multiple of 4, n of 8, k "
	  "of 16" },
	{ { TENSOR, 90, false },
	  16,
	  20,
	  32,
	  130000,
	  "a matrix product (16, 20, 32) with FP8 operands: m must be a multiple of 1, n of 8, k "
	  "of 16" },
	{ { TENSOR, 90, false },
	  16,
	  16,
	  40,
	  130000,
	  "a matrix product (16, 16, 40) with FP8 operands: m must be a multiple of 1, n of 8, k "
	  "of 16" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_F8_E4M3, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false },
	  16,
	  24,
	  32,
	  130000,
	  "a matrix product (16, 24, 32) with FP8 operands: m must be a multiple of 1, n of 16, k "
	  "of 16" },
	{ { BLOCKS, 90, true },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: block scaling in the fast mode" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_F8_E4M3, { 1, 128 }, { 128, 128 }, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: block scaling with a result of FP8" },
	{ { DT_F8_E5M2, DT_F8_E5M2, DT_BF16, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: F8_E5M2 by F8_E5M2 with a result of BF16" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_F8_E5M2, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: F8_E4M3 by F8_E4M3 with a result of F8_E5M2" },
	{ { DT_F8_E4M3, DT_F8_E4M3, DT_BF16, { 128, 128 }, { 128, 128 }, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: tiles (128, 128) by (128, 128)" },
	{ { DT_F32, DT_F32, DT_BF16, { 0 }, { 0 }, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: F32 by F32 with a result of BF16" },
	{ { DT_F32, DT_BF16, DT_F32, { 0 }, { 0 }, 90, false },
	  16,
	  16,
	  32,
	  130000,
	  "unsupported matrix product: F32 by BF16 with a result of F32" },
};

/* Only bf16 and fp32 are added up, in fp32. */
static void unsupported_sums_are_refused(void **state)
{
	static const struct {
		struct kind kind;
		const char *message;
	} rows[] = {
		{ { DT_F8_E4M3, DT_F8_E4M3, DT_F32, { WHOLE, WHOLE }, { WHOLE, WHOLE }, 90, false },
		  "unsupported sum of matrix products: F8_E4M3 by F8_E4M3 with a result of F32" },
		{ { DT_BF16, DT_BF16, DT_BF16, { 0 }, { 0 }, 90, false },
		  "unsupported sum of matrix products: BF16 by BF16 with a result of BF16" },
	};

	(void)state;
	for (size_t i = 0; i < N_ROWS(rows); i++) {
		struct err err = { 0 };
		struct bench t;

		bench_init(&t, &rows[i].kind, 16, 16, 32);
		t.g.form = GEMM_SUM;
		assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_string_equal(err.message, rows[i].message);
		bench_release(&t);
	}
}

/* The library refuses them too, if it is asked all the same; D stays. */
static void unsupported_products_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_ROWS(refused); i++) {
		const struct refusal *row = &refused[i];
		struct err err = { 0 };
		struct bench t;

		bench_init(&t, &row->kind, row->m, row->n, row->k);
		simt_lt_version = row->version;
		assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
		assert_int_equal(err.kind, ERR_USAGE);
		assert_string_equal(err.message, row->message);
		assert_int_equal(bench_run(&t, &err), -1);
		simt_lt_version = 130000;
		assert_int_equal(strncmp(err.message, "cublasLt", 8), 0);
		for (size_t at = 0; at < d_size(&t); at++)
			assert_int_equal(((uint8_t *)t.d)[at], 0xFF);
		bench_release(&t);
	}
}

static void misaligned_operands_are_refused(void **state)
{
	struct err err = { 0 };
	struct bench t;

	(void)state;
	bench_init(&t, &kinds[2], 16, 16, 32);
	t.g.a.data = (const char *)t.g.a.data + 8;
	assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
	assert_string_equal(err.message, "a matrix product with FP8 operands: rows and scales must "
					 "begin at multiples of 16 bytes");
	assert_int_equal(bench_run(&t, &err), -1);
	bench_release(&t);
	bench_init(&t, &kinds[7], 16, 16, 32);
	t.g.a.scale_inv = (const char *)t.g.a.scale_inv + 4;
	assert_int_equal(gpu_gemm_supports(&t.g, &err), -1);
	assert_int_equal(bench_run(&t, &err), -1);
	t.g.a.scale_inv = NULL;
	assert_int_equal(bench_run(&t, &err), -1);
	bench_release(&t);
}

/* No library, one without the functions, and one of CUDA 11. */
static void libraries_that_do_not_fit_are_refused(void **state)
{
	static const char *const none[] = { "libnone.so.1", "libnone.so.2" }, *const other[] = {
		"libnone.so.1", "libm.so.6"
	};
	static const char *const itself[] = { NULL };
	struct cublaslt lt;
	struct err err;

	(void)state;
	assert_int_equal(cublaslt_load(&lt, none, 2, &err), -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
	assert_int_equal(
		strncmp(err.message,
			"cannot load cuBLASLt, which multiplies matrices on a GPU (libnone.so.2",
			70),
		0);
	assert_non_null(strstr(
		err.message,
		"): install cuBLASLt of CUDA 12 or 13 (beside a wheel: pip install nvidia-cublas), "
		"or add its directory to LD_LIBRARY_PATH"));
	assert_int_equal(cublaslt_load(&lt, other, 2, &err), -1);
	assert_string_equal(err.message, "cuBLASLt has no function cublasLtGetVersion: install "
					 "version 12.0 or later");
	simt_lt_version = 111103;
	assert_int_equal(cublaslt_load(&lt, itself, 1, &err), -1);
	assert_string_equal(err.message,
			    "cuBLASLt is version 11.11: install version 12.0 or later");
	simt_lt_version = 130000;
	assert_int_equal(cublaslt_load(&lt, itself, 1, &err), 0);
	assert_int_equal(lt.GetVersion(), 130000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libraries_that_do_not_fit_are_refused),
		cmocka_unit_test(a_missing_handle_is_asked_for_again),
		cmocka_unit_test(a_failed_call_is_told_and_leaves_nothing),
		cmocka_unit_test(a_device_that_fails_is_told),
		cmocka_unit_test(unsupported_products_are_refused),
		cmocka_unit_test(unsupported_sums_are_refused),
		cmocka_unit_test(misaligned_operands_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
