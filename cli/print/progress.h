/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching a job: a thread that reads its counters now and then and prints on standard error how
 * far it is: a bar on a terminal, else lines, or objects of JSON.
 */
#ifndef FP8CONV_CLI_PRINT_PROGRESS_H
#define FP8CONV_CLI_PRINT_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/progress.h"
#include "cli/print/json.h"

#define PROGRESS_MODES "auto|bar|json|none"
enum progress_mode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_JSON, PROGRESS_NONE };

/* What a job says of itself at one moment. */
struct sample {
	int phase;	    /* a rate is taken within one phase only */
	double done, total; /* total 0: not known; else at least done */
	const char *unit;   /* "tokens"; NULL: bytes */
	const char *doing;  /* "checking"; NULL: the job itself */
	char detail[256];   /* what is at hand: "model-00001-of-00004"; empty: nothing to name */
};

/* How fast it goes.  NAN: not known. */
struct pace {
	double seconds; /* since the start, pauses included */
	double rate;	/* units a second, over the last seconds of work */
	double left;	/* seconds */
};

struct watched {
	const void *context;
	void (*sample)(const void *context, struct sample *sample);
	/* The members of an object. */
	void (*json)(const void *context, const struct sample *sample, const struct pace *pace,
		     struct json_out *out);
};

/* Takes the rate of what was done in the last seconds.  A time in which the program was stopped
 * does not count. */
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

/* Zeroed is one that does not run. */
struct ticker {
	const char *command;
	enum progress_mode mode;
	struct watched watched;
	double began; /* process_now() */
	struct rate rate;
	bool lines; /* no terminal that obeys: whole lines */
	bool running;
	pthread_t thread;
	pthread_mutex_t lock; /* of the rest */
	pthread_cond_t wake;
	bool end;
};

/* Where no thread can be started there is no progress to see, which is no error.  auto is the bar
 * on a terminal (TERM unset or "dumb": lines), else a line every 5 seconds from the fifth on. */
void ticker_start(struct ticker *ticker, const char *command, enum progress_mode mode,
		  const struct watched *watched);

/* Clears the bar: nothing else may be printed before.  With PROGRESS_JSON a last object is printed.
 * For a ticker that does not run: nothing. */
void ticker_stop(struct ticker *ticker);

/* A job whose counters are a struct progress. */
struct watched watch_bytes(const struct progress *progress);

/* " 27% [=====>      ] 1.40/5.24 GB  1.00 GB/s   0:03  model-00002-of-00004", at most `width`
 * columns: what does not fit is left out, the percentage last. */
void progress_bar(struct buf *text, const struct sample *sample, const struct pace *pace,
		  size_t width);

/* "27%, 1.40/5.24 GB, 1.00 GB/s, 0:03 left, model-00002-of-00004" */
void progress_line(struct buf *text, const struct sample *sample, const struct pace *pace);

#endif
