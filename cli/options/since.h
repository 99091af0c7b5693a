/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of --since OLD: those with which OLD was made, as its manifest records them.
 *
 * Order: since_options_read(), before the plan; since_options_check(), after it;
 * since_options_release().
 */
#ifndef FP8CONV_CLI_OPTIONS_SINCE_H
#define FP8CONV_CLI_OPTIONS_SINCE_H

#include <jansson.h>

#include "base/io.h"
#include "cli/command.h"

/* Begins zeroed. */
struct since_options {
	const char *base; /* OLD */
	json_t *manifest;
	size_t n_words;
	char **words; /* to which settings point */
};

/* Reads the recorded options into the settings of the command: those that the command line
 * (program.argv) does not give.  ERR_INPUT, ERR_USAGE where OLD is no output of this command, or
 * one that cannot be made without its directory. */
int since_options_read(struct since_options *since, const struct io *io, const char *base,
		       void *settings, struct err *err);

/* Compares the options of the plan with the recorded ones: ERR_USAGE with both values.  The numbers
 * of a calibration may be others, since each model has its own. */
int since_options_check(const struct since_options *since, const json_t *options, struct err *err);

void since_options_release(struct since_options *since);

#endif
