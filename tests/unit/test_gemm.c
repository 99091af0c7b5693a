/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cpu/forward/gemm.h: products against a plain loop in double, of weights in one panel and
 * in several, whose panels together are the whole to the bit.
 * kernels/cpu/forward/onednn.h: what a user is told where the library is missing or is another
 * than expected.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/forward/gemm.h"
#include "kernels/cpu/forward/onednn.h"

static float noise(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return (float)(int32_t)*state * 0x1p-31f;
}

static float *noise_new(size_t n, uint32_t seed)
{
	float *values = malloc(n * sizeof *values);

	assert_non_null(values);
	for (size_t i = 0; i < n; i++)
		values[i] = noise(&seed);
	return values;
}

/* Every 97th column: |y - exact| is at most k roundings of products that are at most 1. */
static void check_product(const float *y, const float *x, const float *w, size_t m, size_t n,
			  size_t k)
{
	for (size_t row = 0; row < m; row++) {
		for (size_t col = row; col < n; col += 97) {
			double exact = 0;

			for (size_t i = 0; i < k; i++)
				exact += (double)x[row * k + i] * w[col * k + i];
			assert_true(fabs(y[row * n + col] - exact) <= (double)k * 0x1p-23);
		}
	}
}

static void check_parts(struct gemm *gemm, struct gemm_stream *stream,
			const struct multiply_args *whole)
{
	const struct executor_weight *weight = whole->weight;
	float *panel = malloc(whole->m * weight->panel_rows * sizeof *panel);
	size_t first = 0;
	struct err err;

	assert_non_null(panel);
	for (size_t p = 0; p < executor_weight_panels(weight); p++) {
		size_t rows = executor_weight_panel_rows(weight, p);
		struct multiply_args part = *whole;

		part.y = panel;
		part.panel = &p;
		assert_int_equal(gemm_multiply(gemm, stream, &part, &err), 0);
		for (size_t row = 0; row < whole->m; row++)
			assert_memory_equal(panel + row * rows, whole->y + row * weight->n + first,
					    rows * sizeof *panel);
		first += rows;
	}
	assert_int_equal(first, weight->n);
	free(panel);
}

static struct executor_weight weight_new(struct gemm *gemm, const float *w, size_t n, size_t k)
{
	struct executor_weight weight = {
		.dtype = DT_F32, .n = n, .k = k, .panel_rows = gemm_panel_rows(n)
	};
	struct err err;

	assert_int_equal(gemm_weight_init(gemm, &weight, &err), 0);
	for (size_t panel = 0; panel < executor_weight_panels(&weight); panel++) {
		assert_int_equal(gemm_weight_set(gemm, &weight, panel, w, &err), 0);
		w += executor_weight_panel_rows(&weight, panel) * k;
	}
	return weight;
}

static void products_are_within_their_bound(void **state)
{
	static const struct {
		size_t m, n, k;
	} shapes[] = { { 1, 1, 1 },	 { 3, 7, 5 },	   { 84, 576, 192 },
		       { 5, 16384, 32 }, { 5, 16385, 32 }, { 84, 20000, 64 } };
	struct gemm *gemm;
	struct err err;

	(void)state;
	assert_int_equal(gemm_open(&gemm, &err), 0);
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		size_t m = shapes[i].m, n = shapes[i].n, k = shapes[i].k;
		float *x = noise_new(m * k, 1), *w = noise_new(n * k, 2), *y = noise_new(m * n, 3);
		struct gemm_stream stream = { 0 };
		struct executor_weight weight = weight_new(gemm, w, n, k);
		const struct multiply_args args = { .weight = &weight, .x = x, .m = m, .y = y };

		assert_int_equal(gemm_multiply(gemm, &stream, &args, &err), 0);
		check_product(y, x, w, m, n, k);
		check_parts(gemm, &stream, &args);
		gemm_weight_release(gemm, &weight);
		gemm_stream_release(gemm, &stream);
		free(x);
		free(w);
		free(y);
	}
	gemm_close(gemm);
}

