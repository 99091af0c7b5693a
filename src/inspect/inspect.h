/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `inspect`: what a checkpoint is, from its headers and configuration.
 */
#ifndef FP8CONV_INSPECT_INSPECT_H
#define FP8CONV_INSPECT_INSPECT_H

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "amax/amax.h"
#include "ckpt/checkpoint.h"
#include "format/detect.h"

struct inspection {
	struct checkpoint checkpoint;
	bool is_amax; /* it is no checkpoint, but the history of a calibration: */
	struct amax_stats amax;
	/* recipe, format and scale_fmt detected; the scale of each FP8 weight */
	struct detection detection;
	const struct io *io;
	bool spooled; /* a stream: into */
	int stream_fd;
};

/* path: as checkpoint_open(), or "-" for a stream, which is spooled to temp_dir.  ERR_INTERRUPTED
 * where a signal stops that. */
int inspect_make(struct inspection *inspection, const struct io *io, const char *path,
		 const char *temp_dir, struct progress *progress, struct err *err);
void inspect_release(struct inspection *inspection);

#endif
