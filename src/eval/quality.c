/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/quality.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"

/* Objects of the JSON: rows of one have the same pointer. */
static const char kld[] = "kld", delta_p[] = "delta_p";

/* clang-format off */
#define NUMBER(object, key, label, title, unit) \
	{ object, key, label, NULL, title, unit, .of_spread = true }
#define SPREAD(first, object, of, unit) \
	[(first) + 0] = NUMBER(object, "max", "Maximum " of, "maximum", unit), \
	[(first) + 1] = NUMBER(object, "p99_9", "99.9% " of, "99.9 %", unit), \
	[(first) + 2] = NUMBER(object, "p99", "99.0% " of, "99 %", unit), \
	[(first) + 3] = NUMBER(object, "p95", "95.0% " of, "95 %", unit), \
	[(first) + 4] = NUMBER(object, "p90", "90.0% " of, "90 %", unit), \
	[(first) + 5] = NUMBER(object, "median", "Median " of, "median", unit), \
	[(first) + 6] = NUMBER(object, "p10", "10.0% " of, "10 %", unit), \
	[(first) + 7] = NUMBER(object, "p5", "5.0% " of, "5 %", unit), \
	[(first) + 8] = NUMBER(object, "p1", "1.0% " of, "1 %", unit), \
	[(first) + 9] = NUMBER(object, "min", "Minimum " of, "minimum", unit)

const struct quality_row quality_rows[N_QUALITY] = {
	[QUALITY_PERPLEXITY] = {
		.key = "perplexity", .label = "Mean PPL(Q)", .title = "Perplexity", .unit = "",
		.has_error = true, .in_card = true },
	[QUALITY_SOURCE_PERPLEXITY] = {
		.key = "source_perplexity", .label = "Mean PPL(base)",
		.title = "Perplexity of the source", .unit = "", .has_error = true,
		.in_card = true },
	[QUALITY_CORRELATION] = {
		.key = "correlation", .label = "Cor(ln(PPL(Q)),ln(PPL(base)))",
		.title = "Correlation of the losses of tokens", .unit = " %", .factor = 100 },
	[QUALITY_LN_RATIO] = {
		.key = "ln_ratio", .label = "Mean ln(PPL(Q)/PPL(base))", .unit = "",
		.has_error = true },
	[QUALITY_RATIO] = {
		.key = "ratio", .label = "Mean PPL(Q)/PPL(base)", .title = "Ratio of perplexities",
		.unit = "", .has_error = true, .in_card = true },
	[QUALITY_DIFFERENCE] = {
		.key = "difference", .label = "Mean PPL(Q)-PPL(base)",
		.title = "Difference of perplexities", .unit = "", .has_error = true },
	[QUALITY_KLD] = {
		kld, "mean", "Mean KLD", "Kullback-Leibler divergence, by position", "Mean KLD",
		"", .has_error = true, .in_card = true },
	[QUALITY_REVERSE_KLD] = {
		kld, "reverse_mean", "Mean reverse KLD", NULL, "Mean KLD, the other way",
		.unit = "" },
	SPREAD(QUALITY_KLD_SPREAD, kld, "KLD", ""),
	[QUALITY_DELTA_P] = {
		delta_p, "mean", "Mean delta p", "Probability of the next token, Q less base",
		"Mean delta p", " %", .in_card = true },
	[QUALITY_DELTA_P_RMS] = {
		delta_p, "rms", "RMS delta p", NULL, "RMS delta p", " %", .in_card = true },
	SPREAD(QUALITY_DELTA_P_SPREAD, delta_p, "delta p", " %"),
	[QUALITY_SAME_TOP] = {
		.key = "same_top", .label = "Same top p", .title = "Same top token", .unit = " %",
		.has_error = true, .in_card = true },
};
/* clang-format on */

static int doubles_new(double **values, size_t n, struct err *err)
{
	size_t size = (n ? n : 1) * sizeof **values;

	if (buffer_alloc((void **)values, size, "the numbers of positions", err))
		return -1;
	memset(*values, 0, size);
	return 0;
}

/* Returns the first position of a sequence that counts, and the first whose target does: that of
 * the first counted token. */
static size_t first_position(const struct samples *samples, size_t i)
{
	return i ? samples->first_counted : 0;
}

static size_t first_target(const struct samples *samples, size_t i)
{
	size_t first = first_position(samples, i);

	return first ? first - 1 : 0;
}

