/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/recipe.h"

/* TransformerEngine's Float8CurrentScaling: whole tensors, HYBRID formats, scales from the tensor
 * itself. */
const struct recipe recipe_current = {
	.name = "current",
	.summary = "one scale per tensor, dynamic activations",
	.origin = "TransformerEngine Float8CurrentScaling",
	.input = { .format = FP8_E4M3, .tile = { WHOLE, WHOLE } },
	.weight = { .format = FP8_E4M3, .tile = { WHOLE, WHOLE } },
	.grad = { .format = FP8_E5M2, .tile = { WHOLE, WHOLE } },
};
