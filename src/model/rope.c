/* SPDX-License-Identifier: Apache-2.0 */
#include "model/rope.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/words.h"
#include "model/facts.h"

#define PI 3.14159265358979323846

/* Where the numbers of a rope are. */
struct rope_json {
	const json_t *scaling; /* rope_parameters, or rope_scaling; NULL: neither */
	const json_t *facts;
};

static double number(const struct rope_json *levels, const char *key, double otherwise)
{
	const json_t *value = json_object_get(levels->scaling, key);

	return json_is_number(value) ? json_number_value(value) : otherwise;
}

static int need(const struct rope_json *levels, const char *key, double otherwise, double *value,
		struct err *err)
{
	*value = number(levels, key, otherwise);
	if (*value > 0 && isfinite(*value))
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: the rotary embedding needs a number '%s' above 0", key);
}

/* Reads the length for which the model was trained: transformers takes the key outside of the
 * scaling first, and max_position_embeddings last. */
static int need_length(const struct rope_json *levels, double *length, struct err *err)
{
	static const char key[] = "original_max_position_embeddings";
	double inner =
		number(levels, key, fact_number(levels->facts, "max_position_embeddings", 0));

	*length = fact_number(levels->facts, key, inner);
	if (*length > 0)
		return 0;
	return err_set(err, ERR_INPUT,
		       "config.json: the rotary embedding needs a number '%s' above 0", key);
}

static const json_t *filled_object(const json_t *facts, const char *key)
{
	const json_t *object = json_object_get(facts, key);

	return json_is_object(object) && json_object_size(object) ? object : NULL;
}

static int levels_find(struct rope_json *levels, const json_t *facts, const struct rope_use *use,
		       struct err *err)
{
	const json_t *parameters = filled_object(facts, "rope_parameters");
	const json_t *scaling = filled_object(facts, "rope_scaling");
	const json_t *inner = json_object_get(parameters, use->layer_type);

	if (parameters && scaling && !json_equal(parameters, scaling))
		return err_set(
			err, ERR_INPUT,
			"config.json has different objects 'rope_parameters' and "
			"'rope_scaling': remove the one that the model was not trained with");
	*levels = (struct rope_json){ parameters ? parameters : scaling, facts };
	if (json_is_object(inner))
		levels->scaling = inner;
	if (json_is_array(json_object_get(levels->scaling, "rope_theta")) ||
	    (!use->by_layer_type && json_is_array(json_object_get(facts, "rope_theta"))))
		return err_set(err, ERR_INPUT,
			       "config.json: 'rope_theta' is a list, which is not supported for "
			       "this architecture: give one number");
	if (use->by_layer_type &&
	    !(json_is_object(inner) && json_is_number(json_object_get(inner, "rope_theta"))))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding needs an object '%s' with a "
			       "number 'rope_theta' in 'rope_parameters' for layers of that type "
			       "('layer_types')",
			       use->layer_type);
	return 0;
}

static const char *rope_type(const struct rope_json *levels)
{
	const json_t *type = json_object_get(levels->scaling, "rope_type");

	if (!json_is_string(type))
		type = json_object_get(levels->scaling, "type");
	return json_is_string(type) ? json_string_value(type) : "default";
}

static int scale_linear(struct rope *rope, const struct rope_json *levels, double theta,
			struct err *err)
{
	double factor;

	(void)theta;
	if (need(levels, "factor", 0, &factor, err))
		return -1;
	for (size_t i = 0; i < rope->n / 2; i++)
		rope->inverse[i] /= (float)factor;
	return 0;
}

/* Llama 3: divides low frequencies by the factor, keeps high ones, and interpolates between. */
static int scale_llama3(struct rope *rope, const struct rope_json *levels, double theta,
			struct err *err)
{
	double factor, low, high, length;

	(void)theta;
	if (need(levels, "factor", 0, &factor, err) ||
	    need(levels, "low_freq_factor", 0, &low, err) ||
	    need(levels, "high_freq_factor", 0, &high, err) || need_length(levels, &length, err))
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

/* Reads the factor of cosines and sines. */
static int need_attention(struct rope *rope, const struct rope_json *levels, double otherwise,
			  struct err *err)
{
	double factor;

