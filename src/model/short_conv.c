/* SPDX-License-Identifier: Apache-2.0
 *
 * Short convolutions, which add to their input what they make of it and of the tokens before: the
 * width of all, by config.json, and the channels of each.
 *
 * Source: transformers 5.23, modeling_inkling.py (InklingShortConvolution).
 */
#include "model/facts.h"
#include "model/steps.h"

#define MAX_WIDTH 65536

int short_conv_configure(struct model *model, const json_t *facts, struct err *err)
{
	const char *key = FACT_KEY(facts, "sconv_kernel_size", "conv_kernel_size");

	if (!json_object_get(facts, key))
		return 0;
	return fact_size(facts, key, MAX_WIDTH, &model->short_conv_width, err);
}

size_t short_conv_channels(const struct model *model, const struct layer_ref *layer, int role)
{
	switch (role) {
	case VECTOR_SHORT_CONV_K:
		return layer->n_kv_heads * layer->head_dim;
	case VECTOR_SHORT_CONV_V:
		return layer->n_kv_heads * layer->value_dim;
	case VECTOR_SHORT_CONV_ATTENTION:
	case VECTOR_SHORT_CONV_MLP:
		return model->hidden;
	default:
		return 0;
	}
}
