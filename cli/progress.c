/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "cli/json_out.h"
#include "cli/units.h"

/* Seconds from one word to the next. */
static double period(enum progress_mode mode)
{
	return mode == PROGRESS_BAR ? 0.2 : mode == PROGRESS_JSON ? 1 : 5;
}

/* What is said, taken at one moment. */
struct sample {
	uint64_t done, total;
	double seconds, rate;
	const char *shard; /* NULL: not known */
};

static struct sample sample_take(const struct ticker *ticker)
{
	const struct progress *progress = ticker->progress;
	size_t shard = atomic_load(&progress->shard);
	struct sample sample = {
		.done = atomic_load(&progress->done),
		.total = atomic_load(&progress->total),
		.seconds = units_now() - ticker->began,
	};

	if (sample.seconds > 0)
		sample.rate = (double)sample.done / sample.seconds;
	if (ticker->plan && shard < ticker->plan->n_shards)
		sample.shard = ticker->plan->shards[shard].name;
	return sample;
}

static bool seconds_left(const struct sample *sample, double *seconds)
{
	if (sample->rate <= 0 || sample->done > sample->total)
		return false;
	*seconds = (double)(sample->total - sample->done) / sample->rate;
	return true;
}

/* "1.20 GB of 14.9 GB, 2.31 GB/s, 6 s left, model-00002-of-00004.safetensors" */
static void sample_text(const struct sample *sample, struct buf *text)
{
	double left;

	units_size(text, sample->done);
	if (sample->total) {
		buf_puts(text, " of ");
		units_size(text, sample->total);
	}
	buf_puts(text, ", ");
	units_size(text, (uint64_t)sample->rate);
	buf_puts(text, "/s");
	if (seconds_left(sample, &left)) {
		buf_puts(text, ", ");
		units_duration(text, left);
		buf_puts(text, " left");
	}
	if (sample->shard)
		buf_printf(text, ", %s", sample->shard);
	text_sanitize(text->data);
}

static void print_json(const struct sample *sample)
{
	struct json_out out = { .stream = stderr };
	double left;

	json_out_open(&out, NULL, '{');
	json_out_count(&out, "done", sample->done);
	json_out_count(&out, "total", sample->total);
	json_out_real(&out, "seconds", sample->seconds);
	json_out_count(&out, "bytes_per_second", (uint64_t)sample->rate);
	if (seconds_left(sample, &left))
		json_out_real(&out, "seconds_left", left);
	else
		json_out_null(&out, "seconds_left");
	json_out_text(&out, "shard", sample->shard);
	json_out_end(&out);
}

/* A line that wraps could not be cleared: it is cut to the terminal's width. */
static void draw_bar(const struct buf *text)
{
	struct winsize size = { 0 };
	int width = 79;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
		width = size.ws_col - 1;
	fprintf(stderr, "\r\033[K%.*s", width, text->data);
	fflush(stderr);
}

static void tick(struct ticker *ticker)
{
	struct sample sample = sample_take(ticker);
	struct buf text = { 0 };

	if (ticker->mode == PROGRESS_JSON) {
		print_json(&sample);
		return;
	}
	sample_text(&sample, &text);
	if (ticker->mode == PROGRESS_BAR) {
		draw_bar(&text);
		ticker->drawn = true;
	} else {
		fprintf(stderr, "fp8conv %s: %s\n", ticker->command, text.data);
	}
	buf_release(&text);
}

static void *ticker_main(void *argument)
{
	struct ticker *ticker = argument;
	double next = ticker->began;

	pthread_mutex_lock(&ticker->lock);
	while (!ticker->end) {
		struct timespec until;
		int rc = 0;

		next += period(ticker->mode);
		until.tv_sec = (time_t)next;
		until.tv_nsec = (long)((next - (double)until.tv_sec) * 1e9);
		while (!ticker->end && rc != ETIMEDOUT)
			rc = pthread_cond_timedwait(&ticker->wake, &ticker->lock, &until);
		if (!ticker->end)
			tick(ticker);
	}
	pthread_mutex_unlock(&ticker->lock);
	return NULL;
}

void ticker_start(struct ticker *ticker, const char *command, enum progress_mode mode,
		  const struct progress *progress)
{
	pthread_condattr_t attributes;

	if (mode == PROGRESS_AUTO && isatty(STDERR_FILENO))
		mode = PROGRESS_BAR;
	*ticker = (struct ticker){
		.command = command, .mode = mode, .progress = progress, .began = units_now()
	};
	if (mode == PROGRESS_NONE || pthread_condattr_init(&attributes))
		return;
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&ticker->lock, NULL);
	pthread_cond_init(&ticker->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	ticker->running = pthread_create(&ticker->thread, NULL, ticker_main, ticker) == 0;
	if (!ticker->running) {
		pthread_cond_destroy(&ticker->wake);
		pthread_mutex_destroy(&ticker->lock);
	}
}

void ticker_plan(struct ticker *ticker, const struct plan *plan)
{
	if (!ticker->running)
		return;
	pthread_mutex_lock(&ticker->lock);
	ticker->plan = plan;
	pthread_mutex_unlock(&ticker->lock);
}

void ticker_stop(struct ticker *ticker)
{
	if (!ticker->running)
		return;
	pthread_mutex_lock(&ticker->lock);
	ticker->end = true;
	pthread_cond_signal(&ticker->wake);
	pthread_mutex_unlock(&ticker->lock);
	pthread_join(ticker->thread, NULL);
	ticker->running = false;
	if (ticker->mode == PROGRESS_JSON)
		tick(ticker);
	if (ticker->drawn) {
		fputs("\r\033[K", stderr);
		fflush(stderr);
	}
	pthread_cond_destroy(&ticker->wake);
	pthread_mutex_destroy(&ticker->lock);
}