	if (need(levels, "attention_factor", otherwise, &factor, err))
		return -1;
	rope->factor = (float)factor;
	return 0;
}

static double yarn_mscale(double scale, double mscale)
{
	return scale <= 1 ? 1 : 0.1 * mscale * log(scale) + 1;
}

static double yarn_attention(const struct rope_json *levels, double factor)
{
	double mscale = number(levels, "mscale", 0), all = number(levels, "mscale_all_dim", 0);

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
static int scale_yarn(struct rope *rope, const struct rope_json *levels, double theta,
		      struct err *err)
{
	const json_t *truncate = json_object_get(levels->scaling, "truncate");
	double length, factor, fast, slow, low, high;

	if (need_length(levels, &length, err))
		return -1;
	if (need(levels, "factor", 0, &factor, err) || need(levels, "beta_fast", 32, &fast, err) ||
	    need(levels, "beta_slow", 1, &slow, err))
		return -1;
	low = yarn_index(fast, (double)rope->n, theta, length);
	high = yarn_index(slow, (double)rope->n, theta, length);
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
	return need_attention(rope, levels, yarn_attention(levels, factor), err);
}

/* Divides angles by the numbers of a list. */
static int divide(const struct rope *rope, const struct rope_json *levels, const char *key,
		  float *inverse, struct err *err)
{
	const json_t *list = json_object_get(levels->scaling, key);
	size_t n = rope->n / 2;

	if (!json_is_array(list) || json_array_size(list) != n)
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding needs a list '%s' of %zu numbers",
			       key, n);
	for (size_t i = 0; i < n; i++) {
		double factor = json_number_value(json_array_get(list, i));

		if (!(factor > 0))
			return err_set(err, ERR_INPUT,
				       "config.json: number %zu of '%s' is not above 0", i, key);
		inverse[i] = 1.0f / ((float)factor / inverse[i]);
	}
	return 0;
}

/* LongRoPE (arXiv 2402.13753): each pair of values has a divisor of its own, and another one in
 * sequences beyond the length of the training. */
static int scale_longrope(struct rope *rope, const struct rope_json *levels, double theta,
			  struct err *err)
{
	double length, factor, otherwise = 1;
	size_t size = rope->n / 2 * sizeof *rope->inverse;

	(void)theta;
	if (need_length(levels, &length, err) ||
	    need(levels, "factor",
		 fact_number(levels->facts, "max_position_embeddings", length) / length, &factor,
		 err))
		return -1;
	rope->inverse_long = xmalloc(size);
	memcpy(rope->inverse_long, rope->inverse, size);
	rope->long_from = (size_t)length;
	if (factor > 1)
		otherwise = sqrt(1 + log(factor) / log(length));
	if (need_attention(rope, levels, otherwise, err) ||
	    divide(rope, levels, "short_factor", rope->inverse, err))
		return -1;
	return divide(rope, levels, "long_factor", rope->inverse_long, err);
}

/* Hunyuan: the type is "dynamic", but alpha only changes theta, for texts of any length. */
static int scale_alpha(struct rope *rope, const struct rope_json *levels, double theta,
		       struct err *err)
{
	double alpha, n = (double)rope->n;

	if (need(levels, "alpha", 0, &alpha, err))
		return -1;
	theta *= pow(alpha, n / (n - 2));
	if (!isfinite(theta))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding's 'alpha' is %g, too large for "
			       "%zu rotated values",
			       alpha, rope->n);
	for (size_t i = 0; i < rope->n / 2; i++)
		rope->inverse[i] = 1.0f / powf((float)theta, (float)(2 * i) / (float)rope->n);
	return 0;
}

/* Gemma 4: the frequencies are as for a whole head; the pairs beyond the first ones, the part of
 * partial_rotary_factor, do not turn. */
static int scale_proportional(struct rope *rope, const struct rope_json *levels, double theta,
			      struct err *err)
{
	double part = number(levels, "partial_rotary_factor", 1), factor;
	size_t n_pairs = rope->n / 2;

