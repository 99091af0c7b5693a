/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/recipe.h"

/* compressed-tensors' FP8_DYNAMIC, for inference: rows of w, tokens of x.  It has no backward pass:
 * grad follows HYBRID. */
const struct recipe recipe_channelwise = {
	.name = "channelwise",
	.summary = "one scale per output channel, dynamic activations per token",
	.origin = "compressed-tensors FP8_DYNAMIC",
	.input = { .format = FP8_E4M3, .tile = { 1, WHOLE } },
	.weight = { .format = FP8_E4M3, .tile = { 1, WHOLE } },
	.grad = { .format = FP8_E5M2, .tile = { 1, WHOLE } },
};
