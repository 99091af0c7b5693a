/* SPDX-License-Identifier: Apache-2.0
 *
 * The inference engines that load what is written: their names, and what they refuse.  What one of
 * them refuses of one variant stands in that variant's row, with its reason; what is no matter of a
 * format stands here.
 *
 * Source: the loaders of vLLM 7cfb97e, SGLang 0.5.15, TensorRT-LLM, transformers 5.23.0.
 */
#ifndef FP8CONV_FORMAT_ENGINE_H
#define FP8CONV_FORMAT_ENGINE_H

#include "base/err.h"
#include "num/qspec.h"

enum engine {
	ENGINE_ANY,
	ENGINE_VLLM,
	ENGINE_SGLANG,
	ENGINE_TRTLLM,
	ENGINE_TRANSFORMERS,
	N_ENGINES
};
#define ENGINE_WORDS "vllm|sglang|trtllm|transformers" /* in the order of enum engine */

/* The weight loader of vLLM's and SGLang's FusedMoE raises "input_scales of w1 and w3 of a layer
 * must be equal" where the absolute difference of the two FP32 values is larger. */
#define ENGINE_INPUT_SCALE_LIMIT 1e-5f

struct format;
struct scheme;

/* One of ENGINE_WORDS; NULL is ENGINE_ANY.  ERR_USAGE with the nearest name. */
int engine_find(const char *name, enum engine *engine, struct err *err);
const char *engine_name(enum engine engine); /* "any" for ENGINE_ANY */

/* ERR_USAGE, naming recipe, format and engine, unless the format can say the scheme and the target
 * loads it; with ENGINE_ANY, unless some engine does.  recipe is a word for the message. */
int engine_check(enum engine target, const struct format *format, const struct scheme *scheme,
		 const char *recipe, struct err *err);

/* Why an engine that loads the scheme does not load it in models with experts; NULL: it does. */
const char *engine_refuses_experts(enum engine target, const struct format *format,
				   const struct scheme *scheme);

/* Why the target refuses sets of different schemes in one checkpoint; NULL: it does not. */
const char *engine_refuses_mixed(enum engine target, const struct format *format);

/* Whether the static input scales of the first and third matrix of an expert differ by more than
 * ENGINE_INPUT_SCALE_LIMIT. */
bool engine_refuses_input_scales(float w1, float w3);

#endif
