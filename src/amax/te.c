/* SPDX-License-Identifier: Apache-2.0 */
#include "amax/te.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "torch/te_state.h"

/* Appends a row in which something was observed. */
static void append_step(struct amax_site *site, const float amax[3])
{
	if (amax[AMAX_X] > 0 || amax[AMAX_W] > 0 || amax[AMAX_Y] > 0)
		amax_site_append(site, amax, amax[AMAX_X] > 0);
}

/* The amaxes of scale = max / amax / 2^margin; a scale of 1 is that of a tensor without amax. */
static void append_scales(struct amax_site *site, const struct te_state *state)
{
	float amax[3];

	for (int i = 0; i < 3; i++) {
		float scale = state->scale[i];

		amax[i] = scale > 0 && isfinite(scale) && scale != 1
				  ? ldexpf(state->max, -state->margin) / scale
				  : 0;
	}
	append_step(site, amax);
}

static void add_site(struct amax_stats *stats, const char *module, const struct te_state *state)
{
	struct amax_site *site = amax_stats_site(stats, module, AMAX_GEMM);

	for (size_t row = 1; row < state->n_rows; row++)
		append_step(site, &state->history[3 * row]);
	if (state->n_rows)
		append_step(site, state->history);
	if (!site->n_passes)
		append_scales(site, state);
	if (site->n_passes > stats->n_passes)
		stats->n_passes = site->n_passes;
}

int amax_state_add(struct amax_stats *stats, const struct amax_state *state, struct err *err)
{
	const struct pickle_text text = { state->name, state->bytes, state->n };
	struct te_state read = { 0 };
	char *module;
	int rc = te_state_read(&read, &text, err);

	if (!rc && read.n_columns == 3) {
		module = xstrndup(state->name,
				  (size_t)(text_after(state->name, '.') - state->name - 1));
		add_site(stats, module, &read);
		free(module);
	}
	te_state_release(&read);
	return rc;
}
