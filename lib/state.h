/* SPDX-License-Identifier: Apache-2.0
 *
 * A recipe state of the caller.
 */
#ifndef FP8CONV_LIB_STATE_H
#define FP8CONV_LIB_STATE_H

#include "lib/context.h"

struct fp8conv_state {
	struct fp8conv_context *context;
	struct recipe_state state;
	struct quantizer *quantizers; /* (state.n_slots) */
	struct fp8conv_state *next;   /* of the dead */
};

void state_free(struct fp8conv_state *state);

#endif
