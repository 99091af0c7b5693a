/* SPDX-License-Identifier: Apache-2.0
 *
 * The executors of this build that this machine can run, each with a stream; and values that go to
 * one of them, and come back to be held, to the bit, against what plain loops made of them.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_EXECUTOR_SIDES_H
#define FP8CONV_TESTS_UNIT_SUPPORT_EXECUTOR_SIDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

struct side {
	const struct executor_ops *ops;
	struct executor *executor;
	struct executor_stream *stream;
	struct executor_ops own; /* of the CPU: ops of one instruction set */
};

/* Between sides_open() and sides_close(), the set-up and tear-down of a group of tests. */
extern struct side sides[];
extern size_t n_sides;

#define EACH_SIDE(s) for (const struct side *s = sides; s < sides + n_sides; s++)

/* The first sides are of the CPU, one for each instruction set, and must open.  Another one whose
 * backend runs and which does not open is told as skipped. */
int sides_open(void **state);
int sides_close(void **state);

/* With the argument "small" what is large is left out: for tools that make programs slow. */
extern bool sides_small;

/* The arguments of main(): sets sides_small and tells the backends that are skipped. */
void sides_begin(int argc, char **argv);

/* --- memory --- */

/* Memory of the host, to be freed; of 0 bytes too. */
void *host_memory_new(size_t size);

/* Memory of a side, for its memory_free(). */
void *side_memory_new(const struct side *s, size_t size);

/* Waits for the stream; what failed in it fails the test. */
void side_wait(const struct side *s);

/* A copy of data on the side, of exactly its size. */
void *side_put(const struct side *s, const void *data, size_t size);

/* Copies what has become of memory into data, and frees memory. */
void side_take(const struct side *s, void *memory, void *data, size_t size);

/* --- values --- */

/* n values, and what shall become of them.  On a side, they begin `shift` floats (0 or 1) behind
 * the begin of a piece of memory that ends with them. */
struct values {
	float *given, *wanted;
	size_t n, shift;
};

/* In [-4, 4), the same in every run. */
float noise_next(void);

/* Of noise; wanted as given. */
struct values values_new(size_t n, size_t shift);
void values_free(struct values *v);

/* Another number, in both. */
void values_set(struct values *v, size_t i, float value);

/* The given values on the side, for values_check(). */
float *values_send(const struct side *s, const struct values *v);

/* All of them are as wanted, those too that nobody was to touch; frees memory.  what: the
 * operation, for the message. */
void values_check(const struct side *s, const struct values *v, float *memory, const char *what);

/* The same with errors up to 1e-5 of the root mean square of the wanted values; those that were
 * wanted as given must have the same bits. */
void values_check_near(const struct side *s, const struct values *v, float *memory,
		       const char *what);

/* The same bits; one NaN is like another. */
bool floats_same(float a, float b);

/* Puts every kind of number among the others, one in `every`; 0: none. */
void specials_put(struct values *v, size_t every);

/* Adds x to stats, by a plain loop; compares with stats of the side, and frees those. */
void stats_raise(struct value_stats *stats, const float *x, size_t n);
void stats_back(const struct side *s, const struct value_stats *wanted, void *there);

/* --- what plain loops share --- */

/* softcap tanh(x / softcap) as executors compute it. */
float plain_softcap(float x, float softcap);

/* The sum of 16 lanes, pairwise; they are changed. */
float plain_lanes_sum(float *lanes);

/* Below, at and above the widths of lanes, of four elements, of tiles and of blocks. */
extern const size_t edge_sizes[14];

#endif
