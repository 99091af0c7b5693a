/* SPDX-License-Identifier: Apache-2.0
 *
 * The inference engines that load FP8 checkpoints: their names and refusals.  The row of a variant
 * (variant.h) has the engines that refuse it, with reasons; this file has the refusals that do not
 * depend on a format.
 *
 * Source: the loaders of vLLM 7cfb97e, SGLang 0.5.15, TensorRT-LLM, transformers 5.23.0.
 */
#ifndef FP8CONV_FORMAT_ENGINE_H
#define FP8CONV_FORMAT_ENGINE_H

#include <math.h>
#include <stdint.h>

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

/* Sets of engines. */
#define ENGINE_BIT(engine) (1u << (engine))
#define ENGINE_ALL_BITS                                                                    \
	(ENGINE_BIT(ENGINE_VLLM) | ENGINE_BIT(ENGINE_SGLANG) | ENGINE_BIT(ENGINE_TRTLLM) | \
	 ENGINE_BIT(ENGINE_TRANSFORMERS))

struct format;
struct scheme;

/* Whether the target is in the set; ENGINE_ANY: whether any engine is. */
bool engine_has_bit(unsigned set, enum engine target);

/* Finds the engine of a name in ENGINE_WORDS; NULL means ENGINE_ANY.  ERR_USAGE with the nearest
 * name. */
int engine_find(const char *name, enum engine *engine, struct err *err);
const char *engine_name(enum engine engine); /* "any" for ENGINE_ANY */

/* Checks that the format has the scheme and that the target, or with ENGINE_ANY some engine, loads
 * it.  ERR_USAGE with recipe, format and engine; recipe is a word for the message. */
int engine_check(enum engine target, const struct format *format, const struct scheme *scheme,
		 const char *recipe, struct err *err);

/* Whether the engine loads the scheme in this format by other names than those that are written
 * without a target. */
bool engine_wants_names(enum engine engine, const struct format *format,
			const struct scheme *scheme);

/* Whether the engine's loader of such models (config.json's model_type) gives scales of one number
 * that have transformers' names its own. */
bool engine_renames_scales(enum engine engine, const char *model_type);

/* Returns the reason for which an engine that loads the scheme refuses it in models with experts,
 * or NULL where the engine loads it, or the format does not have the scheme. */
const char *engine_refuses_experts(enum engine target, const struct format *format,
				   const struct scheme *scheme);

/* Returns the reason for which the target reads a weight of this shape wrong or not at all because
 * its last blocks are partial, or NULL. */
const char *engine_refuses_partial(enum engine target, const struct format *format,
				   const struct scheme *scheme, uint64_t rows, uint64_t cols);

/* Returns what the target, or with ENGINE_ANY some engine silently, does to a weight that it merges
 * with others where a part ends in a partial block of rows; NULL: it refuses the weight. */
const char *engine_misreads_merged(enum engine target, const struct format *format,
				   const struct scheme *scheme);

/* Returns the reason for which an engine that loads the scheme refuses it, or reads it wrong, in a
 * checkpoint with modules of other schemes; NULL where the engine loads it. */
const char *engine_refuses_beside(enum engine target, const struct format *format,
				  const struct scheme *scheme);

/* Whether the static input scales of the first and third matrix of an expert differ too much. */
static inline bool engine_refuses_input_scales(float w1, float w3)
{
	return fabsf(w1 - w3) > ENGINE_INPUT_SCALE_LIMIT;
}

#endif
