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
static void append_scales(struct amax_site *site, const struct te_state *state, size_t product)
{
	float amax[3];

	for (int i = 0; i < 3; i++) {
		float scale = state->scale[3 * product + i];

		amax[i] = scale > 0 && isfinite(scale) && scale != 1
				  ? ldexpf(state->max, -state->margin) / scale
				  : 0;
	}
	append_step(site, amax);
}

/* The columns of a product are 3 x product: input, weight, output. */
static void add_site(struct amax_stats *stats, const char *module, const struct te_state *state,
		     size_t product)
{
	struct amax_site *site = amax_stats_site(stats, module, AMAX_GEMM);

	for (size_t row = 1; row < state->n_rows; row++)
		append_step(site, &state->history[row * state->n_columns + 3 * product]);
	if (state->n_rows)
		append_step(site, &state->history[3 * product]);
	if (!site->n_passes)
		append_scales(site, state, product);
	if (site->n_passes > stats->n_passes)
		stats->n_passes = site->n_passes;
}

int amax_state_add(struct amax_stats *stats, const struct amax_state *state, struct err *err)
{
	const struct pickle_text text = { state->name, state->bytes, state->n };
	struct te_state read = { 0 };
	int rc = te_state_read(&read, &text, err);
	size_t n = state->n_weights ? state->n_weights : 1;

	for (size_t i = 0; i < n && !rc && read.n_columns == 3 * n; i++) {
		const char *name = state->n_weights ? state->weights[i] : state->name;
		const char *end = state->n_weights ? ".weight" : "._extra_state";
		size_t cut = text_ends(name, end) ? strlen(end) : 0;
		char *module = xstrndup(name, strlen(name) - cut);

		add_site(stats, module, &read, i);
		free(module);
	}
	te_state_release(&read);
	return rc;
}