/* Fills the first positions and targets of each sequence. */
static void count(struct samples *samples, const struct dataset *data)
{
	for (size_t i = 0; i < data->n; i++) {
		size_t len = data->sequences[i].len;

		samples->n_positions += len - first_position(samples, i);
		samples->n_targets += len - 1 - first_target(samples, i);
		samples->position_first[i + 1] = samples->n_positions;
		samples->target_first[i + 1] = samples->n_targets;
	}
}

int samples_init(struct samples *samples, const struct dataset *data, size_t first_counted,
		 bool has_source, struct err *err)
{
	*samples = (struct samples){ .has_source = has_source,
				     .n_sequences = data->n,
				     .first_counted = first_counted };
	samples->position_first = xcalloc(data->n + 1, sizeof *samples->position_first);
	samples->target_first = xcalloc(data->n + 1, sizeof *samples->target_first);
	count(samples, data);
	if (doubles_new(&samples->loss_q, samples->n_targets, err))
		return -1;
	if (!has_source)
		return 0;
	if (doubles_new(&samples->loss_p, samples->n_targets, err) ||
	    doubles_new(&samples->kl, samples->n_positions, err))
		return -1;
	samples->reverse_kl = xcalloc(data->n, sizeof *samples->reverse_kl);
	samples->same_top = xcalloc(data->n, sizeof *samples->same_top);
	return 0;
}

void samples_release(struct samples *samples)
{
	free(samples->position_first);
	free(samples->target_first);
	free(samples->loss_p);
	free(samples->loss_q);
	free(samples->kl);
	free(samples->reverse_kl);
	free(samples->same_top);
	*samples = (struct samples){ 0 };
}

void samples_add(struct samples *samples, size_t i, const double *losses_p, const double *losses_q,
		 const struct divergence *divergences)
{
	size_t to = samples->position_first[i], n = samples->position_first[i + 1] - to;
	size_t to_target = samples->target_first[i];
	size_t n_targets = samples->target_first[i + 1] - to_target;
	size_t at = first_position(samples, i), at_target = first_target(samples, i);

	for (size_t t = 0; t < n_targets; t++)
		samples->loss_q[to_target + t] = losses_q[at_target + t];
	for (size_t t = 0; samples->has_source && t < n_targets; t++)
		samples->loss_p[to_target + t] = losses_p[at_target + t];
	for (size_t t = 0; samples->has_source && t < n; t++) {
		const struct divergence *divergence = &divergences[at + t];

		samples->kl[to + t] = divergence->kl;
		samples->reverse_kl[i] += divergence->reverse_kl;
		samples->same_top[i] += divergence->same_top;
	}
}

static int unite(const struct group *group, double *values, size_t first, size_t end,
		 struct err *err)
{
	if (!values)
		return 0;
	return group_reduce(group, GROUP_UNION, values + first, (end - first) * sizeof *values,
			    err);
}

int samples_unite(struct samples *samples, const struct group *group, size_t first, size_t n,
		  struct err *err)
{
	const size_t *position = samples->position_first, *target = samples->target_first;
	size_t end = first + n;

	if (unite(group, samples->loss_q, target[first], target[end], err) ||
	    unite(group, samples->loss_p, target[first], target[end], err) ||
	    unite(group, samples->kl, position[first], position[end], err) ||
	    unite(group, samples->reverse_kl, first, end, err))
		return -1;
	return unite(group, samples->same_top, first, end, err);
}

static double sum_of(const double *values, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += values[i];
	return sum;
}

/* Returns the mean of weight_q * loss of Q + weight_p * loss of P over targets. */
static struct estimate mean_loss(const struct samples *samples, double weight_q, double weight_p)
{
	struct series series = series_new(samples->n_sequences);
	struct estimate mean;

	for (size_t i = 0; i < samples->n_sequences; i++) {
		size_t first = samples->target_first[i], n = samples->target_first[i + 1] - first;
		double sum = weight_q * sum_of(samples->loss_q + first, n);

		if (weight_p != 0)
			sum += weight_p * sum_of(samples->loss_p + first, n);
		series_add(&series, sum, n);
	}
	mean = series_mean(&series);
	series_release(&series);
	return mean;
}

/* Returns the mean over positions of the sums of sequences. */
static struct estimate mean_position(const struct samples *samples, const double *sums)
{
	struct series series = series_new(samples->n_sequences);
	struct estimate mean;

	for (size_t i = 0; i < samples->n_sequences; i++)
		series_add(&series, sums[i],
			   samples->position_first[i + 1] - samples->position_first[i]);
	mean = series_mean(&series);
	series_release(&series);
	return mean;
}

