/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a pass through a model: tokens that went through all layers, each in part by the
 * work of the layers behind it.
 */
#include <math.h>
#include <stdio.h>

#include "cli/progress/progress.h"

/* Returns NAN until a loss is known, at the end of the first sweep. */
static double perplexity(const struct sweep_progress *progress)
{
	uint64_t n = atomic_load(&progress->tokens);

	return n ? exp(atomic_load(&progress->loss) / (double)n) : NAN;
}

/* Writes "perplexity 17.312 sweep 1/2 layer 19/30". */
static void put_place(char *text, size_t size, const struct watched_tokens *watched)
{
	const struct sweep_progress *progress = watched->progress;
	size_t layer = atomic_load(&progress->layer), n_layers = watched->n_stages - 1;
	struct buf place = { 0 };

	if (isfinite(perplexity(progress)))
		buf_printf(&place, "perplexity %.3f ", perplexity(progress));
	if (layer)
		buf_printf(&place, "sweep %zu/%zu ", atomic_load(&progress->sweep),
			   atomic_load(&progress->n_sweeps));
	if (layer > n_layers)
		buf_puts(&place, "output head ");
	else if (layer)
		buf_printf(&place, "layer %zu/%zu ", layer, n_layers);
	if (place.len)
		snprintf(text, size, "%.*s", (int)place.len - 1, place.data);
	buf_release(&place);
}

static void tokens_sample(const void *context, struct sample *sample)
{
	const struct watched_tokens *watched = context;
	double token = fmax(1, (double)atomic_load(&watched->progress->token));

	sample->unit = "tokens";
	sample->done = floor((double)atomic_load(&watched->progress->done) / token);
	sample->total = floor((double)atomic_load(&watched->progress->total) / token);
	put_place(sample->detail, sizeof sample->detail, watched);
}

static void tokens_json(const void *context, const struct sample *sample, const struct pace *pace,
			struct json_out *out)
{
	const struct watched_tokens *watched = context;
	const struct sweep_progress *progress = watched->progress;

	json_out_count(out, "done", (uint64_t)sample->done);
	json_out_count(out, "total", (uint64_t)sample->total);
	json_out_real(out, "seconds", pace->seconds);
	json_out_real(out, "tokens_per_second", isfinite(pace->rate) ? pace->rate : 0);
	json_out_real(out, "seconds_left", pace->left);
	json_out_real(out, "perplexity", perplexity(progress));
	json_out_count(out, "sweep", atomic_load(&progress->sweep));
	json_out_count(out, "sweeps", atomic_load(&progress->n_sweeps));
	json_out_count(out, "layer", atomic_load(&progress->layer));
	json_out_count(out, "layers", watched->n_stages - 1);
}

struct watched watch_tokens(const struct watched_tokens *tokens)
{
	return (struct watched){ tokens, tokens_sample, tokens_json };
}
