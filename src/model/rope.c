/* SPDX-License-Identifier: Apache-2.0 */
#include "model/rope.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define DEFAULT_THETA 10000.0
#define PI	      3.14159265358979323846

/* Objects that may hold a number; the first one that has it wins. */
struct levels {
	const json_t *scaling; /* rope_parameters, or rope_scaling; NULL: neither */
	const json_t *config;
};

static const json_t *find(const struct levels *levels, const char *key)
{
	const json_t *value = json_object_get(levels->scaling, key);

	if (!value || json_is_null(value))
		value = json_object_get(levels->config, key);
	return json_is_number(value) ? value : NULL;
}

static double number(const struct levels *levels, const char *key, double otherwise)
{
	const json_t *value = find(levels, key);

	return value ? json_number_value(value) : otherwise;
}

static int need(const struct levels *levels, const char *key, double *value, struct err *err)
{
	*value = number(levels, key, 0);
	if (*value > 0)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: the rotary embedding needs a number '%s' above 0", key);
}

static void levels_find(struct levels *levels, const json_t *config, const char *layer_type)
{
	const json_t *inner;

	*levels = (struct levels){ json_object_get(config, "rope_parameters"), config };
	inner = json_object_get(levels->scaling, layer_type);
	if (json_is_object(inner))
		levels->scaling = inner;
	if (!json_is_object(levels->scaling))
		levels->scaling = json_object_get(config, "rope_scaling");
}

static const char *rope_type(const struct levels *levels)
{
	const json_t *type = json_object_get(levels->scaling, "rope_type");

	if (!json_is_string(type))
		type = json_object_get(levels->scaling, "type");
	return json_is_string(type) ? json_string_value(type) : "default";
}

static int scale_linear(struct rope *rope, const struct levels *levels, double theta,
			struct err *err)
{
	double factor;

	(void)theta;
	if (need(levels, "factor", &factor, err))
		return -1;
	for (size_t i = 0; i < rope->n / 2; i++)
		rope->inverse[i] /= (float)factor;
	return 0;
}

/* Llama 3: divides low frequencies by the factor, keeps high ones, and interpolates between. */
static int scale_llama3(struct rope *rope, const struct levels *levels, double theta,
			struct err *err)
{
	double factor, low, high, length;

	(void)theta;
	if (need(levels, "factor", &factor, err) || need(levels, "low_freq_factor", &low, err) ||
	    need(levels, "high_freq_factor", &high, err) ||
	    need(levels, "original_max_position_embeddings", &length, err))
		return -1;
	for (size_t i = 0; i < rope->n / 2; i++) {
		float inverse = rope->inverse[i];
		float wavelength = (float)(2 * PI) / inverse;
		float smooth = ((float)length / wavelength - (float)low) / (float)(high - low);

		if (wavelength > (float)(length / low))
			rope->inverse[i] = inverse / (float)factor;
		else if (wavelength >= (float)(length / high))
			rope->inverse[i] =
				(1 - smooth) * inverse / (float)factor + smooth * inverse;
	}
	return 0;
}

static double yarn_mscale(double scale, double mscale)
{
	return scale <= 1 ? 1 : 0.1 * mscale * log(scale) + 1;
}

static double yarn_attention(const struct levels *levels, double factor)
{
	double mscale = number(levels, "mscale", 0), all = number(levels, "mscale_all_dim", 0);

	if (find(levels, "attention_factor"))
		return number(levels, "attention_factor", 1);
	if (mscale != 0 && all != 0)
		return yarn_mscale(factor, mscale) / yarn_mscale(factor, all);
	return yarn_mscale(factor, 1);
}

/* Returns the index of the pair that makes the given number of turns over the original length. */
static double yarn_index(double turns, double n, double theta, double length)
{
	return n * log(length / (turns * 2 * PI)) / (2 * log(theta));
}

/* YaRN (arXiv 2309.00071): keeps high frequencies, divides low ones by the factor, and interpolates
 * between. */
