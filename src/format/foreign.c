/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources of names and types: the loaders of vLLM 0.32.0 (GPTQ, AWQ, compressed-tensors) and
 * transformers 5.23.0 (bitsandbytes, HQQ, AQLM, EETQ, VPTQ); MLX, nn/layers/quantized.py;
 * optimum-quanto, tensor/qbits.py; QuIP#, ExLlamaV2 and V3, Marlin: the buffers of their linear
 * layers; ModelOpt, export/quant_utils.py.
 */
#include "format/foreign.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define TYPE(dtype) (UINT64_C(1) << (dtype))
#define WORDS	    (TYPE(DT_I32) | TYPE(DT_U32))
#define BYTES	    (TYPE(DT_I8) | TYPE(DT_U8))
#define INTEGERS    (WORDS | BYTES | TYPE(DT_I16) | TYPE(DT_U16) | TYPE(DT_I64))
#define SCALES	    (TYPE(DT_F32) | TYPE(DT_F16) | TYPE(DT_BF16) | TYPE(DT_U8))

/* The last part of a tensor's name, its types, and the last part of another tensor's name that must
 * exist beside it; "": the name without its last part; NULL: none. */
static const struct foreign_row {
	const char *word;
	uint64_t types;
	const char *beside;
	const char *tool;
} rows[] = {
	{ "qweight", INTEGERS, NULL, "GPTQ or AWQ" },
	{ "qzeros", INTEGERS, NULL, "GPTQ or AWQ" },
	{ "weight_packed", INTEGERS, NULL, "compressed-tensors" },
	{ "weight", TYPE(DT_I8), "weight_scale", "compressed-tensors" },
	{ "absmax", SCALES, "", "bitsandbytes" },
	{ "SCB", SCALES, "weight", "bitsandbytes" },
	{ "weight", WORDS, "scales", "MLX" },
	{ "W_q", INTEGERS, NULL, "HQQ" },
	{ "codes", INTEGERS, "codebooks", "AQLM" },
	{ "weight", TYPE(DT_I8), "weight_scales", "EETQ" },
	{ "_data", BYTES | TYPE(DT_F8_E4M3), "_scale", "Quanto" },
	{ "Qidxs", INTEGERS, NULL, "QuIP#" },
	{ "indices", INTEGERS, "centroids.weight", "VPTQ" },
	{ "q_weight", INTEGERS, NULL, "ExLlamaV2" },
	{ "trellis", INTEGERS, NULL, "ExLlamaV3" },
	{ "B", INTEGERS, "s", "Marlin" },
	/* It multiplies the input of the layer: without it the weight is another one. */
	{ "pre_quant_scale", SCALES, "weight", "ModelOpt's AWQ" },
};

static bool is_beside(const struct checkpoint *checkpoint, const char *name, size_t n_stem,
		      const char *word)
{
	char *wanted;
	bool found;

	if (!word)
		return true;
	/* Without the dot where the stem itself is the name. */
	wanted = xasprintf("%.*s%s", (int)(*word || !n_stem ? n_stem : n_stem - 1), name, word);
	found = checkpoint_find(checkpoint, wanted) != NULL;
	free(wanted);
	return found;
}

const char *foreign_tool(const struct checkpoint *checkpoint, const struct st_tensor *tensor)
{
	const char *word = text_after(tensor->name, '.');

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].types >> tensor->dtype & 1 && *word == *rows[i].word &&
		    !strcmp(word, rows[i].word) &&
		    is_beside(checkpoint, tensor->name, (size_t)(word - tensor->name),
			      rows[i].beside))
			return rows[i].tool;
	return NULL;
}
