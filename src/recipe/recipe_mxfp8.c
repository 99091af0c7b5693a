/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/recipe.h"

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
