/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching a job: a thread that reads struct progress now and then and says on standard error how
 * far it is.
 */
#ifndef FP8CONV_CLI_PRINT_PROGRESS_H
#define FP8CONV_CLI_PRINT_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

#include "base/buf.h"
#include "cli/print/json.h"
#include "convert/convert.h"

#define PROGRESS_MODES "auto|bar|json|none"
enum progress_mode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_JSON, PROGRESS_NONE };

/* What is watched, and how it is told, `seconds` after the beginning. */
struct watched {
	const void *context;
	void (*text)(const void *context, double seconds, struct buf *text); /* one line */
	void (*json)(const void *context, double seconds,
		     struct json_out *out); /* members of an object */
};

/* Zeroed is one that does not run. */
struct ticker {
	const char *command;
	enum progress_mode mode;
	struct watched watched;
	double began; /* process_now() */
	bool running;
	bool drawn; /* a bar stands on the terminal */
	pthread_t thread;
	pthread_mutex_t lock; /* of the rest */
	pthread_cond_t wake;
	bool end;
};

/* Where nothing can be started there is no progress to see; that is no error.  auto is the bar on a
 * terminal, else a line every 5 seconds from the fifth on. */
void ticker_start(struct ticker *ticker, const char *command, enum progress_mode mode,
		  const struct watched *watched);

/* Clears the bar; with PROGRESS_JSON a last object is printed.  For a ticker that does not run:
 * nothing. */
void ticker_stop(struct ticker *ticker);

/* A job that goes through bytes: "1.20 GB of 14.9 GB, 2.31 GB/s, 6 s left,
 * model-00002-of-00004.safetensors". */
struct watched_bytes {
	const struct progress *progress;
};
struct watched watch_bytes(const struct watched_bytes *bytes);

/* The seconds left when `done` of `total` took `seconds`.  False: nobody knows. */
bool seconds_left(double done, double total, double seconds, double *left);

#endif