static int scale_yarn(struct rope *rope, const struct levels *levels, double theta, struct err *err)
{
	const json_t *truncate = json_object_get(levels->scaling, "truncate");
	double length, factor, low, high;

	if (need(levels, "original_max_position_embeddings", &length, err))
		return -1;
	factor = number(levels, "factor",
			number(levels, "max_position_embeddings", length) / length);
	low = yarn_index(number(levels, "beta_fast", 32), (double)rope->n, theta, length);
	high = yarn_index(number(levels, "beta_slow", 1), (double)rope->n, theta, length);
	if (!json_is_false(truncate)) {
		low = floor(low);
		high = ceil(high);
	}
	low = fmax(low, 0);
	high = fmin(high, (double)rope->n - 1);
	if (low == high)
		high += 0.001;
	for (size_t i = 0; i < rope->n / 2; i++) {
		float ramp = fminf(fmaxf(((float)i - (float)low) / (float)(high - low), 0), 1);
		float slowed = 1.0f / ((float)factor * (1.0f / rope->inverse[i]));

		rope->inverse[i] = slowed * ramp + rope->inverse[i] * (1 - ramp);
	}
	rope->factor = (float)yarn_attention(levels, factor);
	return 0;
}

static int scale_none(struct rope *rope, const struct levels *levels, double theta, struct err *err)
{
	(void)rope, (void)levels, (void)theta, (void)err;
	return 0;
}

static const struct scaling_row {
	const char *type;
	int (*scale)(struct rope *rope, const struct levels *levels, double theta, struct err *err);
} scalings[] = {
	{ "default", scale_none },
	{ "linear", scale_linear },
	{ "llama3", scale_llama3 },
	{ "yarn", scale_yarn },
};

/* Gemma 3 on the hub: layers with a window have their own theta and no scaling. */
static void levels_local(struct levels *levels, const json_t *config, const char *layer_type,
			 double *theta)
{
	const json_t *local = json_object_get(config, "rope_local_base_freq");

	if (strcmp(layer_type, "sliding_attention") != 0 || !json_is_number(local) ||
	    json_object_get(config, "rope_parameters"))
		return;
	*theta = json_number_value(local);
	levels->scaling = NULL;
}

int rope_init(struct rope *rope, const json_t *config, const char *layer_type, size_t head_dim,
	      double part, struct err *err)
{
	struct levels levels;
	const char *type;
	double theta;

	levels_find(&levels, config, layer_type);
	theta = number(&levels, "rope_theta", DEFAULT_THETA);
	levels_local(&levels, config, layer_type, &theta);
	type = rope_type(&levels);
	*rope = (struct rope){ .factor = 1 };
	part = number(&levels, "partial_rotary_factor", part);
	rope->n = part > 0 && part <= 1 ? (size_t)((double)head_dim * part) : 0;
	if (rope->n == 0 || rope->n % 2 || rope->n > head_dim || !(theta > 1))
		return err_set(err, ERR_INPUT,
			       "config.json: rotary dimension %zu does not fit head_dim %zu "
			       "(theta %g)",
			       rope->n, head_dim, theta);
	rope->inverse = xcalloc(rope->n / 2, sizeof *rope->inverse);
	for (size_t i = 0; i < rope->n / 2; i++)
		rope->inverse[i] = 1.0f / powf((float)theta, (float)(2 * i) / (float)rope->n);
	for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
		if (!strcmp(type, scalings[i].type))
			return scalings[i].scale(rope, &levels, theta, err);
	return err_set(err, ERR_INPUT,
		       "config.json: rope_type '%s' is not supported (supported: default, "
		       "linear, llama3, yarn)",
		       type);
}

double rope_score_scale(const json_t *config)
{
	struct levels levels;
	double all, scale;

	levels_find(&levels, config, "full_attention");
	all = number(&levels, "mscale_all_dim", 0);
	if (!strcmp(rope_type(&levels), "default") || all == 0)
		return 1;
	scale = yarn_mscale(number(&levels, "factor", 1), all);
	return scale * scale;
}

void rope_release(struct rope *rope)
{
	free(rope->inverse);
	*rope = (struct rope){ 0 };
}

void rope_angles(const struct rope *rope, size_t position, float *cosines, float *sines)
{
	for (size_t i = 0; i < rope->n / 2; i++) {
		float angle = (float)position * rope->inverse[i];

		cosines[i] = cosf(angle) * rope->factor;
		sines[i] = sinf(angle) * rope->factor;
	}
}