/* Returns exp(x), with the error of the delta method. */
static struct estimate exp_of(struct estimate x)
{
	return (struct estimate){ exp(x.value), exp(x.value) * x.se };
}

static double correlation(const double *x, const double *y, size_t n)
{
	double mean_x = sum_of(x, n) / (double)n, mean_y = sum_of(y, n) / (double)n;
	double xx = 0, yy = 0, xy = 0;

	for (size_t i = 0; i < n; i++) {
		xx += (x[i] - mean_x) * (x[i] - mean_x);
		yy += (y[i] - mean_y) * (y[i] - mean_y);
		xy += (x[i] - mean_x) * (y[i] - mean_y);
	}
	return xy / sqrt(xx * yy);
}

COMPARISON(compare_doubles, double, ORDER(*x, *y))

/* Returns the quantile of sorted values. */
static double quantile(const double *sorted, size_t n, double q)
{
	double at = q * (double)(n - 1);
	size_t below = (size_t)at;

	if (below + 1 >= n)
		return sorted[n - 1];
	return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

static const double quantiles[N_SPREAD] = { 1, 0.999, 0.99, 0.95, 0.9, 0.5, 0.1, 0.05, 0.01, 0 };

/* Sets a number that has no error. */
static void set(struct quality *quality, enum quality_number number, double value)
{
	quality->of[number] = (struct estimate){ value, NAN };
}

/* Sorts the values, and sets the numbers of their distribution: percentiles by linear interpolation
 * between order statistics. */
static void set_spread(struct quality *quality, enum quality_number first, double *values, size_t n)
{
	sort(values, n, sizeof *values, compare_doubles);
	for (size_t i = 0; i < N_SPREAD; i++)
		set(quality, first + (enum quality_number)i,
		    n ? quantile(values, n, quantiles[i]) : NAN);
}

/* Changes in the probability of targets; overwrites the losses of P with them. */
static void delta_p_compute(struct quality *quality, struct samples *samples)
{
	double *delta = samples->loss_p, squares = 0, n = (double)samples->n_targets;

	for (size_t i = 0; i < samples->n_targets; i++) {
		delta[i] = 100 * (exp(-samples->loss_q[i]) - exp(-samples->loss_p[i]));
		squares += delta[i] * delta[i];
	}
	set(quality, QUALITY_DELTA_P, sum_of(delta, samples->n_targets) / n);
	set(quality, QUALITY_DELTA_P_RMS, sqrt(squares / n));
	set_spread(quality, QUALITY_DELTA_P_SPREAD, delta, samples->n_targets);
}

static void compare(struct quality *quality, struct samples *samples)
{
	double *sums = xcalloc(samples->n_sequences, sizeof *sums);
	struct estimate *of = quality->of;
	double p, q;

	of[QUALITY_SOURCE_PERPLEXITY] = exp_of(mean_loss(samples, 0, 1));
	of[QUALITY_LN_RATIO] = mean_loss(samples, 1, -1);
	of[QUALITY_RATIO] = exp_of(of[QUALITY_LN_RATIO]);
	p = of[QUALITY_SOURCE_PERPLEXITY].value;
	q = of[QUALITY_PERPLEXITY].value;
	of[QUALITY_DIFFERENCE] = (struct estimate){ q - p, mean_loss(samples, q, -p).se };
	set(quality, QUALITY_CORRELATION,
	    correlation(samples->loss_p, samples->loss_q, samples->n_targets));
	for (size_t i = 0; i < samples->n_sequences; i++)
		sums[i] = sum_of(samples->kl + samples->position_first[i],
				 samples->position_first[i + 1] - samples->position_first[i]);
	of[QUALITY_KLD] = mean_position(samples, sums);
	set(quality, QUALITY_REVERSE_KLD, mean_position(samples, samples->reverse_kl).value);
	for (size_t i = 0; i < samples->n_sequences; i++)
		sums[i] = 100 * samples->same_top[i];
	of[QUALITY_SAME_TOP] = mean_position(samples, sums);
	set_spread(quality, QUALITY_KLD_SPREAD, samples->kl, samples->n_positions);
	delta_p_compute(quality, samples);
	free(sums);
}

void quality_compute(struct quality *quality, struct samples *samples)
{
	*quality = (struct quality){ .n_sequences = samples->n_sequences,
				     .n_positions = samples->n_positions,
				     .n_targets = samples->n_targets,
				     .has_source = samples->has_source };
	quality->of[QUALITY_PERPLEXITY] = exp_of(mean_loss(samples, 1, 0));
	if (samples->has_source)
		compare(quality, samples);
}
