/* SPDX-License-Identifier: Apache-2.0
 *
 * How engines split a linear weight over devices (tensor parallelism) and merge fused sets.  A
 * quantization tile must not cross a border between two devices or between two merged weights.
 *
 * Source: vLLM 7cfb97e, validate_fp8_block_shape(), QKVParallelLinear and MambaMixer2.
 */
#ifndef FP8CONV_NAMES_PARALLEL_H
#define FP8CONV_NAMES_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

#include "names/config.h"
#include "num/qspec.h"

enum parallel {
	PARALLEL_REPLICATED, /* every device has the whole weight; also unknown modules */
	PARALLEL_COLUMN,     /* out is split */
	PARALLEL_QKV,	     /* out is q, k and v on top of each other */
	PARALLEL_GATE_UP,    /* out is gate and up on top of each other */
	PARALLEL_MAMBA,	     /* out is z, x, B, C and dt of a Mamba-2 mixer, or one part */
	PARALLEL_ROW,	     /* in is split */
};

/* Rows of a weight that are split as one: all of them, or q's, k's, v's, gate's, up's or a part of
 * a mixer. */
struct section {
	uint64_t rows;
};

#define MAX_SECTIONS 5

/* Cuts the `rows` rows of a weight into the sections that are split one by one, and returns their
 * number.  Fused q, k and v are one section where config does not have the numbers of heads.
 * Returns 0 where the rows do not make that many heads. */
int parallel_sections(enum parallel parallel, const struct model_config *config, uint64_t rows,
		      struct section sections[MAX_SECTIONS]);

/* Whether the heads of attention can be split over tp devices: the heads of q in equal numbers,
 * the heads of k and v too, or each copied to an equal number of devices.  If not, *n becomes the
 * number of heads that cannot, and *what their name for a message.  Heads that config does not
 * have, or not as one number, fit.
 *
 * Source: vLLM 0.32, ModelConfig.verify_with_parallel_config() and QKVParallelLinear; SGLang
 * 0.5.23, qwen2.py and llama.py. */
bool tp_heads_fit(const struct model_config *config, uint64_t tp, uint64_t *n, const char **what);

/* A weight as tensor parallelism sees it. */
struct tp_split {
	enum parallel parallel;
	uint64_t rows, cols;
	struct tile tile;
	bool expert;	     /* its rows must be whole tiles even on one device */
	bool ends_fused_set; /* last of its set: on one device its last tile may be partial */
};

/* Returns what a dimension counts: "rows" for N, "columns" for K. */
const char *dimension_noun(char dimension);

/* Whether the weight can be split over tp devices.  If not, *dimension becomes the one that cannot:
 * 'N' (rows) or 'K' (columns). */
bool tp_split_fits(const struct tp_split *split, const struct model_config *config, uint64_t tp,
		   char *dimension);

#endif
