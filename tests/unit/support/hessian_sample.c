/* SPDX-License-Identifier: Apache-2.0 */
#include "hessian_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

#define N_SIGNALS 3

struct way way_at(size_t i)
{
	static const int n_threads[] = { 1, 2, 5 };
	enum { N = sizeof n_threads / sizeof *n_threads };

	for (const struct host_ops *const *row = host_ops; *row; row++) {
		if (!(*row)->usable()) {
			if (i == 0)
				print_message("SKIPPED: instructions %s: this CPU lacks them\n",
					      (*row)->name);
			continue;
		}
		if (i < N)
			return (struct way){ *row, n_threads[i] };
		i -= N;
	}
	return (struct way){ 0 };
}

float noise(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return (float)(int32_t)*state / 2147483648.0f;
}

float *hessian_new(size_t n, size_t n_tokens, uint32_t seed)
{
	float *h = xcalloc(n * n, sizeof *h), *x = xcalloc(n, sizeof *x);
	float *mix = xcalloc(n * N_SIGNALS, sizeof *mix);

	for (size_t i = 0; i < n * N_SIGNALS; i++)
		mix[i] = noise(&seed);
	for (size_t t = 0; t < n_tokens; t++) {
		float signals[N_SIGNALS];

		for (size_t s = 0; s < N_SIGNALS; s++)
			signals[s] = 4 * noise(&seed);
		for (size_t j = 0; j < n; j++) {
			x[j] = noise(&seed);
			for (size_t s = 0; s < N_SIGNALS; s++)
				x[j] += signals[s] * mix[j * N_SIGNALS + s];
			x[j] *= j % 11 == 5 ? 10 : 1 + (float)(j % 7);
		}
		for (size_t i = 0; i < n; i++)
			for (size_t j = i; j < n; j++)
				h[i * n + j] += x[i] * x[j];
	}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			h[i * n + j] = NAN;
	free(x);
	free(mix);
	return h;
}
