/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kept tensors a configuration must name, and by which names the engines look for them.  An
 * engine that is told FP8 and finds no name builds an FP8 module and copies BF16 into it without a
 * scale.  `quantize` and `repack` write the list by these rules, and `verify` demands it.
 *
 * Source: vLLM 7cfb97e, quant_utils.is_layer_skipped() and compressed_tensors_moe.get_moe_method();
 * SGLang 0.5.23, quantization/utils.py and compressed_tensors/utils.py; transformers 5.23.0,
 * quantizers_utils.should_convert_module() and finegrained_fp8.replace_with_fp8_linear().
 */
#ifndef FP8CONV_SELECT_SKIP_LIST_H
#define FP8CONV_SELECT_SKIP_LIST_H

#include "base/mem.h"
#include "base/intern.h"
#include "ckpt/safetensors.h"
#include "format/format.h"
#include "names/role.h"
#include "select/profile.h"
#include "source/unit.h"

/* Returns how engines look for the tensor if it is kept.  A tensor is free if its name says
 * embedding, norm or convolution, or if it has four or more dimensions, or one, or holds integers,
 * or is a parameter without ".weight" with at most one dimension above 1.  facts: of its name. */
enum skip_need skip_need(const struct st_tensor *tensor, const struct role_facts *facts);

/* Whether the tensor looks like the experts of a layer: a float tensor of three dimensions, the
 * last two at least 32, outside of towers and projectors, and not free. */
bool skip_looks_like_experts(const struct st_tensor *tensor, const struct role_facts *facts);

/* The names of kept modules.  Zeroed: empty. */
struct skip_list {
	/* whose names of engines are added beside the checkpoint's; NULL: none */
	const struct profile *profile;
	unsigned on; /* conditions of its rows */
	size_t n;
	char **names; /* sorted by skip_list_sort() */
	struct arena texts;
	struct intern experts; /* prefixes that are added already */
};

/* Adds the names that engines of the format look for; format NULL: as for `hf`.  A free
 * tensor adds none. */
void skip_list_add(struct skip_list *list, const struct format *format,
		   const struct st_tensor *tensor, enum skip_need need);

/* Adds one name, and those by which engines know the module. */
void skip_list_add_module(struct skip_list *list, const char *module);

/* Takes a name out of the list. */
void skip_list_remove(struct skip_list *list, const char *name);

/* Sorts the names, and drops duplicates. */
void skip_list_sort(struct skip_list *list);
void skip_list_release(struct skip_list *list);

/* Returns the prefix of the experts that a tensor with SKIP_EXPERTS belongs to:
 * "model.layers.0.mlp.experts"; for a stack below no segment that ends in "experts", its parent and
 * ".experts".  The caller frees it. */
char *skip_experts_prefix(const char *name);

/* The endings of that prefix that engines of the format look for: "" or ".0.gate_proj" and so on,
 * NULL at the end. */
const char *const *skip_experts_endings(const struct format *format);

#endif
