/* SPDX-License-Identifier: Apache-2.0 */
#include "arch/shared.h"

/* EXAONE 4: norms after attention and mlp, and of q and k; in a model with windows, only layers
 * with a window know positions. */
const struct arch arch_exaone4 = {
	.name = "exaone4",
	.architectures = { "Exaone4ForCausalLM" },
	.text_types = { "exaone4", "exaone4_5_text" },
	.vector = {
		NORMS_AFTER,
		QK_NORMS,
	},
	.rotating = ROTATING_WINDOWS_IF_ANY,
	.window_pattern = 4,
	.facts.keys = {
		{ "rms_norm_eps", "1e-05" },
		{ "sliding_window", "4096" },
		{ "sliding_window_pattern", NULL },
	},
};
