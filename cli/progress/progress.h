/* SPDX-License-Identifier: Apache-2.0
 *
 * Shows a running job: a thread reads its counters from time to time and prints them on standard
 * error: as a bar on a terminal, else as lines, or as JSON objects.
 *
 * Order: ticker_start(); the job; ticker_stop() before any other output.
 */
#ifndef FP8CONV_CLI_PRINT_PROGRESS_H
#define FP8CONV_CLI_PRINT_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/progress.h"
#include "cli/print/json.h"
#include "sweep/progress.h"

#define PROGRESS_MODES "auto|bar|json|none"
enum progress_mode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_JSON, PROGRESS_NONE };

/* The state of a job at one moment. */
struct sample {
	int phase;	    /* a rate is measured within one phase */
	double done, total; /* total 0: unknown; else at least done */
	const char *unit;   /* "tokens"; NULL: bytes */
	const char *doing;  /* "checking"; NULL: the job itself */
	char detail[256];   /* the current item: "model-00001-of-00004"; may be empty */
};

/* The speed of a job.  NAN: unknown. */
struct pace {
	double seconds; /* since the start, pauses included */
	double rate;	/* units a second, over the last seconds of work */
	double left;	/* seconds */
};

/* A job that can be shown. */
struct watched {
	const void *context;
	void (*sample)(const void *context, struct sample *sample);
	/* Adds the members of a JSON object. */
	void (*json)(const void *context, const struct sample *sample, const struct pace *pace,
		     struct json_out *out);
};

/* Measures the rate over the last seconds.  Time in which the process was stopped does not
 * count. */
#define RATE_SAMPLES 16
struct rate {
	int phase;
	double last;	/* process_now() of the last sample */
	double working; /* seconds until then, without pauses */
	size_t n;	/* ring[(n - 1) % RATE_SAMPLES] is the newest */
	struct {
		double working, done;
	} ring[RATE_SAMPLES];
};

/* The thread that shows a job.  A zeroed struct does not run. */
struct ticker {
	enum progress_mode mode;
	struct watched watched;
	double began; /* process_now() */
	struct rate rate;
	bool lines; /* not a terminal with control sequences: print whole lines */
	bool running;
	pthread_t thread;
	pthread_mutex_t lock; /* of the members below */
	pthread_cond_t wake;
	bool end;
};

/* Starts the thread.  Without a thread, progress is not shown; that is not an error.  PROGRESS_AUTO
 * shows the bar on a terminal (with TERM unset or "dumb": lines), else a line every 5 seconds from
 * the fifth second on. */
void ticker_start(struct ticker *ticker, enum progress_mode mode, const struct watched *watched);

/* Stops the thread and clears the bar; the caller prints nothing else before.  With PROGRESS_JSON a
 * last object is printed.  Does nothing if the ticker does not run. */
void ticker_stop(struct ticker *ticker);

/* Returns a job whose counters are a struct progress. */
struct watched watch_bytes(const struct progress *progress);

/* Sequences that go through the stages of a model: layers, and the head. */
struct watched_tokens {
	const struct sweep_progress *progress;
	size_t n_stages;
};
struct watched watch_tokens(const struct watched_tokens *tokens);

/* Writes " 27% [=====>  ] 1.40/5.24 GB  1.00 GB/s  0:03  model-00002-of-00004" in at most `width`
 * columns.  Parts that do not fit are left out, the percentage last; the item of a job in bytes
 * before its bar, that of another, which says how far the answer is, after bar and rate. */
void progress_bar(struct buf *text, const struct sample *sample, const struct pace *pace,
		  size_t width);

/* Writes "27%, 1.40/5.24 GB, 1.00 GB/s, 0:03 left, model-00002-of-00004". */
void progress_line(struct buf *text, const struct sample *sample, const struct pace *pace);

#endif
