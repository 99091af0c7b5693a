/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of a calibration: tokens that went through all layers.
 */
#include <math.h>
#include <stdio.h>

#include "cli/print/calibration.h"

static void tokens_sample(const void *context, struct sample *sample)
{
	const struct watched_tokens *watched = context;
	const struct calibrate_progress *progress = watched->progress;
	double n_stages = (double)watched->n_stages;
	double loss = atomic_load(&progress->loss);
	uint64_t n_losses = atomic_load(&progress->tokens);

	sample->unit = "tokens";
	sample->done = floor((double)atomic_load(&progress->done) / n_stages);
	sample->total = (double)atomic_load(&progress->total) / n_stages;
	if (n_losses)
		snprintf(sample->detail, sizeof sample->detail, "perplexity %.3f",
			 exp(loss / (double)n_losses));
}

static void tokens_json(const void *context, const struct sample *sample, const struct pace *pace,
			struct json_out *out)
{
	const struct watched_tokens *watched = context;
	double loss = atomic_load(&watched->progress->loss);
	uint64_t n_losses = atomic_load(&watched->progress->tokens);

	json_out_count(out, "done", (uint64_t)sample->done);
	json_out_count(out, "total", (uint64_t)sample->total);
	json_out_real(out, "seconds", pace->seconds);
	json_out_real(out, "tokens_per_second", isfinite(pace->rate) ? pace->rate : 0);
	json_out_real(out, "seconds_left", pace->left);
	json_out_real(out, "perplexity", n_losses ? exp(loss / (double)n_losses) : NAN);
}

struct watched watch_tokens(const struct watched_tokens *tokens)
{
	return (struct watched){ tokens, tokens_sample, tokens_json };
}
