/* SPDX-License-Identifier: Apache-2.0
 *
 * The recipes.
 */
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

/* TransformerEngine's DelayedScaling: whole tensors, HYBRID formats, margin 0, scales from the
 * maximum of an amax history. */
const struct recipe recipe_delayed = {
	.name = "delayed",
	.summary =
		"one scale per tensor, static activations; needs the amax history of a calibration",
	.origin = "TransformerEngine DelayedScaling",
	.input = { .format = FP8_E4M3, .tile = { WHOLE, WHOLE } },
	.weight = { .format = FP8_E4M3, .tile = { WHOLE, WHOLE } },
	.grad = { .format = FP8_E5M2, .tile = { WHOLE, WHOLE } },
	.needs_history = true,
	.amax_history_len = 1024,
	.amax_algo = AMAX_MAX,
	.reduce_amax = true,
};

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

/* TransformerEngine's MXFP8BlockScaling: 32 elements along a row share an E8M0 exponent, rounded
 * up. */
const struct recipe recipe_mxfp8 = {
	.name = "mxfp8",
	.summary = "1x32 blocks, E8M0 scales rounded up, dynamic activations",
	.origin = "TransformerEngine MXFP8BlockScaling",
	.input = { .format = FP8_E4M3,
		   .tile = { 1, 32 },
		   .scale_type = SCALE_E8M0,
		   .mx_rule = MX_UP },
	.weight = { .format = FP8_E4M3,
		    .tile = { 1, 32 },
		    .scale_type = SCALE_E8M0,
		    .mx_rule = MX_UP },
	.grad = { .format = FP8_E4M3,
		  .tile = { 1, 32 },
		  .scale_type = SCALE_E8M0,
		  .mx_rule = MX_UP },
};
