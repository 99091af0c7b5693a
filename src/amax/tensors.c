/* SPDX-License-Identifier: Apache-2.0 */
#include "amax/tensors.h"

const struct amax_tensor amax_tensors[N_AMAX_PARTS] = {
	[AMAX_PART_HISTORY] = { ".amax_history", DT_F32, 2, { 0, 3 }, "F32 [passes, 3]" },
	[AMAX_PART_QKV] = { ".amax_history_qkv", DT_F32, 2, { 0, 3 }, "F32 [passes, 3]" },
	[AMAX_PART_TOKENS] = { ".tokens", DT_I64, 1, { 0 }, "I64 [passes]" },
	[AMAX_PART_HISTOGRAM] = { ".histogram", DT_U64, 2, { AMAX_BINS, 2 }, "U64 [2048, 2]" },
};

void *amax_site_part(const struct amax_site *site, enum amax_part part)
{
	switch (part) {
	case AMAX_PART_HISTORY:
		return site->kind == AMAX_GEMM ? site->history : NULL;
	case AMAX_PART_QKV:
		return site->kind == AMAX_ATTENTION ? site->history : NULL;
	case AMAX_PART_TOKENS:
		return site->tokens;
	default:
		return site->histogram;
	}
}

const struct amax_count amax_planned = { "passes_planned", offsetof(struct amax_stats, n_planned),
					 1, INT64_MAX };

const struct amax_count amax_counts[] = {
	{ "amax_history_len", offsetof(struct amax_stats, history_len), 1, AMAX_HISTORY_LEN_MAX },
	{ "passes", offsetof(struct amax_stats, n_passes), 0, INT64_MAX },
	{ "tokens", offsetof(struct amax_stats, n_tokens), 0, INT64_MAX },
	{ "seq_len", offsetof(struct amax_stats, seq_len), 0, INT64_MAX },
	{ 0 },
};

const struct amax_text amax_texts[] = {
	{ "model", offsetof(struct amax_stats, model) },
	{ "precision", offsetof(struct amax_stats, precision) },
	{ "backend", offsetof(struct amax_stats, backend) },
	{ 0 },
};
