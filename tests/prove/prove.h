/* SPDX-License-Identifier: Apache-2.0
 *
 * A proof goes through every input there is, in units that threads take one by one.
 */
#ifndef FP8CONV_PROVE_H
#define FP8CONV_PROVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "num/bits.h"

/* What was found wrong first, to be printed; empty where all is well. */
struct counterexample {
	char text[256];
};

struct proof {
	const char *name;
	unsigned n_units;
	bool per_backend; /* once for each that runs here, save the reference */

	/* False: *found says what is wrong.  backend: NULL unless per_backend. */
	bool (*unit)(unsigned unit, const struct backend *backend, struct counterexample *found);

	/* NULL, or why it cannot be done here (NULL again where it can). */
	const char *(*skipped)(void);
};

extern const struct proof
	proofs_num[]; /* src/num against a second formulation; ends in a nameless one */
extern const struct proof proofs_activations[]; /* the short activations against the long ones */
extern const struct proof proofs_backends[];	/* the backends against src/num */
extern const struct proof proofs_cuda[];	/* src/num against cuda_fp8.hpp */

/* Describes the counterexample and returns false. */
bool refuted(struct counterexample *found, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* From cuda_fp8.cc, weak: NULL where it was not linked.  Codes of the n values from the bit pattern
 * `first` on. */
void cuda_fp8_codes(uint32_t first, size_t n, uint8_t *e4m3, uint8_t *e5m2, uint8_t *e8m0)
	__attribute__((weak));

#endif
