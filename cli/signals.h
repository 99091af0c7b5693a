/* SPDX-License-Identifier: Apache-2.0
 *
 * Signals that ask for the end.
 */
#ifndef FP8CONV_CLI_SIGNALS_H
#define FP8CONV_CLI_SIGNALS_H

#include <stdatomic.h>
#include <stdbool.h>

/* SIGPIPE and SIGXFSZ become errors of the write that meets them.  For the start of main(). */
void signals_to_errors(void);

/* From now on SIGINT, SIGTERM and SIGHUP leave their number in the result, for the job to see; a
 * second one ends the process at once, with status 128 + number.  One that was ignored at the start
 * (nohup) stays ignored. */
const atomic_int *signals_watch(void);

/* The number of the signal that came; 0: none. */
int signals_caught(void);

/* Says whether a line stands on the terminal that a signal which ends the process at once has to
 * clear; returns what held before. */
bool signals_clear_line(bool drawn);

#endif
