/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading the golden vectors of tests/golden, whose README.md has their format: words of lines, and
 * what they mean.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_TEXT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "num/dtype.h"
#include "num/qspec.h"

#define GOLDEN_DIR "tests/golden/"
#define N_FIELDS   24
#define LINE_SIZE  4096

/* A file that is read line by line; the last line's words. */
struct text {
	FILE *file;
	const char *name;
	int line_no;
	char line[LINE_SIZE];
	char *fields[N_FIELDS]; /* they point into line */
	int n_fields;
};

/* name: a path from the root of the sources, where tests are run.  The test fails if it is missing.
 * Then text_next() until it is false, which closes the file. */
void text_open(struct text *t, const char *name);

/* Reads the next line that is no comment into the fields. */
bool text_next(struct text *t);

/* The test fails where the numbers differ, and prints the line, who, and both. */
void text_check(const struct text *t, const char *who, unsigned want, unsigned got);

/* A word as a number. */
uint32_t text_bits(const char *text);
size_t text_number(const char *text);

/* want: a SHA-256 sum in hexadecimal. */
bool hash_is(const char *want, const void *data, size_t n);

/* "e4m3" or "e5m2"; "f32", "bf16" or "f16". */
enum fp8_format golden_format(const char *name);
enum dtype golden_dtype(const char *name);

/* Sets what four fields say: kind, arith, eps, margin.  Tile and format stay. */
void golden_spec_parse(struct qspec *spec, char **fields);

#endif
