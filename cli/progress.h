/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching a job: a thread that reads struct progress now and then and says on standard error how
 * far it is.
 */
#ifndef FP8CONV_CLI_PROGRESS_H
#define FP8CONV_CLI_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>

#include "job/convert.h"

#define PROGRESS_MODES "auto|bar|json|none"
enum progress_mode { PROGRESS_AUTO, PROGRESS_BAR, PROGRESS_JSON, PROGRESS_NONE };

/* Zeroed is one that does not run. */
struct ticker {
	const char *command;
	enum progress_mode mode;
	const struct progress *progress;
	double began; /* units_now() */
	bool running;
	bool drawn; /* a bar stands on the terminal */
	pthread_t thread;
	pthread_mutex_t lock; /* of the rest */
	pthread_cond_t wake;
	const struct plan *plan; /* names the shards; NULL until it is known */
	bool end;
};

/* Where nothing can be started there is no progress to see; that is no error.  auto is the bar on a
 * terminal, else a line every 5 seconds from the fifth on. */
void ticker_start(struct ticker *ticker, const char *command, enum progress_mode mode,
		  const struct progress *progress);
void ticker_plan(struct ticker *ticker, const struct plan *plan);

/* Clears the bar; with PROGRESS_JSON a last object is printed.  For a ticker that does not run:
 * nothing. */
void ticker_stop(struct ticker *ticker);

#endif
