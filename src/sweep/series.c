/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/series.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

struct series series_new(size_t n)
{
	return (struct series){ .sums = xcalloc(n, sizeof(double)),
				.n_values = xcalloc(n, sizeof(size_t)) };
}

void series_release(struct series *series)
{
	free(series->sums);
	free(series->n_values);
}

void series_add(struct series *series, double sum, size_t n)
{
	if (!n)
		return;
	series->sums[series->n] = sum;
	series->n_values[series->n++] = n;
}

struct estimate series_mean(const struct series *series)
{
	double sum = 0, mean_of_means = 0, squares = 0, n = (double)series->n;
	size_t n_values = 0;

	for (size_t i = 0; i < series->n; i++) {
		sum += series->sums[i];
		n_values += series->n_values[i];
		mean_of_means += series->sums[i] / (double)series->n_values[i] / n;
	}
	for (size_t i = 0; i < series->n; i++) {
		double far = series->sums[i] / (double)series->n_values[i] - mean_of_means;

		squares += far * far;
	}
	return (struct estimate){ .value = n_values ? sum / (double)n_values : NAN,
				  .se = series->n > 1 ? sqrt(squares / (n - 1) / n) : NAN };
}
