/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

/* ERNIE 4.5, dense: Llama with rotated pairs that are adjacent. */
const struct arch arch_ernie4_5 = {
	.name = "ernie4_5",
	.architectures = { "Ernie4_5ForCausalLM" },
	.adjacent_pairs = true,
	.tied = true,
	.facts.keys = { { "head_dim", "128" },
			{ "rms_norm_eps", "1e-05" },
			{ "rope_theta", "500000.0" } },
	.facts.ignored = { { "use_rmsnorm", "true" } },
};
