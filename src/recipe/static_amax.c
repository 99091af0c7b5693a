/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/static_amax.h"

#include <string.h>

#include "num/amax_bin.h"
#include "num/scale.h"

#define SHARE_DECIMALS 6
#define SHARE_WHOLE    100000000u
#define MSE_CANDIDATES 32 /* bins below the maximum, 8 a binade: clips up to 4 binades */
#define MSE_POINTS     8  /* values that represent a bin, evenly spaced */

static int bad_choice(const char *option, const char *text, struct err *err)
{
	return err_set(err, ERR_USAGE,
		       "option '%s': '%s' is not max, most-recent, mse or percentile=P with P "
		       "above 0 and up to 100, of at "
		       "most %d decimals",
		       option, text, SHARE_DECIMALS);
}

/* Reads "99.9" in millionths.  Returns false where text is not a percentage above 0 up to 100. */
static bool read_share(const char *text, uint32_t *share)
{
	uint64_t value = 0;
	int n_whole = 0, n_decimals = -1;

	for (; *text; text++) {
		if (*text == '.' && n_decimals < 0 && n_whole) {
			n_decimals = 0;
			continue;
		}
		if (*text < '0' || *text > '9' || n_whole > 3 || n_decimals == SHARE_DECIMALS)
			return false;
		value = value * 10 + (uint64_t)(*text - '0');
		if (n_decimals < 0)
			n_whole++;
		else
			n_decimals++;
	}
	if (!n_whole || n_decimals == 0)
		return false;
	for (int i = n_decimals < 0 ? 0 : n_decimals; i < SHARE_DECIMALS; i++)
		value *= 10;
	*share = (uint32_t)value;
	return value && value <= SHARE_WHOLE;
}

int static_choice_read(struct static_choice *choice, const char *option, const char *text,
		       struct err *err)
{
	static const struct {
		const char *name;
		enum static_algo algo;
	} words[] = { { "max", STATIC_MAX },
		      { "most-recent", STATIC_MOST_RECENT },
		      { "mse", STATIC_MSE } };
	static const char percentile[] = "percentile=";

	*choice = (struct static_choice){ 0 };
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(words[i].name, text) != 0)
			continue;
		choice->algo = words[i].algo;
		return 0;
	}
	choice->algo = STATIC_PERCENTILE;
	if (strncmp(text, percentile, strlen(percentile)) != 0 ||
	    !read_share(text + strlen(percentile), &choice->share))
		return bad_choice(option, text, err);
	return 0;
}

bool static_choice_needs_counts(const struct static_choice *choice)
{
	return choice->algo == STATIC_PERCENTILE || choice->algo == STATIC_MSE;
}

static float maximum(const struct static_history *history)
{
	float max = 0;

	for (size_t i = 0; i < history->n_passes; i++)
		if (history->amax[i * history->amax_stride] > max)
			max = history->amax[i * history->amax_stride];
	return max;
}

/* Returns the amax of the last pass that had a value other than zero. */
static float most_recent(const struct static_history *history)
{
	for (size_t i = history->n_passes; i-- > 0;)
		if (history->amax[i * history->amax_stride] > 0)
			return history->amax[i * history->amax_stride];
	return 0;
}

static uint64_t count_of(const struct static_history *history, unsigned bin)
{
	return history->counts[bin * history->counts_stride];
}

static float smaller(float a, float b)
{
	return a < b ? a : b;
}

/* Returns the upper edge of the first bin below which the share of all values lies. */
static float percentile(const struct static_history *history, uint32_t share, float max)
{
	unsigned __int128 total = 0, seen = 0;

	for (unsigned b = 0; b < AMAX_BINS; b++)
		total += count_of(history, b);
	for (unsigned b = 0; b < AMAX_BIN_INF; b++) {
		seen += count_of(history, b);
		if (count_of(history, b) && seen * SHARE_WHOLE >= total * share)
			return smaller(amax_bin_edge(b + 1), max);
	}
	return max;
}