	(void)theta;
	if (!(part >= 0 && part <= 1))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding's 'partial_rotary_factor' is %g, "
			       "not from 0 to 1",
			       part);
	if (need(levels, "factor", 1, &factor, err))
		return -1;
	for (size_t i = 0; i < n_pairs; i++)
		rope->inverse[i] = i < (size_t)floor(part * (double)rope->n / 2)
					   ? rope->inverse[i] / (float)factor
					   : 0;
	return 0;
}

static int scale_none(struct rope *rope, const struct rope_json *levels, double theta,
		      struct err *err)
{
	(void)rope, (void)levels, (void)theta, (void)err;
	return 0;
}

#define LONGROPE_KEYS \
	"attention_factor|factor|long_factor|short_factor|original_max_position_embeddings"
#define YARN_KEYS                                                            \
	"attention_factor|beta_fast|beta_slow|factor|mscale|mscale_all_dim|" \
	"original_max_position_embeddings|truncate"

static const struct scaling_row {
	const char *type;
	int (*scale)(struct rope *rope, const struct rope_json *levels, double theta,
		     struct err *err);
	const char *keys; /* that the type reads, or that it may ignore */
} scalings[] = {
	{ "deepseek_yarn", scale_yarn, YARN_KEYS }, /* its name in the releases of Sarvam */
	{ "default", scale_none, "" },
	{ "dynamic", scale_alpha, "alpha|beta_fast|beta_slow|factor|mscale|mscale_all_dim" },
	{ "linear", scale_linear, "factor" },
	{ "llama3", scale_llama3,
	  "factor|high_freq_factor|low_freq_factor|original_max_position_embeddings" },
	{ "longrope", scale_longrope, LONGROPE_KEYS },
	{ "proportional", scale_proportional, "factor|partial_rotary_factor" },
	{ "su", scale_longrope, LONGROPE_KEYS }, /* its name in older files */
	{ "yarn", scale_yarn, YARN_KEYS },
};

/* Keys that all types read, or that change no angle: positions of text are the same in each of the
 * sections of an image's position. */
static const char common_keys[] = "rope_theta|rope_type|type|partial_rotary_factor|mrope_section|"
				  "mrope_interleaved|finetuned|interleaved";

/* Keys of models whose queries grow with their position; transformers does not read the second
 * one. */
#define QUERY_BETA "llama_4_scaling_beta"
static const char query_keys[] = QUERY_BETA "|max_position_embeddings";

/* Refuses a key that the type does not read. */
static int check_keys(const struct rope_json *levels, const struct scaling_row *row,
		      const struct rope_use *use, struct err *err)
{
	json_t *value;
	const char *key;

	json_object_foreach((json_t *)levels->scaling, key, value)
	{
		bool of_type = words_find(row->keys, key) >= 0;
		bool part = !strcmp(key, "partial_rotary_factor") && !of_type && !use->whole &&
			    !use->by_layer_type && !json_object_get(levels->facts, key) &&
			    json_is_number(value) && json_number_value(value) != 1;
		bool of_queries = use->scales_queries && words_find(query_keys, key) >= 0;

		if (json_is_null(value) || json_is_object(value) || of_queries ||
		    (!part && (words_find(common_keys, key) >= 0 || of_type)))
			continue;
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding has the key '%s', which is not "
			       "supported with rope_type '%s'; remove it if it changes no angle",
			       key, row->type);
	}
	return 0;
}

static int apply_scaling(struct rope *rope, const struct rope_json *levels, double theta,
			 const struct rope_use *use, struct err *err)
{
	const char *type = rope_type(levels);

	for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++)
		if (!strcmp(type, scalings[i].type) &&
		    (use->alpha || scalings[i].scale != scale_alpha))
			return check_keys(levels, &scalings[i], use, err)
				       ? -1
				       : scalings[i].scale(rope, levels, theta, err);
	return err_set(
		err, ERR_INPUT,
		"config.json: the rotary embedding has rope_type '%s', which is not "
		"supported (supported: default, linear, llama3, longrope, proportional, yarn)",
		type);
}

/* Returns the base of the angles.  Gemma 3 has another one for layers with a window, whose angles
 * on the hub are never scaled. */
