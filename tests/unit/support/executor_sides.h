/* SPDX-License-Identifier: Apache-2.0
 *
 * The executors of this build that this machine can run, each with a stream; and values that go to
 * one of them, and come back to be held, to the bit, against what plain loops made of them.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_EXECUTOR_SIDES_H
#define FP8CONV_TESTS_UNIT_SUPPORT_EXECUTOR_SIDES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/exp.h"
#include "skipped.h"

#define N_OF(array) (sizeof(array) / sizeof *(array))

struct side {
	const struct executor_ops *ops;
	struct executor *executor;
	struct executor_stream *stream;
};

static struct side sides[8];
static size_t n_sides;

#define EACH_SIDE(s) for (const struct side *s = sides; s < sides + n_sides; s++)

static inline bool side_known(const struct executor_ops *ops)
{
	EACH_SIDE(s)
	{
		if (s->ops == ops)
			return true;
	}
	return false;
}

/* The first is the CPU's, which must be there.  Of another one whose backend runs and which does
 * not open: as of a backend. */
static inline int sides_open(void **state)
{
	struct err err = { 0 };

	(void)state;
	for (const struct backend *const *b = backends; *b; b++) {
		struct side *side = &sides[n_sides];

		if ((*b)->unusable() || side_known((*b)->executor))
			continue;
		side->ops = (*b)->executor;
		if (side->ops->open(&side->executor, &err) ||
		    side->ops->stream_new(&side->stream, side->executor, &err)) {
			print_message("SKIPPED: backend %s: %s\n", (*b)->name, err.message);
			if (n_sides == 0)
				return -1;
			continue;
		}
		n_sides++;
	}
	return 0;
}

static inline int sides_close(void **state)
{
	(void)state;
	EACH_SIDE(s)
	{
		s->ops->stream_free(s->stream);
		s->ops->close(s->executor);
	}
	return 0;
}

/* With the argument "small" what is large is left out: for tools that make programs slow. */
static bool sides_small;

static inline void sides_begin(int argc, char **argv)
{
	sides_small = argc > 1 && !strcmp(argv[1], "small");
	skipped_print();
}

/* --- memory --- */

static inline void *host_memory_new(size_t size)
{
	void *memory = malloc(size ? size : 1);

	assert_non_null(memory);
	return memory;
}

static inline void *side_memory_new(const struct side *s, size_t size)
{
	void *memory;
	struct err err;

	if (s->ops->memory_new(s->executor, &memory, size, "values", &err))
		fail_msg("%s: %s", s->ops->name, err.message);
	return memory;
}

static inline void side_wait(const struct side *s)
{
	struct err err;

	if (s->ops->wait(s->stream, &err))
		fail_msg("%s: %s", s->ops->name, err.message);
}

/* A copy of data, of exactly its size. */
static inline void *side_put(const struct side *s, const void *data, size_t size)
{
	void *memory = side_memory_new(s, size);

	s->ops->put(s->stream, memory, data, size);
	side_wait(s);
	return memory;
}

/* What has become of it; it is freed. */
static inline void side_take(const struct side *s, void *memory, void *data, size_t size)
{
	s->ops->fetch(s->stream, data, memory, size);
	side_wait(s);
	s->ops->memory_free(s->executor, memory);
}

/* --- values --- */

/* n values, and what shall become of them.  There, they begin `shift` floats (0 or 1) behind the
 * begin of a piece of memory that ends with them. */
struct values {
	float *given, *wanted;
	size_t n, shift;
};

/* In [-4, 4), the same in every run. */
static inline float noise_next(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (float)(int32_t)state / 536870912.0f;
}

static inline struct values values_new(size_t n, size_t shift)
{
	struct values v = { host_memory_new(n * sizeof(float)), host_memory_new(n * sizeof(float)),
			    n, shift };

	for (size_t i = 0; i < n; i++)
		v.given[i] = v.wanted[i] = noise_next();
	return v;
}

static inline void values_free(struct values *v)
{
	free(v->given);
	free(v->wanted);
}

/* Another number, in both. */
static inline void values_set(struct values *v, size_t i, float value)
{
	v->given[i] = v->wanted[i] = value;
}

static inline float *values_send(const struct side *s, const struct values *v)
{
	float *memory = side_memory_new(s, (v->n + v->shift) * sizeof *memory);

	s->ops->put(s->stream, memory + v->shift, v->given, v->n * sizeof *memory);
	side_wait(s);
	return memory + v->shift;
}

/* The same bits; one NaN is like another. */
static inline bool floats_same(float a, float b)
{
	return isnan(a) ? isnan(b) : f32_bits(a) == f32_bits(b);
}

/* All of them are as wanted, those too that nobody was to touch; the memory is freed. */
static inline void values_check(const struct side *s, const struct values *v, float *memory,
				const char *what)
{
	float *got = host_memory_new(v->n * sizeof *got);

	s->ops->fetch(s->stream, got, memory, v->n * sizeof *got);
	side_wait(s);
	s->ops->memory_free(s->executor, memory - v->shift);
	for (size_t i = 0; i < v->n; i++) {
		if (!floats_same(got[i], v->wanted[i]))
			fail_msg("%s, %s: %zu of %zu: %a, not %a", s->ops->name, what, i, v->n,
				 (double)got[i], (double)v->wanted[i]);
	}
	free(got);
}

/* --- what plain loops share --- */

static inline float plain_softcap(float x, float softcap)
{
	return softcap * (1.0f - 2.0f / (f32_exp(2.0f * (x / softcap)) + 1.0f));
}

/* The sum of 16. */
static inline float plain_lanes_sum(float *lanes)
{
	for (size_t apart = 8; apart > 0; apart /= 2)
		for (size_t i = 0; i < apart; i++)
			lanes[i] += lanes[i + apart];
	return lanes[0];
}

/* Below, at and above the widths of lanes, of four elements, of tiles and of blocks. */
static const size_t edge_sizes[] = { 1, 2, 3, 4, 5, 6, 15, 16, 17, 63, 64, 65, 127, 1000 };

#endif
