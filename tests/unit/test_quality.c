/* SPDX-License-Identifier: Apache-2.0
 *
 * eval/quality.h: numbers of a few positions against their definitions, worked out here by hand.
 */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "eval/quality.h"
#include "tests/unit/support/rank_job.h"

static void near(double got, double wanted)
{
	if (!(fabs(got - wanted) <= 1e-12 * fmax(1, fabs(wanted))))
		fail_msg("%.17g, not %.17g", got, wanted);
}

/* Two sequences, of 3 and 5 tokens. */
static struct dataset_sequence lengths[] = { { 0, 3 }, { 3, 5 } };
static const struct dataset data = { .sequences = lengths, .n = 2 };

/* Losses of P and Q, at targets, and divergences, at positions. */
static const double loss_p[] = { 1, 2, 0.5, 1.5, 2.5, 3 };
static const double loss_q[] = { 1.5, 1, 1, 2, 2, 4 };
static const struct divergence divergences[] = {
	{ 0.1, 0.2, true }, { 0.4, 0.1, false }, { 0.2, 0.3, true }, { 0, 0, true },
	{ 0.3, 0.1, true }, { 0.6, 0.2, false }, { 0.1, 0.4, true }, { 0.5, 0.1, true },
};

static void add_all(struct samples *samples, bool has_source)
{
	struct err err;

	assert_int_equal(samples_init(samples, &data, 0, has_source, &err), 0);
	/* In any order. */
	samples_add(samples, 1, loss_p + 2, loss_q + 2, divergences + 3);
	samples_add(samples, 0, loss_p, loss_q, divergences);
}

static void a_perplexity_has_the_error_of_sequences(void **state)
{
	struct samples samples;
	struct quality quality;
	double mean = (1.5 + 1 + 1 + 2 + 2 + 4) / 6, first = 2.5 / 2, second = 9.0 / 4;

	(void)state;
	add_all(&samples, false);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	assert_false(quality.has_source);
	assert_int_equal(quality.n_sequences, 2);
	assert_int_equal(quality.n_positions, 8);
	assert_int_equal(quality.n_targets, 6);
	near(quality.of[QUALITY_PERPLEXITY].value, exp(mean));
	/* Of two numbers, the standard error of the mean is half their distance. */
	near(quality.of[QUALITY_PERPLEXITY].se, exp(mean) * (second - first) / 2);
}

static void losses_are_compared_in_pairs(void **state)
{
	struct samples samples;
	struct quality quality;
	double p = exp(10.5 / 6), q = exp(11.5 / 6), xx = 0, yy = 0, xy = 0;
	/* Means of both sequences: of Q less P; of PPL(Q) Q less PPL(P) P. */
	double ln_first = -0.5 / 2, ln_second = 1.5 / 4;
	double first = (q * 2.5 - p * 3) / 2, second = (q * 9 - p * 7.5) / 4;

	(void)state;
	add_all(&samples, true);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	near(quality.of[QUALITY_SOURCE_PERPLEXITY].value, p);
	near(quality.of[QUALITY_PERPLEXITY].value, q);
	near(quality.of[QUALITY_LN_RATIO].value, 1.0 / 6);
	near(quality.of[QUALITY_LN_RATIO].se, (ln_second - ln_first) / 2);
	near(quality.of[QUALITY_RATIO].value, q / p);
	near(quality.of[QUALITY_RATIO].se, q / p * (ln_second - ln_first) / 2);
	near(quality.of[QUALITY_DIFFERENCE].value, q - p);
	near(quality.of[QUALITY_DIFFERENCE].se, fabs(second - first) / 2);
	for (size_t i = 0; i < 6; i++) {
		xx += (loss_p[i] - 10.5 / 6) * (loss_p[i] - 10.5 / 6);
		yy += (loss_q[i] - 11.5 / 6) * (loss_q[i] - 11.5 / 6);
		xy += (loss_p[i] - 10.5 / 6) * (loss_q[i] - 11.5 / 6);
	}
	near(quality.of[QUALITY_CORRELATION].value, xy / sqrt(xx * yy));
}

static void divergences_are_means_over_positions(void **state)
{
	struct samples samples;
	struct quality quality;
	double first = 0.7 / 3, second = 1.5 / 5;

	(void)state;
	add_all(&samples, true);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	near(quality.of[QUALITY_KLD].value, 2.2 / 8);
	near(quality.of[QUALITY_KLD].se, (second - first) / 2);
	near(quality.of[QUALITY_REVERSE_KLD].value, 1.4 / 8);
	near(quality.of[QUALITY_SAME_TOP].value, 75);
	near(quality.of[QUALITY_SAME_TOP].se, 100 * (4.0 / 5 - 2.0 / 3) / 2);
}