static double find_theta(struct rope_json *levels, const char *layer_type)
{
	double theta = fact_number(levels->facts, "rope_theta", 0);
	const json_t *local = json_object_get(levels->facts, "rope_local_base_freq");

	if (!strcmp(layer_type, "sliding_attention") && json_is_number(local)) {
		theta = json_number_value(local);
		if (!filled_object(levels->facts, "rope_parameters"))
			levels->scaling = NULL;
	}
	return number(levels, "rope_theta", theta);
}

/* Returns the part of a head that turns where the rope does not say: of a type of layers, what
 * config.json says besides is of the type "default" alone. */
static double part_otherwise(const struct rope_json *levels, const struct rope_use *use)
{
	if (use->by_layer_type && strcmp(rope_type(levels), "default") != 0)
		return 1;
	return fact_number(levels->facts, "partial_rotary_factor", 1);
}

int rope_init(struct rope *rope, const json_t *facts, const struct rope_use *use, struct err *err)
{
	struct rope_json levels = { 0 };
	size_t head_dim = use->head_dim;
	double theta, part;

	*rope = (struct rope){ .factor = 1 };
	if (levels_find(&levels, facts, use, err))
		return -1;
	theta = find_theta(&levels, use->layer_type);
	part = fact_number(facts, "rotary_dim", 0) / (double)head_dim;
	part = number(&levels, "partial_rotary_factor",
		      part > 0 ? part : part_otherwise(&levels, use));
	if (use->sized || !strcmp(rope_type(&levels), "proportional") ||
	    (use->whole && !strcmp(rope_type(&levels), "default")))
		part = 1;
	rope->n = part > 0 && part <= 1 ? (size_t)((double)head_dim * part) : 0;
	if (rope->n == 0 || rope->n % 2 || rope->n > head_dim || !(theta > 1))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding's dimension %zu does not fit "
			       "head_dim %zu (theta %g)",
			       rope->n, head_dim, theta);
	rope->inverse = xcalloc(rope->n / 2, sizeof *rope->inverse);
	for (size_t i = 0; i < rope->n / 2; i++)
		rope->inverse[i] = 1.0f / powf((float)theta, (float)(2 * i) / (float)rope->n);
	return apply_scaling(rope, &levels, theta, use, err);
}

int rope_query_scale(const json_t *facts, float *scale, size_t *step, struct err *err)
{
	const json_t *scaling = filled_object(facts, "rope_parameters");
	struct rope_json levels = { scaling ? scaling : filled_object(facts, "rope_scaling"),
				    facts };
	const json_t *beta = json_object_get(levels.scaling, QUERY_BETA);
	double length = number(&levels, "original_max_position_embeddings", 0);

	*scale = (float)json_number_value(beta);
	if (!json_is_number(beta) || !isfinite(*scale))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding needs a number '%s'", QUERY_BETA);
	if (!(length >= 1 && length <= 1e9))
		return err_set(err, ERR_INPUT,
			       "config.json: the rotary embedding needs a number "
			       "'original_max_position_embeddings' above 0");
	*step = (size_t)length;
	return 0;
}

double rope_score_scale(const json_t *facts)
{
	const json_t *scaling = filled_object(facts, "rope_parameters");
	struct rope_json levels = { scaling ? scaling : filled_object(facts, "rope_scaling"),
				    facts };
	double all = number(&levels, "mscale_all_dim", 0), scale;

	if (!strcmp(rope_type(&levels), "default") || all == 0)
		return 1;
	scale = yarn_mscale(number(&levels, "factor", 1), all);
	return scale * scale;
}

void rope_release(struct rope *rope)
{
	free(rope->inverse);
	free(rope->inverse_long);
	*rope = (struct rope){ 0 };
}

const float *rope_inverse(const struct rope *rope, size_t n_tokens)
{
	return rope->inverse_long && n_tokens > rope->long_from ? rope->inverse_long
								: rope->inverse;
}

void rope_angles(const struct rope *rope, const float *inverse, size_t position, float *cosines,
		 float *sines)
{
	for (size_t i = 0; i < rope->n / 2; i++) {
		float angle = (float)position * inverse[i];

		cosines[i] = cosf(angle) * rope->factor;
		sines[i] = sinf(angle) * rope->factor;
	}
}
