/* SPDX-License-Identifier: Apache-2.0
 *
 * A source with FP8 tensors: which of them can be read, and through which scales.
 */
#ifndef FP8CONV_SOURCE_FP8_SOURCE_H
#define FP8CONV_SOURCE_FP8_SOURCE_H

#include "base/io.h"
#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "format/detect.h"

/* Reads hf_quant_config.json beside the checkpoint into text: ModelOpt's own configuration, the
 * only one in older checkpoints.  text is empty if there is none. */
int fp8_source_hf_quant_config(const struct checkpoint *checkpoint, const struct io *io,
			       struct buf *text, struct err *err);

/* The same for params.json of Mistral's own layout, where engines read it: without config.json, or
 * where the weights lie in consolidated*.safetensors (vLLM 0.32 and SGLang 0.5.23 then take it
 * first). */
int fp8_source_params(const struct checkpoint *checkpoint, const struct io *io, struct buf *text,
		      struct err *err);

/* Does each scale of the scheme hold for whole heads of the model of params.json?  vLLM 0.32 sorts
 * the rows of each head in wq and wk, but not their weight_scale; latent attention has none. */
bool fp8_source_holds_heads(struct json_text params, const struct scheme *scheme);

/* Calls detection_make() with the checkpoint's hf_quant_config.json, if it has one. */
int fp8_source_detect(struct detection *detection, const struct checkpoint *checkpoint,
		      const struct io *io, struct err *err);

/* Returns the name of the recipe that makes such weights: "unknown" if nothing states how they are
 * quantized, NULL if no tensor is FP8. */
const char *fp8_source_recipe(const struct detection *detection);

/* ERR_INPUT, naming the tensor, for types that cannot be read: FNUZ, if is_quantized (by
 * quant_method `method`, or NULL) matrices of packed integers, and what foreign_tool() knows.  Do
 * not call it for scales and low-bit weights. */
int fp8_source_check_type(const struct checkpoint *checkpoint, const struct st_tensor *tensor,
			  bool is_quantized, const char *method, struct err *err);

/* Calls detection_scale().  ERR_INPUT also for block sizes at which no band can be cut. */
int fp8_source_scale(const struct detection *detection, const struct tensor_ref *weight,
		     struct weight_scale *scale, struct err *err);

#endif
