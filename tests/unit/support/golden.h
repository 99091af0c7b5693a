/* SPDX-License-Identifier: Apache-2.0
 *
 * The golden files of tests/golden, whose README.md has their format: lines as words, the tensors
 * from their formulas, and a line "slot ..." of quantizer.txt and fused.txt: one slot of a recipe's
 * state, and what its quantizer makes of a tensor in every usage and order of scales, on every
 * backend.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_H
#define FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_H

#include <stdbool.h>
#include <stdio.h>

#include "backend/backend.h"
#include "num/dtype.h"
#include "num/qspec.h"
#include "quantizer/quantizer.h"

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

/* Zero before the first input_*(); each replaces what it held.  At the end, free(data). */
struct input {
	enum dtype dtype;
	size_t rows, cols, size; /* size: of an element */
	uint64_t seed;
	unsigned char *data;
};

/* The n-th number of a seed. */
uint64_t splitmix64(uint64_t seed, uint64_t n);

/* fields: dtype rows cols seed fill overlays sha; overlays is cut up.  The test fails where the
 * bytes have another sum. */
void input_init(struct input *in, char **fields);

/* The same, from a seed alone: normal numbers, no overlays, no sum. */
void input_normal(struct input *in, enum dtype dtype, size_t rows, size_t cols, uint64_t seed);

/* Valid until the input is made anew. */
struct matrix input_matrix(const struct input *in);

/* The fields of a line. */
enum {
	FIELD_RECIPE = 1,
	FIELD_MODE,
	FIELD_SLOT,
	FIELD_SCALE,
	FIELD_BEFORE,
	FIELD_AFTER,
	FIELD_SATURATED,
	FIELD_NONFINITE,
	FIELD_ROWWISE,
	FIELD_COLUMNWISE = FIELD_ROWWISE + 4,
};

/* Runs the operation under test. */
struct operation {
	void (*run)(const void *args, const struct backend *backend, const struct quantizer *q,
		    struct quantized_tensor *t, struct quant_stats *stats);
	const void *args;
	size_t rows, cols; /* of its output */
};

/* Holds the operation against the line that g stands at: codes, scales, amax and counts.  Outputs
 * of more than 100,000 elements are made in the first two usages, by a backend each. */
void golden_slot_check(const struct text *g, const struct operation *op);

/* Calls check() for each slot of quantizer.txt with the input that stands before it.  Fails where
 * there are fewer than 15 inputs with the 14 slots of all recipes. */
void golden_slots_each(void (*check)(const struct text *g, const struct input *in, void *context),
		       void *context);

#endif
