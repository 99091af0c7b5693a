/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "cli/progress/progress.h"

static const struct {
	const char *doing; /* for people; NULL: the command's own job */
	const char *name;  /* in JSON */
} phases[] = {
	[PROGRESS_WORK] = { NULL, "work" },
	[PROGRESS_ROUND] = { "rounding", "round" },
	[PROGRESS_SPOOL] = { "reading standard input", "spool" },
	[PROGRESS_CHECK] = { "checking", "check" },
	[PROGRESS_HASH] = { "hashing", "hash" },
	[PROGRESS_SEND] = { "writing standard output", "send" },
};

static void bytes_sample(const void *context, struct sample *sample)
{
	const struct progress *progress = context;
	const char *name = atomic_load(&progress->name);

	sample->phase = (int)atomic_load(&progress->phase);
	sample->done = (double)atomic_load(&progress->done);
	sample->total = (double)atomic_load(&progress->total);
	if (sample->total > 0 && sample->done > sample->total)
		sample->done = sample->total;
	sample->doing = atomic_load(&progress->syncing) ? "syncing" : phases[sample->phase].doing;
	snprintf(sample->detail, sizeof sample->detail, "%s", name ? name : "");
}

static void bytes_json(const void *context, const struct sample *sample, const struct pace *pace,
		       struct json_out *out)
{
	(void)context;
	json_out_count(out, "done", (uint64_t)sample->done);
	json_out_count(out, "total", (uint64_t)sample->total);
	json_out_real(out, "seconds", pace->seconds);
	json_out_count(out, "bytes_per_second", isfinite(pace->rate) ? (uint64_t)pace->rate : 0);
	json_out_real(out, "seconds_left", pace->left);
	json_out_text(out, "shard", *sample->detail ? sample->detail : NULL);
	json_out_text(out, "phase", phases[sample->phase].name);
}

struct watched watch_bytes(const struct progress *progress)
{
	return (struct watched){ progress, bytes_sample, bytes_json };
}
