/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* EXAONE 4: norms after attention and mlp, and of q and k; in a model with windows, only layers
 * with a window know positions. */
const struct arch arch_exaone4 = {
	.name = "exaone4",
	.architectures = { "Exaone4ForCausalLM" },
	.text_types = { "exaone4", "exaone4_5_text" },
	.holders = "exaone4_5",
	.vector = {
		NORMS_AFTER,
		QK_NORMS,
	},
	.positions.rotating = ROTATING_WINDOWS_IF_ANY,
	.positions.window_pattern = 4,
	.facts.keys = {
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
};

/* K-EXAONE: norms before attention and mlp, and of q and k; experts in groups with sigmoid scores,
 * a shared expert; in a model with windows, only layers with a window know positions. */
const struct arch arch_exaone_moe = {
	.name = "exaone_moe",
	.architectures = { "ExaoneMoeForCausalLM" },
	.text_types = { "exaone_moe" },
	.vector = {
		QK_NORMS,
		[VECTOR_ROUTER_BIAS] = "mlp.e_score_correction_bias",
	},
	.positions.rotating = ROTATING_WINDOWS_IF_ANY,
	.routing.sigmoid = true,
	.positions.window_pattern = 4,
	.facts.shared = bias_facts,
	.facts.shared_ignored = bias_ignored,
	.facts.keys = {
		{ "rms_norm_eps", "1e-05" },
		{ "routed_scaling_factor", "2.5" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
	.facts.ignored = { { "is_moe_layer", NULL } },
};
