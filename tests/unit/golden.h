/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of a golden file (tests/golden/README.md): lines of fields, comments left out.  Run from
 * the root.
 */
#ifndef FP8CONV_TESTS_GOLDEN_H
#define FP8CONV_TESTS_GOLDEN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/sha.h>

#include "num/dtype.h"
#include "num/qspec.h"

#define GOLDEN_N_FIELDS	 24
#define GOLDEN_LINE_SIZE 4096

struct golden {
	FILE *file;
	const char *name;
	int line_no;
	char line[GOLDEN_LINE_SIZE];
	char *fields[GOLDEN_N_FIELDS]; /* NULL behind the last */
};

/* name: "delayed.txt". */
static inline void golden_open(struct golden *g, const char *name)
{
	char path[256];

	snprintf(path, sizeof path, "tests/golden/%s", name);
	*g = (struct golden){ .name = name, .file = fopen(path, "r") };
	if (!g->file)
		fail_msg("cannot open %s (run from the root)", path);
}

/* The fields of the next line that is no comment.  False at the end, where the file is closed. */
static inline bool golden_next(struct golden *g)
{
	char *rest = NULL;
	int n = 0;

	do {
		g->line_no++;
		if (!fgets(g->line, sizeof g->line, g->file)) {
			fclose(g->file);
			return false;
		}
	} while (g->line[0] == '#');
	assert_non_null(strchr(g->line, '\n'));
	for (char *p = strtok_r(g->line, " \n", &rest); p; p = strtok_r(NULL, " \n", &rest)) {
		assert_true(n < GOLDEN_N_FIELDS - 1);
		g->fields[n++] = p;
	}
	g->fields[n] = NULL;
	return true;
}

static inline uint32_t golden_hex(const char *text)
{
	return (uint32_t)strtoul(text, NULL, 16);
}

static inline size_t golden_number(const char *text)
{
	return strtoul(text, NULL, 10);
}

static inline enum fp8_format golden_format(const char *name)
{
	return strcmp(name, "e5m2") ? FP8_E4M3 : FP8_E5M2;
}

static inline enum dtype golden_dtype(const char *name)
{
	return !strcmp(name, "f32") ? DT_F32 : !strcmp(name, "bf16") ? DT_BF16 : DT_F16;
}

/* want: 64 hexadecimal digits. */
static inline bool golden_hash_is(const char *want, const void *data, size_t n)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];

	SHA256(data, n, hash);
	for (size_t i = 0; i < sizeof hash; i++)
		snprintf(text + 2 * i, 3, "%02x", hash[i]);
	return !strcmp(want, text);
}

#endif
