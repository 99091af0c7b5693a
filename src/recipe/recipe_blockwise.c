/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/recipe.h"

/* TransformerEngine's Float8BlockScaling: 128x128 tiles of w, 1x128 of x, power-of-two scales
 * (DeepSeek-V3.1 "ue8m0"). */
const struct recipe recipe_blockwise = {
	.name = "blockwise",
	.summary = "128x128 blocks, power-of-two scales, dynamic activations",
	.origin = "TransformerEngine Float8BlockScaling",
	.input = { .format = FP8_E4M3, .tile = { 1, 128 }, .pow2 = true },
	.weight = { .format = FP8_E4M3, .tile = { 128, 128 }, .pow2 = true },
	.grad = { .format = FP8_E4M3, .tile = { 1, 128 }, .pow2 = true },
};
