/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the golden vectors of tests/golden, whose README.md has their format: words of lines, and
 * what they mean.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_TEXT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "backend/dispatch.h"
#include "num/scale.h"
#include "skipped.h"

#define GOLDEN_DIR "tests/golden/"
#define N_FIELDS   24
#define LINE_SIZE  4096

struct text {
	FILE *file;
	const char *name;
	int line_no;
	char line[LINE_SIZE];
	char *fields[N_FIELDS];
	int n_fields;
};

static inline void text_open(struct text *t, const char *name)
{
	*t = (struct text){ .name = name, .file = fopen(name, "r") };
	if (!t->file)
		fail_msg("cannot open %s (run from the root)", name);
}

/* The fields of the next line that is no comment.  False at the end, where the file is closed. */
static inline bool text_next(struct text *t)
{
	do {
		t->line_no++;
		if (!fgets(t->line, sizeof t->line, t->file)) {
			fclose(t->file);
			return false;
		}
	} while (t->line[0] == '#');
	assert_non_null(strchr(t->line, '\n'));
	t->n_fields = 0;
	for (char *p = strtok_r(t->line, " \n", &t->fields[N_FIELDS - 1]);
	     p && t->n_fields < N_FIELDS - 1; p = strtok_r(NULL, " \n", &t->fields[N_FIELDS - 1]))
		t->fields[t->n_fields++] = p;
	return true;
}

static inline uint32_t text_hex(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 16);
}

static inline size_t text_number(const char *text)
{
	return strtoul(text, NULL, 10);
}

/* A difference: the line of the golden file, who, and both sides. */
#define CHECK(t, who, want, got)                                                                  \
	do {                                                                                      \
		unsigned want_ = (want), got_ = (got);                                            \
		if (want_ != got_)                                                                \
			fail_msg("%s:%d: %s: %#x, not %#x", (t)->name, (t)->line_no, (who), got_, \
				 want_);                                                          \
	} while (0)

static inline bool hash_is(const char *want, const void *data, size_t n)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];

	SHA256(data, n, hash);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	return !strcmp(want, text);
}

static inline enum fp8_format golden_format(const char *name)
{
	return strcmp(name, "e5m2") ? FP8_E4M3 : FP8_E5M2;
}

static inline enum dtype golden_dtype(const char *name)
{
	return !strcmp(name, "f32") ? DT_F32 : !strcmp(name, "bf16") ? DT_BF16 : DT_F16;
}

/* kind, arith, eps, margin: four fields. */
static inline void golden_spec_parse(struct qspec *spec, char **fields)
{
	spec->scale_type = strncmp(fields[0], "e8m0", 4) ? SCALE_F32 : SCALE_E8M0;
	spec->pow2 = !strcmp(fields[0], "pow2");
	spec->mx_rule = strstr(fields[0], "floor")  ? MX_FLOOR
			: strstr(fields[0], "even") ? MX_EVEN
						    : MX_UP;
	spec->arith = !strcmp(fields[1], "deepseek")   ? ARITH_DEEPSEEK
		      : !strcmp(fields[1], "deepgemm") ? ARITH_DEEPGEMM
						       : ARITH_TE;
	spec->amax_epsilon = f32_from_bits(text_hex(fields[2]));
	spec->margin = (int)strtol(fields[3], NULL, 10);
}

#endif
