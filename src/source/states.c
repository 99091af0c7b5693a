/* SPDX-License-Identifier: Apache-2.0 */
#include "source/states.h"

#include <inttypes.h>
#include <stdlib.h>

#include "amax/te.h"
#include "base/mem.h"

#define STATE_LIMIT ((uint64_t)64 << 20) /* bytes; of 1024 steps they have 40,000 */

static int add_state(struct source *source, struct amax_stats *stats,
		     const struct extra_state *state, struct err *err)
{
	uint64_t n = st_tensor_size(state->ref.tensor);
	struct amax_state read = { .name = state->ref.tensor->name,
				   .bytes = state->bytes,
				   .n = (size_t)n,
				   .n_weights = state->n_weights };
	unsigned char *bytes = NULL;
	int rc = 0;

	if (n > STATE_LIMIT)
		return err_set(err, ERR_INPUT,
			       "state '%s' has %" PRIu64 " bytes, more than the limit (%" PRIu64
			       ")",
			       read.name, n, STATE_LIMIT);
	read.weights = xcalloc(state->n_weights + 1, sizeof *read.weights);
	for (size_t i = 0; i < state->n_weights; i++)
		read.weights[i] = state->weights[i]->name;
	if (!state->bytes) {
		read.bytes = bytes = xmalloc((size_t)n + 1);
		rc = n ? source_read_bytes(source, &state->ref, 0, (size_t)n, bytes, err) : 0;
	}
	rc = rc ? rc : amax_state_add(stats, &read, err);
	free(bytes);
	free(read.weights);
	return rc ? err_wrap(err, "'%s'", source->checkpoint->path) : 0;
}

int states_read(struct source *source, struct amax_stats *stats, struct err *err)
{
	const struct checkpoint *checkpoint = source->checkpoint;

	for (size_t i = 0; i < checkpoint->n_states; i++)
		if (add_state(source, stats, &checkpoint->states[i], err))
			return -1;
	return 0;
}