static void percentiles_lie_between_neighbors(void **state)
{
	struct samples samples;
	struct quality quality;
	/* Sorted: 0 .1 .1 .2 .3 .4 .5 .6; percentile q lies at 7 q. */
	const double wanted[] = { 0.6,
				  0.5 + 0.993 * 0.1,
				  0.5 + 0.93 * 0.1,
				  0.5 + 0.65 * 0.1,
				  0.53,
				  0.25,
				  0.07,
				  0.035,
				  0.007,
				  0 };

	(void)state;
	add_all(&samples, true);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	for (size_t i = 0; i < N_SPREAD; i++)
		near(quality.of[QUALITY_KLD_SPREAD + i].value, wanted[i]);
	assert_string_equal(quality_rows[QUALITY_KLD_SPREAD + 1].key, "p99_9");
	near(quality.of[QUALITY_DELTA_P_SPREAD + 0].value, 100 * (exp(-1) - exp(-2)));
	near(quality.of[QUALITY_DELTA_P_SPREAD + N_SPREAD - 1].value, 100 * (exp(-1) - exp(-0.5)));
}

static void changes_of_probability_are_percent(void **state)
{
	struct samples samples;
	struct quality quality;
	double sum = 0, squares = 0;

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		double delta = 100 * (exp(-loss_q[i]) - exp(-loss_p[i]));

		sum += delta;
		squares += delta * delta;
	}
	add_all(&samples, true);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	near(quality.of[QUALITY_DELTA_P].value, sum / 6);
	near(quality.of[QUALITY_DELTA_P_RMS].value, sqrt(squares / 6));
}

/* With a stride the first positions of all windows but the first do not count, and every token is
 * predicted once. */
static void windows_count_from_a_position_on(void **state)
{
	struct samples samples;
	struct quality quality;
	struct err err;

	(void)state;
	assert_int_equal(samples_init(&samples, &data, 3, true, &err), 0);
	samples_add(&samples, 0, loss_p, loss_q, divergences);
	samples_add(&samples, 1, loss_p + 2, loss_q + 2, divergences + 3);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	/* Of the second sequence the last two positions, and the last two tokens. */
	assert_int_equal(quality.n_positions, 3 + 2);
	assert_int_equal(quality.n_targets, 2 + 2);
	near(quality.of[QUALITY_PERPLEXITY].value, exp((1.5 + 1 + 2 + 4) / 4));
	near(quality.of[QUALITY_KLD].value, (0.7 + 0.6) / 5);
}

static void one_sequence_has_no_error(void **state)
{
	const struct dataset one = { .sequences = lengths, .n = 1 };
	struct samples samples;
	struct quality quality;
	struct err err;

	(void)state;
	assert_int_equal(samples_init(&samples, &one, 0, true, &err), 0);
	samples_add(&samples, 0, loss_p, loss_q, divergences);
	quality_compute(&quality, &samples);
	samples_release(&samples);
	near(quality.of[QUALITY_PERPLEXITY].value, exp(1.25));
	assert_true(isnan(quality.of[QUALITY_PERPLEXITY].se));
	assert_true(isnan(quality.of[QUALITY_KLD].se));
}

/* One rank, which adds one of the two sequences or none, and what it computes from all. */
struct rank {
	struct group *group;
	struct quality quality;
	int rc;
};

static void *rank_run(void *context)
{
	struct rank *rank = context;
	struct samples samples;
	struct err err;
	size_t i = (size_t)rank->group->rank;

	rank->rc = samples_init(&samples, &data, 0, true, &err);
	if (i < 2)
		samples_add(&samples, i, loss_p + 2 * i, loss_q + 2 * i, divergences + 3 * i);
	rank->rc |= samples_unite(&samples, rank->group, 0, 1, &err);
	rank->rc |= samples_unite(&samples, rank->group, 1, 1, &err);
	quality_compute(&rank->quality, &samples);
	samples_release(&samples);
	return NULL;
}

static void ranks_have_the_numbers_of_one_process(void **state)
{
	struct group groups[3];
	struct rank ranks[3] = { 0 };
	pthread_t threads[3];
	struct samples samples;
	struct quality one = { 0 };

	(void)state;
	add_all(&samples, true);
	quality_compute(&one, &samples);
	samples_release(&samples);
	group_threads_open(groups, 3);
	for (int i = 0; i < 3; i++) {
		ranks[i].group = &groups[i];
		assert_int_equal(pthread_create(&threads[i], NULL, rank_run, &ranks[i]), 0);
	}
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	group_threads_close(groups);
	for (int i = 0; i < 3; i++) {
		const struct quality *of = &ranks[i].quality;

		assert_int_equal(ranks[i].rc, 0);
		for (size_t n = 0; n < N_QUALITY; n++) {
			assert_true(of->of[n].value == one.of[n].value);
			assert_true(of->of[n].se == one.of[n].se || isnan(one.of[n].se));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_perplexity_has_the_error_of_sequences),
		cmocka_unit_test(losses_are_compared_in_pairs),
		cmocka_unit_test(divergences_are_means_over_positions),
		cmocka_unit_test(percentiles_lie_between_neighbors),
		cmocka_unit_test(changes_of_probability_are_percent),
		cmocka_unit_test(windows_count_from_a_position_on),
		cmocka_unit_test(one_sequence_has_no_error),
		cmocka_unit_test(ranks_have_the_numbers_of_one_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
