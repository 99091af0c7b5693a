/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cpu/forward/onednn.h: what a user is told where the library is missing or is another
 * than expected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/forward/onednn.h"

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
		cmocka_unit_test(the_package_of_a_distribution_is_named),
		cmocka_unit_test(another_major_version_is_refused),
		cmocka_unit_test(threads_other_than_openmp_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