/* A scale, and a bound of the values that are counted. */
struct counted_scale {
	const struct qspec *spec;
	struct scaling scaling;
	float max;
};

/* Adds the values that a bin counts, as if they were spread evenly in it up to the bound. */
static void add_bin(const struct static_history *history, const struct counted_scale *scale,
		    unsigned b, struct static_loss *loss)
{
	const double n = (double)count_of(history, b) / MSE_POINTS;
	double signal = 0, noise = 0;
	int underflow = 0, overflow = 0;

	for (unsigned i = 0; i < MSE_POINTS; i++) {
		float x = smaller(
			f32_from_bits(b << AMAX_BIN_BITS | (2 * i + 1) << (AMAX_BIN_BITS - 4)),
			scale->max);
		float scaled = scaling_apply(scale->scaling, x);
		uint8_t code = fp8_from_f32(scale->spec->format, scaled);
		double error = (double)x - (double)fp8_to_f32(scale->spec->format, code) *
						   (double)scale->scaling.scale_inv;

		signal += (double)x * (double)x;
		noise += error * error;
		underflow += code == 0;
		overflow += fp8_saturates(scale->spec->format, scaled);
	}
	loss->signal += n * signal;
	loss->noise += n * noise;
	loss->underflow += b ? n * underflow : 0; /* bin 0 has the zeros */
	loss->overflow += n * overflow;
}

/* Adds all finite values if amax decides the scale. */
static void add_bins(const struct static_history *history, const struct qspec *spec, float amax,
		     float max, struct static_loss *loss)
{
	struct counted_scale scale = { spec, scaling_from_amax(spec, amax, F32_MAX), F32_MAX };

	for (unsigned b = 0; b < AMAX_BIN_INF; b++) {
		if (!count_of(history, b))
			continue;
		scale.max = b == amax_bin(max) ? max : F32_MAX;
		add_bin(history, &scale, b, loss);
	}
}

void static_loss(const struct static_history *history, const struct qspec *spec, float amax,
		 struct static_loss *loss)
{
	*loss = (struct static_loss){ .overflow = (double)count_of(history, AMAX_BIN_INF) };
	for (unsigned b = 0; b <= AMAX_BIN_INF; b++)
		loss->n += count_of(history, b);
	add_bins(history, spec, amax, maximum(history), loss);
}

/* Returns the sum of squared errors of all counted values if amax decides the scale. */
static double error_of(const struct static_history *history, const struct qspec *spec, float amax)
{
	struct static_loss loss = { 0 };

	add_bins(history, spec, amax, F32_MAX, &loss);
	return loss.noise;
}

/* Returns the maximum or the edge of a bin below it, whichever has the smallest error; of equal
 * errors the larger. */
static float least_squares(const struct static_history *history, const struct qspec *spec,
			   float max)
{
	unsigned top = amax_bin(max);
	float best = max;
	double min;

	if (!(max > 0) || top >= AMAX_BIN_INF)
		return max;
	min = error_of(history, spec, max);
	for (unsigned i = 0; i < MSE_CANDIDATES && i < top; i++) {
		float amax = amax_bin_edge(top - i);
		double error = error_of(history, spec, amax);

		if (error < min) {
			min = error;
			best = amax;
		}
	}
	return best;
}

float static_amax(const struct static_choice *choice, const struct static_history *history,
		  const struct qspec *spec)
{
	float max = maximum(history);

	if (choice->algo == STATIC_MOST_RECENT)
		return most_recent(history);
	if (choice->algo == STATIC_MAX || !history->counts)
		return max;
	if (choice->algo == STATIC_PERCENTILE)
		return percentile(history, choice->share, max);
	return least_squares(history, spec, max);
}

float static_scale_inv(const struct qspec *spec, float amax)
{
	return scaling_from_amax(spec, amax, F32_MAX).scale_inv;
}
