/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the shared library that tests begin with; they fail the test.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_LIBRARY_USE_H
#define FP8CONV_TESTS_UNIT_SUPPORT_LIBRARY_USE_H

#include <fp8conv.h>

#include "tests/unit/support/golden_input.h"

struct fp8conv_tensor tensor(void *data, int dtype, size_t rows, size_t columns);
struct fp8conv_tensor input_tensor(const struct input *in);

/* The caller destroys it. */
struct fp8conv_context *open_context(const char *backend, int threads);
const struct fp8conv_recipe *recipe_of(struct fp8conv_context *context, const char *name,
				       const char *options);

/* Both copies of a matrix, in memory of this test. */
struct both {
	struct fp8conv_tensor codes[2], scales[2];
	struct fp8conv_quantized q;
};

/* Allocates both copies, of the shapes that the library says, with bytes that are no zeros. */
void both_init(struct both *b, const struct fp8conv_recipe *recipe, int role, size_t rows,
	       size_t columns, int layout);
void both_release(struct both *b);

#endif
