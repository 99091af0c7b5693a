/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `inspect`: describes a checkpoint by its headers and configuration.
 *
 * Order: inspect_make(); inspect_stats() (stats.h) if values matter too; inspect_release().
 */
#ifndef FP8CONV_INSPECT_INSPECT_H
#define FP8CONV_INSPECT_INSPECT_H

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "amax/amax.h"
#include "ckpt/checkpoint.h"
#include "format/detect.h"
#include "format/low_bit.h"

struct inspection {
	struct checkpoint checkpoint;
	bool is_amax;		/* the input is not a checkpoint but an amax file, */
	struct amax_stats amax; /* which this describes */
	/* recipe, format and scale_fmt; the scale of each FP8 weight */
	struct detection detection;
	/* of the states of TransformerEngine's modules, as far as they can be read */
	struct amax_stats states;
	struct low_bit low_bit; /* its low-bit weights whose tensors fit */
	const struct io *io;
	bool spooled;  /* the input is a stream, whose bytes are in */
	int stream_fd; /* this temporary file */
};

struct inspect_params {
	const struct io *io;
	const char *path;     /* as in checkpoint_open(), or "-" for standard input, */
	const char *temp_dir; /* which is spooled here */
	struct texts renames; /* of its tensors */
};

/* Reads the headers and the configuration.  The caller releases the inspection, also on failure.
 * ERR_INPUT where the input is not a valid checkpoint or amax file; ERR_INTERRUPTED where a signal
 * stops the spooling. */
int inspect_make(struct inspection *inspection, const struct inspect_params *params,
		 struct progress *progress, struct err *err);
void inspect_release(struct inspection *inspection);

#endif
