/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "cli/print/progress.h"
#include "cli/print/units.h"

/* What is said, taken at one moment. */
struct sample {
	uint64_t done, total;
	double seconds, rate;
	const char *shard; /* NULL: not known */
};

static struct sample sample_take(const struct watched_bytes *bytes, double seconds)
{
	const struct progress *progress = bytes->progress;
	struct sample sample = {
		.done = atomic_load(&progress->done),
		.total = atomic_load(&progress->total),
		.seconds = seconds,
	};

	if (seconds > 0)
		sample.rate = (double)sample.done / seconds;
	sample.shard = atomic_load(&progress->name);
	return sample;
}

static bool sample_left(const struct sample *sample, double *left)
{
	return seconds_left((double)sample->done, (double)sample->total, sample->seconds, left);
}

static void bytes_text(const void *context, double seconds, struct buf *text)
{
	struct sample sample = sample_take(context, seconds);
	double left;

	units_size(text, sample.done);
	if (sample.total) {
		buf_puts(text, " of ");
		units_size(text, sample.total);
	}
	buf_puts(text, ", ");
	units_size(text, (uint64_t)sample.rate);
	buf_puts(text, "/s");
	if (sample_left(&sample, &left)) {
		buf_puts(text, ", ");
		units_duration(text, left);
		buf_puts(text, " left");
	}
	if (sample.shard)
		buf_printf(text, ", %s", sample.shard);
}

static void bytes_json(const void *context, double seconds, struct json_out *out)
{
	struct sample sample = sample_take(context, seconds);
	double left;

	json_out_count(out, "done", sample.done);
	json_out_count(out, "total", sample.total);
	json_out_real(out, "seconds", sample.seconds);
	json_out_count(out, "bytes_per_second", (uint64_t)sample.rate);
	if (sample_left(&sample, &left))
		json_out_real(out, "seconds_left", left);
	else
		json_out_null(out, "seconds_left");
	json_out_text(out, "shard", sample.shard);
}

struct watched watch_bytes(const struct watched_bytes *bytes)
{
	return (struct watched){ bytes, bytes_text, bytes_json };
}
