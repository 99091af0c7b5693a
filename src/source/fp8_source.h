/* SPDX-License-Identifier: Apache-2.0
 *
 * A source that holds FP8: what of it can be read, and through which scales.
 */
#ifndef FP8CONV_SOURCE_FP8_SOURCE_H
#define FP8CONV_SOURCE_FP8_SOURCE_H

#include "base/io.h"
#include "ckpt/checkpoint.h"
#include "format/detect.h"

/* The text of hf_quant_config.json beside the checkpoint, ModelOpt's own configuration, which older
 * ones have alone; empty where there is none. */
int fp8_source_hf_quant_config(const struct checkpoint *checkpoint, const struct io *io,
			       struct buf *text, struct err *err);

/* detection_make_with() the checkpoint's hf_quant_config.json, if it has one. */
int fp8_source_detect(struct detection *detection, const struct checkpoint *checkpoint,
		      const struct io *io, struct err *err);

/* The name of the recipe that makes such weights: "unknown" where nothing says how they are
 * quantized, NULL where nothing is FP8. */
const char *fp8_source_recipe(const struct detection *detection);

/* ERR_INPUT, naming the tensor, for types that cannot be read: FNUZ, and where is_quantized (by
 * quant_method `method`, or NULL) matrices of packed integers.  Not for scales. */
int fp8_source_check_type(const struct st_tensor *tensor, bool is_quantized, const char *method,
			  struct err *err);

/* detection_scale(), with ERR_INPUT also for blocks that no band can be cut at. */
int fp8_source_scale(const struct detection *detection, const struct tensor_ref *weight,
		     struct weight_scale *scale, struct err *err);

#endif
