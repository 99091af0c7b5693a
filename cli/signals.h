/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals that end a job.
 *
 * Order: signals_to_errors() at the start of main(); signals_watch() before a job; signals_caught()
 * after it; signals_unwatch() at the end of main().
 */
#ifndef FP8CONV_CLI_SIGNALS_H
#define FP8CONV_CLI_SIGNALS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Turns SIGPIPE and SIGXFSZ into errors of the write that causes them. */
void signals_to_errors(void);

/* From now on SIGINT, SIGTERM and SIGHUP store their number in the returned variable, which the job
 * reads.  A second signal ends the process at once, with status 128 + number.  A signal that was
 * ignored at the start (nohup) stays ignored.  A run with program.stop returns that, and watches
 * nothing. */
const atomic_int *signals_watch(void);

/* Ends the watch.  The signals stay blocked until the process has ended. */
void signals_unwatch(void);

/* Returns the number of the received signal; 0 if there was none. */
int signals_caught(void);

/* Tells whether the terminal has a line that must be cleared if a signal ends the process at once.
 * Returns the value before. */
bool signals_clear_line(bool drawn);

#endif
