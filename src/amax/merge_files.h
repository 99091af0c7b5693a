/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `merge`: files of amax history into one.
 */
#ifndef FP8CONV_AMAX_MERGE_FILES_H
#define FP8CONV_AMAX_MERGE_FILES_H

#include "base/io.h"
#include "amax/merge.h"

struct merge_params {
	const struct io *io;
	const char **inputs; /* paths, at least two */
	size_t n_inputs;
	const char *output;
	enum amax_merge how;
};

/* Reads the inputs one after the other, holding two at most, and writes the output, whole or not at
 * all.  ERR_USAGE where the output is one of the inputs, ERR_INPUT where they do not belong
 * together. */
int merge_run(const struct merge_params *params, struct err *err);

#endif
