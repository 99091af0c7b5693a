/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv version: all that a bug report should contain.
 */
#include <isa-l.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <unistring/version.h>
#include <zlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "backend/dispatch.h"
#include "base/buf.h"
#include "cli/command.h"
#include "cli/print/json.h"
#include "cli/print/wrap.h"
#include "cli/program.h"

#define TEXT(x)		#x
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
#ifdef __clang__
#define COMPILER "clang " DOTTED(__clang_major__, __clang_minor__, __clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

#define MAX_FEATURES 16
#define VALUE_COLUMN 14

struct features {
	const char *name[MAX_FEATURES];
	size_t n;
};

/* Returns the features of this CPU that kernels may require. */
static struct features cpu_features(void)
{
	struct features features = { 0 };

#ifdef __x86_64__
#define FEATURE(feature)                     \
	if (__builtin_cpu_supports(feature)) \
	features.name[features.n++] = feature
	FEATURE("sse4.2");
	FEATURE("avx");
	FEATURE("avx2");
	FEATURE("fma");
	FEATURE("avx512f");
	FEATURE("avx512dq");
	FEATURE("avx512bw");
	FEATURE("avx512vl");
	FEATURE("avx512vbmi");
	FEATURE("avx512vbmi2");
#undef FEATURE
#endif
#ifdef __aarch64__
	features.name[features.n++] = "neon"; /* of every CPU */
#endif
	return features;
}

static bool built_with_cuda(void)
{
	for (size_t i = 0; backends[i]; i++)
		if (backends[i]->on_device)
			return true;
	return false;
}

struct library {
	const char *name;
	char version[64];
};

#define N_LIBRARIES 6

static void libraries(struct library library[N_LIBRARIES])
{
	memset(library, 0, N_LIBRARIES * sizeof *library);
	library[0].name = "isa-l";
	snprintf(library[0].version, sizeof library[0].version, "%d.%d.%d", ISAL_MAJOR_VERSION,
		 ISAL_MINOR_VERSION, ISAL_PATCH_VERSION);
	library[1].name = "jansson";
	snprintf(library[1].version, sizeof library[0].version, "%s", jansson_version_str());
	library[2].name = "libcrypto";
	snprintf(library[2].version, sizeof library[0].version, "%s",
		 OpenSSL_version(OPENSSL_VERSION_STRING));
	library[3].name = "libunistring";
	snprintf(library[3].version, sizeof library[0].version, "%d.%d.%d",
		 _libunistring_version >> 16, _libunistring_version >> 8 & 255,
		 _libunistring_version & 255);
	library[4].name = "PCRE2";
	pcre2_config(PCRE2_CONFIG_VERSION, library[4].version);
	library[5].name = "zlib";
	snprintf(library[5].version, sizeof library[0].version, "%s", zlibVersion());
}

static void fact(const char *name, const char *value)
{
	if (!program_on_terminal(STDOUT_FILENO)) {
		fprintf(program.out, "%s\t%s\n", name, value);
		return;
	}
	fprintf(program.out, "%-*s", VALUE_COLUMN, name);
	wrap_print(value, VALUE_COLUMN, VALUE_COLUMN, wrap_width(STDOUT_FILENO));
}

/* Is it the first backend with its executor?  Several backends share one. */
static bool is_first_of_executor(size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (backends[k]->executor == backends[i]->executor)
			return false;
	return true;
}

static void executor_json(struct json_out *out, const struct executor_ops *executor)
{
	struct err why = { 0 };
	char library[64];
	bool usable = !executor->library(library, sizeof library, &why);

	json_out_open(out, NULL, '{');
	json_out_text(out, "name", executor->name);
	json_out_text(out, "library", usable ? library : NULL);
	json_out_bool(out, "usable", usable);
	json_out_text(out, "reason", usable ? NULL : why.message);
	json_out_close(out, '}');
}

static void executor_fact(struct buf *text, const struct executor_ops *executor)
{
	struct err why = { 0 };
	char library[64];
	bool usable = !executor->library(library, sizeof library, &why);

	text->len = 0;
	buf_printf(text, "%s: %s%s", executor->name,
		   usable ? "" : "not usable: ", usable ? library : why.message);
	fact("calibrate", text->data);
}

static void backend_json(struct json_out *out, const struct backend *backend)
{
	const char *why = backend->unusable();

	json_out_open(out, NULL, '{');
	json_out_text(out, "name", backend->name);
	json_out_text(out, "summary", backend->summary);
	json_out_bool(out, "usable", !why);
	json_out_text(out, "reason", why);
	json_out_close(out, '}');
}

static void print_json(void)
{
	struct json_out out = json_out_begin(program.out);
	const struct features features = cpu_features();
	const struct backend *best = backend_select(NULL, NULL);
	struct library library[N_LIBRARIES];

	libraries(library);
	json_out_text(&out, "version", FP8CONV_VERSION);
	json_out_text(&out, "compiler", COMPILER);
	json_out_bool(&out, "cuda", built_with_cuda());
	json_out_open(&out, "cpu_features", '[');
	for (size_t i = 0; i < features.n; i++)
		json_out_text(&out, NULL, features.name[i]);
	json_out_close(&out, ']');
	json_out_text(&out, "backend", best->name);
	json_out_open(&out, "backends", '[');
	for (size_t i = 0; backends[i]; i++)
		backend_json(&out, backends[i]);
	json_out_close(&out, ']');
	json_out_open(&out, "executors", '[');
	for (size_t i = 0; backends[i]; i++)
		if (is_first_of_executor(i))
			executor_json(&out, backends[i]->executor);
	json_out_close(&out, ']');
	json_out_open(&out, "libraries", '{');
	for (size_t i = 0; i < N_LIBRARIES; i++)
		json_out_text(&out, library[i].name, library[i].version);
	json_out_close(&out, '}');
	json_out_end(&out);
}

static const char *taken_by(const struct backend *backend, const struct backend *best)
{
	if (backend->on_device)
		return ", used by 'calibrate' if it passes its self-test";
	return backend == best ? ", chosen by 'auto'" : "";
}

static void print_table(void)
{
	const struct features features = cpu_features();
	const struct backend *best = backend_select(NULL, NULL);
	struct library library[N_LIBRARIES];
	struct buf text = { 0 };

	libraries(library);
	fact("fp8conv", FP8CONV_VERSION);
	fact("compiler", COMPILER);
	fact("CUDA", built_with_cuda() ? "built" : "not built");
	buf_puts(&text, "");
	for (size_t i = 0; i < features.n; i++)
		buf_printf(&text, "%s%s", i ? " " : "", features.name[i]);
	fact("CPU features", text.data);
	for (size_t i = 0; backends[i]; i++) {
		const char *why = backends[i]->unusable();

		text.len = 0;
		buf_printf(&text, "%s: %s%s", backends[i]->name, why ? "not usable: " : "usable",
			   why ? why : taken_by(backends[i], best));
		fact("backend", text.data);
	}
	for (size_t i = 0; backends[i]; i++)
		if (is_first_of_executor(i))
			executor_fact(&text, backends[i]->executor);
	for (size_t i = 0; i < N_LIBRARIES; i++)
		fact(library[i].name, library[i].version);
	buf_release(&text);
}

const struct command command_version = {
	.name = "version",
	.args = "",
	.summary = "Print version, compiler, CPU features, backends and libraries",
	.group = GROUP_INFORMATION,
	.options = facts_options,
	.settings_size = sizeof(bool),
	.print_text = print_table,
	.print_json = print_json,
	.run = facts_run,
};
