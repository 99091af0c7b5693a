/* SPDX-License-Identifier: Apache-2.0 */
#include "quantizer/history.h"

#include <stdlib.h>

#include "base/mem.h"

void history_init(struct history *history, size_t len, size_t n_slots)
{
	*history = (struct history){ .len = len, .n_slots = n_slots };
	history->amax = xcalloc(len * n_slots, sizeof *history->amax);
	history->scale = xcalloc(n_slots, sizeof *history->scale);
	history->fmax = xcalloc(n_slots, sizeof *history->fmax);
	for (size_t slot = 0; slot < n_slots; slot++)
		history->scale[slot] = 1;
}

void history_release(struct history *history)
{
	free(history->amax);
	free(history->scale);
	free(history->fmax);
	*history = (struct history){ 0 };
}

struct delayed_slots history_slots(const struct history *history, const float *reduced,
				   enum amax_algo algo)
{
	return (struct delayed_slots){ .len = history->len,
				       .n = history->n_slots,
				       .history = history->amax,
				       .scale = history->scale,
				       .fmax = history->fmax,
				       .reduced = reduced,
				       .algo = algo };
}
