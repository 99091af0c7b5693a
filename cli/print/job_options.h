/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a conversion as a user types them, from the object that a manifest or a table of
 * divergences has of them.
 */
#ifndef FP8CONV_CLI_PRINT_JOB_OPTIONS_H
#define FP8CONV_CLI_PRINT_JOB_OPTIONS_H

#include <jansson.h>

#include "base/buf.h"

/* Adds " --option value", the value as a shell reads it. */
void job_option_put(struct buf *out, const char *option, const char *value);

/* Is told of an option; value NULL: it takes none. */
typedef void job_option_fn(void *context, const char *option, const char *value);

/* Tells those options whose values are not the defaults, but for recipe, format and dtype.
 * calibration: the name of the amax file, if the job has one. */
void job_options_each(const json_t *options, const char *calibration, job_option_fn *fn,
		      void *context);

/* Adds them to a text. */
void job_options_put(struct buf *out, const json_t *options, const char *calibration);

#endif
