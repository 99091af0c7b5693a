/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats read backwards: how a checkpoint is quantized, from its configuration and, where that is
 * silent, from names, types and shapes of its tensors.  It reads no weight and no scale, and judges
 * nothing: what is missing or does not fit is for `verify` to say.
 */
#ifndef FP8CONV_FORMAT_DETECT_H
#define FP8CONV_FORMAT_DETECT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "format/format.h"

/* How the scales of one FP8 weight are kept. */
struct weight_scale {
	const struct tensor_ref *scale;
	struct tile tile;	    /* of the weight; of each expert where it is 3-D */
	enum scale_type scale_type; /* SCALE_E8M0: exponents, typed U8 or F8_E8M0 */
	bool inverted;		    /* it divides: GPTQModel's 448 / amax */
};

/* Whose tiles and type a scale has. */
enum granularity weight_scale_granularity(const struct weight_scale *scale);

/* A zeroed struct is an empty one. */
struct detection {
	const char *format;    /* "hf", ..., another tool's name or "unknown"; NULL: not FP8 */
	const char *scale_fmt; /* "ue8m0" or "float"; NULL: not FP8 */
	struct scheme scheme;  /* of most FP8 weights, else what the configuration says */
	bool known;	       /* the scheme is, of a checkpoint that is FP8 */
	bool declared;	       /* the configuration says FP8 */
	bool inverted;	       /* weight scales divide */
	size_t n_weights;      /* FP8 matrices */

	/* What a conversion to something else drops, by name: every scale, of weights, inputs and
	 * caches, and tensors that describe them (comfy_quant). */
	const struct tensor_ref **scales;
	size_t n_scales;

	json_t *config;		   /* "quantization_config", an object; NULL if there is none */
	struct tile declared_tile; /* of the weights; {0, 0}: the configuration says none */
	const struct checkpoint *checkpoint;
};

/* checkpoint must outlive the detection.  ERR_INPUT: a configuration that is no good JSON. */
int detection_make(struct detection *detection, const struct checkpoint *checkpoint,
		   struct err *err);

/* The same for a model whose configuration is in hf_quant_config.json alone (older ModelOpt): the
 * text of that file; data NULL if there is none.  config.json wins. */
int detection_make_with(struct detection *detection, const struct checkpoint *checkpoint,
			struct json_text hf_quant_config, struct err *err);

/* The scale of an FP8 weight.  ERR_INPUT, naming both, where it has none, or one whose shape or
 * type fits no tiling. */
int detection_scale(const struct detection *detection, const struct tensor_ref *weight,
		    struct weight_scale *scale, struct err *err);

/* Is it one of detection.scales? */
bool detection_is_scale(const struct detection *detection, const struct tensor_ref *tensor);

/* Is it a matrix of FP8 codes (and no scale in FP8, as NVFP4 has)? */
bool detection_is_weight(const struct tensor_ref *tensor);

void detection_release(struct detection *detection);

#endif
