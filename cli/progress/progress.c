/* SPDX-License-Identifier: Apache-2.0
 *
 * When progress is printed: the thread, the rate, the mode.  progress_line.c draws the bar.
 */
#include "cli/progress/progress.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/process.h"
#include "cli/program.h"
#include "cli/signals.h"

#define CLEAR	"\r\033[K"
#define COLUMNS 80

/* Returns the seconds between two reports. */
static double period(const struct ticker *ticker)
{
	if (ticker->mode == PROGRESS_JSON)
		return 1;
	return ticker->lines ? 5 : 0.2;
}

/* A step is the time since the last sample; a much longer one contains a pause. */
static void rate_add(struct rate *rate, const struct sample *sample, double now, double step)
{
	double passed = now - rate->last;
	size_t newest;

	if (rate->n && rate->phase != sample->phase)
		rate->n = 0;
	if (!rate->n) {
		rate->phase = sample->phase;
		rate->ring[0].working = rate->working;
		rate->ring[0].done = 0;
		rate->n = 1;
	}
	rate->working += passed > 4 * step ? step : passed;
	rate->last = now;
	newest = (rate->n - 1) % RATE_SAMPLES;
	if (rate->n > 1 && rate->working - rate->ring[newest].working < 1)
		return;
	newest = rate->n++ % RATE_SAMPLES;
	rate->ring[newest].working = rate->working;
	rate->ring[newest].done = sample->done;
}

static struct pace rate_pace(const struct rate *rate, const struct sample *sample)
{
	size_t oldest = rate->n > RATE_SAMPLES ? rate->n % RATE_SAMPLES : 0;
	double seconds = rate->working - rate->ring[oldest].working;
	double done = sample->done - rate->ring[oldest].done;
	struct pace pace = { .rate = NAN, .left = NAN };

	if (seconds > 0)
		pace.rate = done / seconds;
	if (pace.rate > 0 && sample->total > 0)
		pace.left = (sample->total - sample->done) / pace.rate;
	return pace;
}

/* The last columns stay empty, because a line that wraps cannot be cleared: a terminal shows "^C"
 * behind the bar when the user interrupts. */
static size_t bar_width(void)
{
	static const size_t room = sizeof "^C";
	struct winsize size = { 0 };

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > room)
		return size.ws_col - room;
	return COLUMNS - room;
}

static void tick(struct ticker *ticker)
{
	const struct watched *watched = &ticker->watched;
	struct json_out out;
	struct buf text = { 0 };
	struct sample sample = { 0 };
	struct pace pace;
	double now = process_now();

	watched->sample(watched->context, &sample);
	if (program.progress) {
		text_sanitize(sample.detail);
		program.progress(program.caller, &sample);
		return;
	}
	rate_add(&ticker->rate, &sample, now, period(ticker));
	pace = rate_pace(&ticker->rate, &sample);
	pace.seconds = now - ticker->began;
	if (ticker->mode == PROGRESS_JSON) {
		flockfile(program.objects);
		out = json_out_begin(program.objects);
		watched->json(watched->context, &sample, &pace, &out);
		json_out_end(&out);
		funlockfile(out.stream);
		return;
	}
	if (!sample.doing && sample.total <= 0)
		return; /* still planning: no work is done yet */
	text_sanitize(sample.detail);
	if (ticker->lines) {
		progress_line(&text, &sample, &pace);
		fprintf(program.err, "fp8conv %s: %s\n", program.command->name, text.data);
	} else {
		progress_bar(&text, &sample, &pace, bar_width());
		signals_clear_line(true);
		fprintf(program.err, CLEAR "%s", text.data);
		fflush(program.err);
	}
	buf_release(&text);
}

/* The next report is one period from now, not from the last report: after a stop (Ctrl-Z) there is
 * one report, not all the missed ones. */
static void *ticker_main(void *argument)
{
	struct ticker *ticker = argument;

	pthread_mutex_lock(&ticker->lock);
	while (!ticker->end) {
		double next = process_now() + period(ticker);
		struct timespec until;
		int rc = 0;

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

/* Can a line on standard error be drawn again? */
static bool can_redraw(void)
{
	const char *term = getenv("TERM");

	return program_on_terminal(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void ticker_start(struct ticker *ticker, enum progress_mode mode, const struct watched *watched)
{
	pthread_condattr_t attributes;
	double now = process_now();

	*ticker = (struct ticker){ .mode = mode,
				   .watched = *watched,
				   .began = now,
				   .rate = { .last = now },
				   .lines = mode == PROGRESS_AUTO && !program.progress &&
					    !can_redraw() };
	if ((mode == PROGRESS_NONE && !program.progress) || pthread_condattr_init(&attributes))
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
	if (ticker->mode == PROGRESS_JSON || program.progress)
		tick(ticker);
	if (signals_clear_line(false)) {
		fputs(CLEAR, program.err);
		fflush(program.err);
	}
	pthread_cond_destroy(&ticker->wake);
	pthread_mutex_destroy(&ticker->lock);
}
