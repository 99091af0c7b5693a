/* SPDX-License-Identifier: Apache-2.0
 *
 * All experts of a layer in one 3-D tensor, as one matrix per expert and projection
 * (fp8conv-formats(7)): `experts.gate_up_proj` [E, 2I, H], gate first, and `experts.down_proj` [E,
 * H, I]; or both with the last two dimensions swapped.  The sizes decide the order; sizes that
 * allow both orders are an error.  In interleaved experts the rows of gate and up take turns (g0 u0
 * g1 u1), which no size shows.
 *
 * Order: experts_layout_find() once a layer, then experts_matrix() and experts_part_name() for
 * each expert and projection.
 */
#ifndef FP8CONV_NAMES_EXPERTS_H
#define FP8CONV_NAMES_EXPERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "names/config.h"

/* A matrix in a tensor: its element (r, c) is element first + r * row_stride + c * col_stride of
 * the tensor. */
struct slice {
	uint64_t first;
	uint64_t row_stride;
	uint64_t col_stride;
};

enum expert_part { EXPERT_GATE, EXPERT_UP, EXPERT_DOWN };

struct experts_layout {
	uint64_t n_experts;
	uint64_t hidden; /* H */
	uint64_t width;	 /* I */
	bool transposed; /* [E, H, 2I] and [E, I, H] */
	/* of 2I, the even ones are gate and the odd ones up; else gate comes first */
	bool interleaved;
};

/* What a tensor of all experts holds: the matrix [out, in] of each, or gate and up in one. */
enum experts_content {
	EXPERTS_UNKNOWN,
	EXPERTS_GATE,	     /* [E, I, H] */
	EXPERTS_UP,	     /* [E, I, H] */
	EXPERTS_DOWN,	     /* [E, H, I] */
	EXPERTS_GATE_UP,     /* [E, 2I, H], gate first */
	EXPERTS_INTERLEAVED, /* [E, 2I, H], rows of gate and up in turn */
};

struct experts_tensor {
	const char *name;      /* NULL: the layer has none */
	const uint64_t *shape; /* 3 dimensions, none of them 0 */
};

/* Finds the layout that fits the shapes of a layer's two tensors: gate first, which the caller may
 * change.  Of one tensor alone, config decides.  ERR_INPUT, with a tensor and a suggestion, where
 * the shapes contradict each other, or one alone contradicts config, or where both orders remain
 * possible. */
int experts_layout_find(struct experts_layout *layout, const struct experts_tensor *gate_up,
			const struct experts_tensor *down, const struct model_config *config,
			struct err *err);

/* Sets *rows, *cols and *slice to the matrix [out, in] of an expert in its tensor. */
void experts_matrix(const struct experts_layout *layout, enum expert_part part, uint64_t expert,
		    uint64_t *rows, uint64_t *cols, struct slice *slice);

/* The same for the vector of an expert in the bias of a tensor, (E, 2I) or (E, H): its element r is
 * element first + r * row_stride. */
void experts_bias(const struct experts_layout *layout, enum expert_part part, uint64_t expert,
		  uint64_t *rows, struct slice *slice);

/* Makes "PREFIX.experts.3.up_proj.weight" from "PREFIX.experts.gate_up_proj", which may end in
 * ".weight", or "PREFIX.experts.3.w3.weight" from Granite's "PREFIX.input_linear.weight"; what is
 * the last word, "weight" or "bias".  The caller frees the result. */
char *experts_part_name(const char *name, enum expert_part part, uint64_t expert, const char *what);

/* Returns the content of a tensor that holds all experts, by its last words, or EXPERTS_UNKNOWN.
 * What other layouts do with the same words, the caller knows: "X.up_proj.weight" may be a single
 * matrix. */
enum experts_content experts_content(const char *name);

/* Sets the sizes in the layout from a tensor (E, a, b).  ERR_INPUT where gate and up have an
 * odd number of rows. */
int experts_stack_sizes(struct experts_layout *layout, const struct experts_tensor *tensor,
			struct err *err);

/* Returns the length of the prefix that all experts of a layer have in common:
 * "model.layers.0.mlp.experts.".  Returns 0 for other names. */
size_t experts_prefix_len(const char *name);

/* The same for a tensor that holds all experts, whose name need not have the segment "experts":
 * "model.layers.3.moe." of "model.layers.3.moe.up_proj.weight". */
size_t experts_layer_len(const char *name);

#endif
