/* SPDX-License-Identifier: Apache-2.0
 *
 * Detection: reads from a checkpoint how it is quantized.  Its sources are the configuration and,
 * for facts that the configuration does not state, the names, types and shapes of tensors.  It
 * reads no weight and no scale.  It reports no problems, which `verify` does.
 *
 * Order: detection_make() once; then detection_scale(), detection_is_scale() and
 * detection_is_weight() in any order; detection_release().
 */
#ifndef FP8CONV_FORMAT_DETECT_H
#define FP8CONV_FORMAT_DETECT_H

#include <jansson.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "format/format.h"

/* The scale tensor of one FP8 weight. */
struct weight_scale {
	const struct tensor_ref *scale;
	struct tile tile;	    /* of the weight; of each expert where it is 3-D */
	enum scale_type scale_type; /* SCALE_E8M0: exponents, typed U8 or F8_E8M0 */
	bool inverted;		    /* the scale divides: GPTQModel's 448 / amax */
};

/* Returns the granularity that has the tile and the type of the scale. */
enum granularity weight_scale_granularity(const struct weight_scale *scale);

/* A zeroed struct is empty. */
struct detection {
	const char *format;    /* "hf", ..., another tool's name or "unknown"; NULL: not FP8 */
	const char *scale_fmt; /* "ue8m0" or "float"; NULL: not FP8 */
	struct scheme scheme;  /* that most FP8 weights have, else that of the configuration */
	bool known;	       /* the checkpoint is FP8 and the scheme is valid */
	bool declared;	       /* the configuration declares FP8 */
	bool inverted;	       /* weight scales divide */
	bool weight_only;      /* the configuration says that inputs stay in high precision */
	size_t n_weights;      /* FP8 matrices */

	/* Tensors that a conversion drops, by name: all scales of weights, inputs and caches, and
	 * tensors that describe these (comfy_quant). */
	const struct tensor_ref **scales;
	size_t n_scales;
	const struct tensor_ref *unread; /* the first of them that detection_is_unread(), or NULL */
	size_t n_unread;

	json_t *config;		   /* "quantization_config", an object; NULL: missing */
	struct tile declared_tile; /* of the weights; {0, 0}: the configuration has no tile */
	const struct checkpoint *checkpoint;
};

/* Detects how checkpoint is quantized.  hf_quant_config: the text of that file, where some models
 * of ModelOpt have their only configuration; data NULL: missing.  config.json wins.  The checkpoint
 * must outlive the detection, which the caller releases.  ERR_INPUT for a configuration that is not
 * valid JSON. */
int detection_make(struct detection *detection, const struct checkpoint *checkpoint,
		   struct json_text hf_quant_config, struct err *err);

/* Sets *scale to the scale of an FP8 weight.  ERR_INPUT, with both names, where the weight has no
 * scale or the scale's shape or type fits no tiling. */
int detection_scale(const struct detection *detection, const struct tensor_ref *weight,
		    struct weight_scale *scale, struct err *err);

/* Whether the tensor is in detection->scales. */
bool detection_is_scale(const struct detection *detection, const struct tensor_ref *tensor);

/* Whether the tensor is a matrix of FP8 codes, and not a scale in FP8, as NVFP4 has. */
bool detection_is_weight(const struct tensor_ref *tensor);

/* Does the tensor say something of an FP8 weight, which becomes *weight, or of keys or values in a
 * cache (*weight is NULL), under a name that no engine reads: "X.smooth_scale" beside "X.weight",
 * "A.kv_cache_scaling_factor"? */
bool detection_is_unread(const struct checkpoint *checkpoint, const struct tensor_ref *tensor,
			 const struct tensor_ref **weight);

void detection_release(struct detection *detection);

#endif
