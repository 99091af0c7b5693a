/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/progress.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli/process.h"

/* Seconds from one word to the next. */
static double period(enum progress_mode mode)
{
	return mode == PROGRESS_BAR ? 0.2 : mode == PROGRESS_JSON ? 1 : 5;
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
	const struct watched *watched = &ticker->watched;
	double seconds = process_now() - ticker->began;
	struct json_out out = { .stream = stderr };
	struct buf text = { 0 };

	if (ticker->mode == PROGRESS_JSON) {
		json_out_open(&out, NULL, '{');
		watched->json(watched->context, seconds, &out);
		json_out_end(&out);
		return;
	}
	watched->text(watched->context, seconds, &text);
	text_sanitize(text.data);
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
		  const struct watched *watched)
{
	pthread_condattr_t attributes;

	if (mode == PROGRESS_AUTO && isatty(STDERR_FILENO))
		mode = PROGRESS_BAR;
	*ticker = (struct ticker){
		.command = command, .mode = mode, .watched = *watched, .began = process_now()
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

bool seconds_left(double done, double total, double seconds, double *left)
{
	if (done <= 0 || seconds <= 0 || done > total)
		return false;
	*left = (total - done) * seconds / done;
	return true;
}
