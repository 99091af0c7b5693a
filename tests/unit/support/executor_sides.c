/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/executor_sides.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "backend/host_ops.h"
#include "kernels/cpu/cpu.h"
#include "num/bits.h"
#include "num/exp.h"
#include "tests/unit/support/kernel_parity.h"

#define N_SIDES_MAX 8

struct side sides[N_SIDES_MAX];
size_t n_sides;

/* Opens an executor, the CPU's with the operations of `set`; -1: it is skipped. */
static int side_open(const struct backend *backend, const struct host_ops *set)
{
	struct side *side = &sides[n_sides];
	struct err err = { 0 };

	assert_true(n_sides < N_SIDES_MAX);
	if (backend->executor->open(&side->executor, 0, &err)) {
		print_message("SKIPPED: backend %s: %s\n", backend->name, err.message);
		return -1;
	}
	side->ops = side->executor->ops;
	if (set) {
		side->own = *side->ops;
		set->operations(&side->own);
		side->executor->ops = side->ops = &side->own;
	}
	if (side->ops->stream_new(&side->stream, side->executor, &err)) {
		print_message("SKIPPED: backend %s: %s\n", backend->name, err.message);
		side->ops->close(side->executor);
		return -1;
	}
	n_sides++;
	return 0;
}

/* Every instruction set of the CPU, whose backends share an executor, and every other executor. */
int sides_open(void **state)
{
	(void)state;
	for (const struct host_ops *const *set = host_ops; *set; set++)
		if ((*set)->usable() && side_open(&backend_reference, *set))
			return -1;
	for (const struct backend *const *b = backends; *b; b++)
		if ((*b)->executor != backend_reference.executor && !(*b)->unusable())
			side_open(*b, NULL);
	return 0;
}

int sides_close(void **state)
{
	(void)state;
	EACH_SIDE(s)
	{
		s->ops->stream_free(s->stream);
		s->ops->close(s->executor);
	}
	return 0;
}

bool sides_small;

void sides_begin(int argc, char **argv)
{
	sides_small = argc > 1 && !strcmp(argv[1], "small");
	skipped_print();
}

void *host_memory_new(size_t size)
{
	void *memory = malloc(size ? size : 1);

	assert_non_null(memory);
	return memory;
}

void *side_memory_new(const struct side *s, size_t size)
{
	void *memory;
	struct err err;

	if (s->ops->memory_new(s->executor, &memory, size, "values", &err))
		fail_msg("%s: %s", s->ops->name, err.message);
	return memory;
}

void side_wait(const struct side *s)
{
	struct err err;

	if (s->ops->wait(s->stream, &err))
		fail_msg("%s: %s", s->ops->name, err.message);
}

void *side_put(const struct side *s, const void *data, size_t size)
{
	void *memory = side_memory_new(s, size);

	s->ops->put(s->stream, memory, data, size);
	side_wait(s);
	return memory;
}

void side_take(const struct side *s, void *memory, void *data, size_t size)
{
	s->ops->fetch(s->stream, data, memory, size);
	side_wait(s);
	s->ops->memory_free(s->executor, memory);
}

float noise_next(void)
{
	static uint32_t state = 1;

	state = state * 1664525 + 1013904223;
	return (float)(int32_t)state / 536870912.0f;
}

struct values values_new(size_t n, size_t shift)
{
	struct values v = { host_memory_new(n * sizeof(float)), host_memory_new(n * sizeof(float)),
			    n, shift };

	for (size_t i = 0; i < n; i++)
		v.given[i] = v.wanted[i] = noise_next();
	return v;
}

void values_free(struct values *v)
{
	free(v->given);
	free(v->wanted);
}

void values_set(struct values *v, size_t i, float value)
{
	v->given[i] = v->wanted[i] = value;
}

float *values_send(const struct side *s, const struct values *v)
{
	float *memory = side_memory_new(s, (v->n + v->shift) * sizeof *memory);

	s->ops->put(s->stream, memory + v->shift, v->given, v->n * sizeof *memory);
	side_wait(s);
	return memory + v->shift;
}

bool floats_same(float a, float b)
{
	return isnan(a) ? isnan(b) : f32_bits(a) == f32_bits(b);
}

/* Checks that each value is within an error of the wanted one, or the same; frees memory. */
static void check(const struct side *s, const struct values *v, float *memory, double error,
		  const char *what)
{
	float *got = host_memory_new(v->n * sizeof *got);

	s->ops->fetch(s->stream, got, memory, v->n * sizeof *got);
	side_wait(s);
	s->ops->memory_free(s->executor, memory - v->shift);
	for (size_t i = 0; i < v->n; i++) {
		bool changes = !floats_same(v->given[i], v->wanted[i]);

		if (!floats_same(got[i], v->wanted[i]) &&
		    !(changes && fabs((double)got[i] - (double)v->wanted[i]) <= error))
			fail_msg("%s, %s: %zu of %zu: %a, not %a", s->ops->name, what, i, v->n,
				 (double)got[i], (double)v->wanted[i]);
	}
	free(got);
}

void values_check(const struct side *s, const struct values *v, float *memory, const char *what)
{
	check(s, v, memory, 0, what);
}

void values_check_near(const struct side *s, const struct values *v, float *memory,
		       const char *what)
{
	double squares = 0;

	for (size_t i = 0; i < v->n; i++)
		squares += (double)v->wanted[i] * (double)v->wanted[i];
	check(s, v, memory, v->n ? 1e-5 * sqrt(squares / (double)v->n) : 0, what);
}

float plain_softcap(float x, float softcap)
{
	return softcap * (1.0f - 2.0f / (f32_exp(2.0f * (x / softcap)) + 1.0f));
}

float plain_lanes_sum(float *lanes)
{
	for (size_t apart = 8; apart > 0; apart /= 2)
		for (size_t i = 0; i < apart; i++)
			lanes[i] += lanes[i + apart];
	return lanes[0];
}

const size_t edge_sizes[14] = { 1, 2, 3, 4, 5, 6, 15, 16, 17, 63, 64, 65, 127, 1000 };

void specials_put(struct values *v, size_t every)
{
	static const float special[] = { NAN,	INFINITY, -INFINITY,	-NAN,	     3.4e38f,
					 -0.0f, 1e-40f,	  -1.4013e-45f, -7.0078125f, 2.01171875f };

	for (size_t i = every; every && i < v->n; i += every)
		values_set(v, i, special[i / every % N_OF(special)]);
}

void stats_raise(struct value_stats *stats, const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		stats->n_nonfinite += !isfinite(x[i]);
		stats->amax = fabsf(x[i]) > stats->amax ? fabsf(x[i]) : stats->amax;
	}
}

void stats_back(const struct side *s, const struct value_stats *wanted, void *there)
{
	struct value_stats got;

	side_take(s, there, &got, sizeof got);
	assert_int_equal(got.n_nonfinite, wanted->n_nonfinite);
	assert_int_equal(f32_bits(got.amax), f32_bits(wanted->amax));
}