/* The lines of os-release(5) as the distributions write them. */
#define DEBIAN_12	"NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n"
#define DEBIAN_13	"VERSION_ID=\"13\"\nVERSION=\"13 (trixie)\"\nID=debian\n"
#define DEBIAN_SID	"VERSION_CODENAME=forky\nID=debian\n"
#define UBUNTU(version) "NAME=\"Ubuntu\"\nVERSION_ID=\"" version "\"\nID=ubuntu\nID_LIKE=debian\n"
#define TUMBLEWEED	"ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"\n"

static void the_package_of_a_distribution_is_named(void **state)
{
	static const struct {
		const char *os_release;
		int major;
		const char *suggestion;
	} rows[] = {
		{ DEBIAN_12, 2, "install the package libdnnl2" },
		{ DEBIAN_13, 3, "install the package libdnnl3.6" },
		{ DEBIAN_SID, 3, "install the package libdnnl-dev" },
		{ UBUNTU("22.04"), 2, "install the package libdnnl2" },
		{ UBUNTU("24.04"), 3, "install the package libdnnl3" },
		{ UBUNTU("26.04"), 3, "install the package libdnnl3.6" },
		{ UBUNTU("28.04"), 3, "install the package libdnnl-dev" },
		{ "NAME='Fedora Linux'\nID='fedora'\nVERSION_ID=42\n", 3,
		  "install the package onednn" },
		{ "ID=arch", 3, "install the package onednn" },
		{ TUMBLEWEED, 3, "install the package libdnnl3" },
		/* A program from elsewhere. */
		{ DEBIAN_13, 2,
		  "this distribution has oneDNN 3: build fp8conv on this distribution" },
		{ UBUNTU("22.04"), 3,
		  "this distribution has oneDNN 2: build fp8conv on this distribution" },
		/* Others: the beginning of a value and the end of a key are none. */
		{ "ID=debianish\nVERSION_ID=12\n", 2, "install oneDNN 2 (libdnnl.so.2)" },
		{ "BUILD_ID=debian\n", 3, "install oneDNN 3 (libdnnl.so.3)" },
		{ "ID=debian\nVERSION_ID=\"12.1\"\n", 2, "install the package libdnnl-dev" },
		{ "", 3, "install oneDNN 3 (libdnnl.so.3)" },
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		onednn_suggest(text, sizeof text, rows[i].os_release, rows[i].major);
		assert_string_equal(text, rows[i].suggestion);
	}
}

static void another_major_version_is_refused(void **state)
{
	const dnnl_version_t other = { .major = DNNL_VERSION_MAJOR + 1,
				       .minor = 5,
				       .patch = 7,
				       .cpu_runtime = DNNL_RUNTIME_OMP };
	struct err err = { 0 };

	(void)state;
	assert_int_equal(onednn_check(&other, "libdnnl.so.9", &err), -1);
	assert_int_equal(err.kind, ERR_SYSTEM);
#if DNNL_VERSION_MAJOR == 3
	assert_non_null(strstr(err.message, "libdnnl.so.9 is oneDNN 4.5.7, but this program was "
					    "built for oneDNN 3: "));
#else
	assert_non_null(strstr(err.message, "libdnnl.so.9 is oneDNN 3.5.7, but this program was "
					    "built for oneDNN 2: "));
#endif
}

/* The bits of a product may depend on threads that cannot be limited to one. */
static void threads_other_than_openmp_are_refused(void **state)
{
	static const struct {
		unsigned runtime;
		int rc;
	} rows[] = { { DNNL_RUNTIME_SEQ, 0 },
		     { DNNL_RUNTIME_OMP, 0 },
		     { DNNL_RUNTIME_TBB, -1 },
		     { DNNL_RUNTIME_THREADPOOL, -1 },
		     { DNNL_RUNTIME_SYCL, -1 } };
	struct err err = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const dnnl_version_t version = { .major = DNNL_VERSION_MAJOR,
						 .cpu_runtime = rows[i].runtime };

		assert_int_equal(onednn_check(&version, "libdnnl", &err), rows[i].rc);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(products_are_within_their_bound),
		cmocka_unit_test(the_package_of_a_distribution_is_named),
		cmocka_unit_test(another_major_version_is_refused),
		cmocka_unit_test(threads_other_than_openmp_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
