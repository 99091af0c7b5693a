/* SPDX-License-Identifier: Apache-2.0 */
#include "recipe/recipe.h"

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
