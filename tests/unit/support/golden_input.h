/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of the golden files, from the formulas in tests/golden/README.md.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_INPUT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_GOLDEN_INPUT_H

#include "backend/backend.h"

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

#endif
