/* SPDX-License-Identifier: Apache-2.0
 *
 * Which modules the entries of a skip list match, by the matcher of every engine:
 *
 *	vLLM			the module; the end of it (Ling); experts: their prefix in an entry
 *	SGLang			whole segments anywhere in the module
 *	transformers		a regular expression from the start to a boundary, or any end
 *	TensorRT-LLM		a glob of the whole module
 *	compressed-tensors	the module, or "re:" and a regular expression from the start
 *
 * A module is the path of a weight, without ".weight".  An entry that is meant for one module and
 * matches another one in some engine makes that engine read codes as weights.
 *
 * Order: skip_match_make(), the questions in any order, skip_match_free().
 *
 * Source: vLLM 7cfb97e, quant_utils.is_layer_skipped(); SGLang 0.5.23, quantization/fp8.py and
 * compressed_tensors/utils.py; transformers 5.23.0, quantizers_utils.should_convert_module();
 * compressed-tensors 0.20.0, utils/match.py.
 */
#ifndef FP8CONV_FORMAT_SKIP_MATCH_H
#define FP8CONV_FORMAT_SKIP_MATCH_H

#include <stddef.h>

/* A list of entries, arranged for questions.  A question takes the time of a few look-ups in a
 * table, and for each entry with wildcards that of a regular expression. */
struct skip_match;

/* Arranges n entries, which must outlive the result.  The caller frees it. */
struct skip_match *skip_match_make(const char *const *entries, size_t n);

/* Returns an entry that matches the module in some engine, or NULL.  For the experts of a layer in
 * one tensor, module may be the prefix that vLLM asks for: "model.layers.0.mlp.experts".  Changes
 * only memory of its own in match. */
const char *skip_match_conflict(struct skip_match *match, const char *module);

/* Returns an entry that lists the module, or NULL: the module, one above it, an end of its path at
 * a dot, a glob or a regular expression. */
const char *skip_match_lists(struct skip_match *match, const char *module);

void skip_match_free(struct skip_match *match);

#endif
